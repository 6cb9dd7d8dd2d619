"""Options and arguments that several commands share."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from netsim.cli.names import complete

if TYPE_CHECKING:
    from netsim.experiment import Experiment

Command = TypeVar("Command", bound=Callable[..., Any])


def experiment_options(command: Command) -> Command:
    """The argument EXPERIMENT and the options that change it."""
    command = click.option(
        "--seed", metavar="SEED", help='Seed, or several: "1..10". Same as --set seed=SEED.'
    )(command)
    command = click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="PATH=VALUE",
        help='Change a value: --set traffic.size=1MB. May be given many times; a list ("[1, 2]") '
        "makes a sweep.",
    )(command)
    return click.argument(
        "experiment", metavar="EXPERIMENT", shell_complete=complete("experiments")
    )(command)


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def print_json(content: Any) -> None:
    """Print what a command found, for programs to read."""
    from netsim.results.files import plain

    click.echo(json.dumps(plain(content), indent=2, ensure_ascii=False))


def trust_option(command: Command) -> Command:
    """The option without which no code of a result is run."""
    return click.option(
        "--trust",
        is_flag=True,
        help="Run plugins that RESULT names or holds and that are not part of netsim: only if you "
        "know whose they are.",
    )(command)


def load_experiment(written: str, overrides: Sequence[str], seed: str | None) -> Experiment:
    """The experiment that the shared options describe."""
    from netsim.experiment import Experiment, locate

    changes = [*overrides]
    if seed is not None:
        changes.append(f"seed={seed}")
    return Experiment.load(locate(written), changes)
