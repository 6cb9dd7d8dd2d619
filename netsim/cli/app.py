"""The command `netsim`: subcommands, errors, exit statuses."""

from __future__ import annotations

import errno
import gc
import os
import shlex
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any, TextIO

import click

from netsim.cli.interrupt import Interruption
from netsim.common.discovery import applications
from netsim.errors import TRUST, InputError, RunError, did_you_mean
from netsim.units import written
from netsim.version import __version__

COMMANDS: dict[str, dict[str, tuple[str, str]]] = {
    "Simulate": {
        "run": ("netsim.cli.run", "Run an experiment and write its results."),
        "saturate": ("netsim.cli.saturate", "Find the load at which a network saturates."),
        "merge": ("netsim.cli.run:merge_command", "Merge the shards of a sweep."),
        "validate": ("netsim.cli.validate", "Compare with laws, machines and other simulators."),
        "bench": ("netsim.cli.bench", "Measure the simulator's speed on this machine."),
    },
    "Look": {
        "list": (
            "netsim.cli.show:list_command",
            "List transports, topologies, experiments and more.",
        ),
        "show": ("netsim.cli.show", "Show a plugin or an experiment."),
        "topo": ("netsim.cli.topo", "Count, price and draw an experiment's network."),
        "plot": ("netsim.cli.plot", "Plot a result."),
        "report": ("netsim.cli.compare:report_command", "Write one HTML page about results."),
        "compare": ("netsim.cli.compare", "Compare two results or sweeps."),
        "why": ("netsim.cli.why", "Explain what a flow, step or request waited for."),
        "trace": ("netsim.cli.trace", "Trace one flow of a result, packet by packet."),
    },
    "Build": {
        "check": ("netsim.cli.check", "Check an experiment or a plugin."),
        "new": ("netsim.cli.check:new_command", "Create a plugin."),
    },
}
"""Group -> command -> (module or module:attribute of the click command, one line of help).

Applications list theirs in `COMMANDS` of their package `cli`. A module that plots has `DRAWS`.
"""


def groups() -> dict[str, dict[str, tuple[str, str]]]:
    """Return the commands of netsim and its applications by group."""
    found = {group: dict(entries) for group, entries in COMMANDS.items()}
    for package in applications("cli"):
        for group, entries in package.COMMANDS.items():
            found.setdefault(group, {}).update(entries)
    return found


@cache
def commands() -> dict[str, str]:
    """Return the module, or module:attribute, of each command."""
    return {name: target for entries in groups().values() for name, (target, _) in entries.items()}


GIVEN = "netsim.given"  # key of the command-line arguments in a context

OBJECTS_PER_COLLECTION = 100_000
"""New objects before garbage is collected. By default, collections take an eighth of a short run,
since they scan all imported objects."""

FAILED, WRONG, INTERRUPTED, ENDED = 1, 2, 130, 143
"""Exit statuses: the run failed, the input is wrong, Ctrl-C, SIGTERM."""


class FailedRun(click.ClickException):
    """A failed run, or wrong input, reported without a traceback."""

    def __init__(self, message: str, status: int = FAILED) -> None:
        super().__init__(message)
        vars(self)["exit_code"] = status  # click declares it as a class variable

    def show(self, file: IO[Any] | None = None) -> None:
        for line in self.message.splitlines():
            click.echo(f"error: {line}", file=file or sys.stderr)


class LazyGroup(click.Group):
    """A group that imports commands on demand and turns errors into exit statuses."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(commands())

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in commands():
            return None
        module, _, attribute = commands()[name].partition(":")
        imported = import_module(module)
        if getattr(imported, "DRAWS", False):
            _keep_fonts()
        command = getattr(imported, attribute or "command")
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in commands() and not args[0].startswith("-"):
            hint = did_you_mean(args[0], commands())
            ctx.fail(f"unknown command {written(args[0])} ({hint})")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for group, found in groups().items():
            with formatter.section(group):
                formatter.write_dl([(name, text) for name, (_, text) in found.items()])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[GIVEN] = list(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        interruption = Interruption(at_once=True)
        try:
            with interruption:
                return super().invoke(ctx)
        except InputError as error:
            if error.hint == TRUST:
                command = shlex.join(["netsim", *ctx.meta[GIVEN], "--trust"])
                error = error.replace(hint=f"read it; then run it with: {command}")
            raise FailedRun(str(error), WRONG) from None
        except RunError as error:
            raise FailedRun(str(error)) from None
        except KeyboardInterrupt:
            status = ENDED if interruption.exit_code == ENDED else INTERRUPTED
            raise FailedRun("interrupted", status) from None


def _keep_fonts() -> None:
    """Keep matplotlib's font cache in netsim's cache, unless MPLCONFIGDIR is set. The user's
    settings (matplotlibrc) still apply."""
    if "MPLCONFIGDIR" in os.environ:
        return
    from netsim.engine.compiling.cache import own_folder

    folder = own_folder("matplotlib")
    if folder is None:
        return
    os.environ["MPLCONFIGDIR"] = str(folder)
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    settings = Path(base, "matplotlib", "matplotlibrc")
    if settings.is_file():
        os.environ.setdefault("MATPLOTLIBRC", str(settings))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="netsim")
def app() -> None:
    """Simulate datacenter networks packet by packet.

    EXPERIMENT is a TOML file or the name of a shipped experiment ("netsim list experiments").
    Start with "netsim run p2p_512 --plot".

    \b
    To complete commands, experiments and plugins in bash (zsh and fish likewise):
        eval "$(_NETSIM_COMPLETE=bash_source netsim)"
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the console script."""
    gc.set_threshold(OBJECTS_PER_COLLECTION)
    # netsim multiplies only small matrices. OpenBLAS's idle threads, one per core, would busy-wait
    # for a tenth of a second of processor time after NumPy is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    tolerate_closed_streams()
    try:
        app.main(args=arguments, prog_name="netsim")
    finally:
        gc.freeze()  # at exit, Python would scan all live objects: 0.07 s


NO_READER = (errno.EPIPE, errno.EBADF, errno.EIO)
"""Errors of a pipe without a reader (`| head -1`), a closed stream, a lost terminal."""


class Tolerant:
    """A text stream that discards output once it has no reader. Other errors, such as a full disk,
    raise RunError unless `always` is set."""

    def __init__(self, stream: TextIO, *, always: bool) -> None:
        self._stream = stream
        self._always = always

    def write(self, text: str) -> int:
        """Write to the stream."""
        try:
            return self._stream.write(text)
        except OSError as error:
            self._failed(error)
            return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        try:
            self._stream.flush()
        except OSError as error:
            self._failed(error)

    def _failed(self, error: OSError) -> None:
        # Discard the buffer, now and when Python exits.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)
        if error.errno not in NO_READER and not self._always:
            raise RunError(f"cannot write to standard output: {error.strerror}") from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def tolerate_closed_streams() -> None:
    """Make this process survive the loss of its standard streams."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # Occupy the lowest free number, so that no later file gets a standard stream's number.
            os.open(os.devnull, os.O_RDWR)
    nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, it stays open
    sys.stdout = Tolerant(sys.stdout or nowhere, always=False)
    sys.stderr = Tolerant(sys.stderr or nowhere, always=True)
