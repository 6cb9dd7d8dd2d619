"""The command `netsim` itself: its subcommands and what becomes of errors."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import IO, Any

import click

from netsim.cli.fonts import keep_fonts
from netsim.cli.interrupt import Interruption
from netsim.cli.streams import tolerate_closed_streams
from netsim.discovery import applications
from netsim.errors import InputError, RunError, did_you_mean
from netsim.renames import new_name
from netsim.units import written
from netsim.version import __version__

COMMANDS: dict[str, dict[str, tuple[str, str]]] = {
    "Simulate": {
        "run": ("netsim.cli.run", "Run an experiment and write its results."),
        "resume": ("netsim.cli.resume", "Resume a run from its checkpoint."),
        "check": ("netsim.cli.check", "Check an experiment and predict time and memory."),
        "accuracy": ("netsim.cli.accuracy", "Compare transports with analytic results."),
        "bench": ("netsim.cli.bench", "Measure the simulator's speed on this machine."),
    },
    "Look": {
        "list": ("netsim.cli.list", "List transports, topologies, experiments and more."),
        "show": ("netsim.cli.show", "Show a plugin or an experiment."),
        "topo": ("netsim.cli.topo", "Count, price and draw an experiment's network."),
        "plot": ("netsim.cli.plot", "Plot a result."),
        "trace": ("netsim.cli.trace", "Trace one flow of a result, packet by packet."),
    },
    "Build": {
        "new-transport": ("netsim.cli.new_files:transport", "Create a transport."),
        "check-transport": ("netsim.cli.check_transport", "Test a transport."),
        "new-topology": ("netsim.cli.new_files:topology", "Create a topology."),
        "new-queue": ("netsim.cli.new_files:queue", "Create a queue discipline."),
        "check-queue": ("netsim.cli.check_queue", "Test a queue discipline."),
    },
}
"""Group -> command -> (module, or module:attribute, of the click command; its line of help).

An application lists its own in `COMMANDS` of its package `cli`.
"""


def groups() -> dict[str, dict[str, tuple[str, str]]]:
    """The commands by group, with those of applications."""
    found = {group: dict(entries) for group, entries in COMMANDS.items()}
    for package in applications("cli"):
        for group, entries in package.COMMANDS.items():
            found.setdefault(group, {}).update(entries)
    return found


@cache
def commands() -> dict[str, str]:
    """Command -> module, or module:attribute."""
    return {name: target for entries in groups().values() for name, (target, _) in entries.items()}


FAILED, WRONG, INTERRUPTED, ENDED = 1, 2, 130, 143
"""Exit statuses: the run failed, the input is wrong, Ctrl-C, SIGTERM."""


class FailedRun(click.ClickException):
    """A run that failed: the user is told in one message, without a traceback."""

    exit_code = FAILED

    def show(self, file: IO[Any] | None = None) -> None:
        for line in self.message.splitlines():
            click.echo(f"error: {line}", file=file or sys.stderr)


class WrongInput(FailedRun):
    """Input that is wrong."""

    exit_code = WRONG


class Interrupted(FailedRun):
    """Ctrl-C where nothing can be saved."""

    exit_code = INTERRUPTED


class Ended(FailedRun):
    """SIGTERM, likewise."""

    exit_code = ENDED


class LazyGroup(click.Group):
    """A group that imports a command when it is needed, and turns errors into exit statuses."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(commands())

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in commands():
            return None
        module, _, attribute = commands()[name].partition(":")
        command = getattr(import_module(module), attribute or "command")
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in commands() and not args[0].startswith("-"):
            hint = did_you_mean(args[0], commands())
            ctx.fail(f"there is no command {written(args[0])} ({hint})")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for group, found in groups().items():
            with formatter.section(group):
                formatter.write_dl([(name, text) for name, (_, text) in found.items()])

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
            raise WrongInput(f"{error.option_name}: renamed (write {new})") from None
        except InputError as error:
            raise WrongInput(str(error)) from None
        except RunError as error:
            raise FailedRun(str(error)) from None
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
