"""The command `netsim` itself: its subcommands and what becomes of errors."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import IO, Any

import click

from netsim.cli.fonts import keep_fonts
from netsim.cli.interrupt import Interruption
from netsim.cli.streams import tolerate_closed_streams
from netsim.errors import InputError, RunError, did_you_mean
from netsim.renames import new_name
from netsim.units import written
from netsim.version import __version__

COMMANDS = {
    "run": ("netsim.cli.run", "Run an experiment and write its results."),
    "resume": ("netsim.cli.resume", "Go on with a run from its checkpoint."),
    "check": ("netsim.cli.check", "Check an experiment and predict what it takes."),
    "topo": ("netsim.cli.topo", "Count, price and draw an experiment's network."),
    "workload": (
        "netsim.workloads.cli.workload",
        "Show a training job: memory, times, messages, step.",
    ),
    "cost": (
        "netsim.workloads.cli.cost",
        "Compare GPUs by cost, power and what failures take.",
    ),
    "accuracy": ("netsim.cli.accuracy", "Hold transports against analytic results."),
    "reproduce": (
        "netsim.workloads.cli.reproduce",
        "Make a figure of the paper, beside what it states.",
    ),
    "list": ("netsim.cli.list", "List what there is to build experiments of."),
    "show": ("netsim.cli.show", "Show a plugin or an experiment."),
    "plot": ("netsim.cli.plot", "Draw a result."),
    "trace": ("netsim.cli.trace", "Show what one flow of a result did, or the critical path."),
    "new-transport": ("netsim.cli.new_transport", "Write a transport of your own to begin with."),
    "check-transport": ("netsim.cli.check_transport", "Try a transport on small networks."),
    "new-topology": ("netsim.cli.new_topology", "Write a topology of your own to begin with."),
    "new-queue": ("netsim.cli.new_queue", "Write a queue discipline of your own to begin with."),
    "check-queue": ("netsim.cli.check_queue", "Try a queue discipline on small networks."),
    "bench": ("netsim.cli.bench", "Measure the speed of standard cases on this machine."),
}
"""Name -> (module, which has the command as `command`; help in one line)."""

FAILED, WRONG, INTERRUPTED, ENDED = 1, 2, 130, 143
"""Exit statuses: the run failed, the input is wrong, Ctrl-C, SIGTERM."""


class Failure(click.ClickException):
    """A run that failed: the user is told in one message, without a traceback."""

    exit_code = FAILED

    def show(self, file: IO[Any] | None = None) -> None:
        for line in self.message.splitlines():
            click.echo(f"error: {line}", file=file or sys.stderr)


class Mistake(Failure):
    """Input that is wrong."""

    exit_code = WRONG


class Interrupted(Failure):
    """Ctrl-C where nothing can be saved."""

    exit_code = INTERRUPTED


class Ended(Failure):
    """SIGTERM, likewise."""

    exit_code = ENDED


class LazyGroup(click.Group):
    """A group that imports a command when it is needed, and turns errors into exit statuses."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command = import_module(COMMANDS[name][0]).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            hint = did_you_mean(args[0], COMMANDS)
            ctx.fail(f"there is no command {written(args[0])} ({hint})")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        interruption = Interruption(at_once=True)
        try:
            with interruption:
                return super().invoke(ctx)
        except click.NoSuchOption as error:
            options = [] if error.ctx is None else error.ctx.command.params
            new = new_name(error.option_name, [name for one in options for name in one.opts])
            if new is None:
                raise
            raise Mistake(f"{error.option_name}: renamed (write {new})") from None
        except InputError as error:
            raise Mistake(str(error)) from None
        except RunError as error:
            raise Failure(str(error)) from None
        except KeyboardInterrupt:
            kind = Ended if interruption.exit_code == ENDED else Interrupted
            raise kind("interrupted") from None


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="netsim")
def app() -> None:
    """Simulate datacenter networks packet by packet.

    EXPERIMENTS are TOML files, or names of those that come with netsim ("netsim list
    experiments"). Start with "netsim run p2p_512 --plot".

    \b
    Bash completes names of commands, experiments and plugins after this line (zsh, fish alike):
        eval "$(_NETSIM_COMPLETE=bash_source netsim)"
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script."""
    tolerate_closed_streams()
    keep_fonts(sys.argv[1:] if arguments is None else arguments)
    app.main(args=arguments, prog_name="netsim")
