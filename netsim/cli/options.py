"""Options and arguments shared by commands."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from netsim.cli.names import complete
from netsim.errors import InputError, errors_at
from netsim.limits import THREADS
from netsim.units import written

if TYPE_CHECKING:
    from rich.table import Table

    from netsim.common.terminal import Wide
    from netsim.experiment import Experiment
    from netsim.results import Result

SLOWEST = "slowest"
RANK = re.compile(r"p([0-9]{1,2}(?:\.[0-9]{1,6})?|100)(:slowdown)?")
WHOLE = re.compile("[0-9]{1,18}")

PATH = click.Path(path_type=Path)
FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)

Command = TypeVar("Command", bound=Callable[..., Any])
Found = TypeVar("Found")


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return a decorator that adds options in this order."""
    return lambda command: reduce(lambda made, option: option(made), options[::-1], command)


def set_option(example: str, what: str = "value") -> Callable[[Command], Command]:
    return click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="PATH=VALUE",
        help=f"Change a {what}: --set {example}. May be repeated.",
    )


change_options = together(
    click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="PATH=VALUE",
        help='Change a value: --set traffic.size=1MB. A list ("[1, 2]") makes a sweep. Repeatable.',
    ),
    click.option(
        "--seed", metavar="SEED", help='Seed, or several: "1..10" (same as --set seed=SEED).'
    ),
)
"""The options that change an experiment or a plugin."""

experiment_options = together(
    click.argument("experiment", metavar="EXPERIMENT", shell_complete=complete("experiments")),
    change_options,
)
"""The argument EXPERIMENT and the options that change it."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def print_json(content: Any) -> None:
    """Print JSON."""
    from netsim.results.files import plain

    click.echo(json.dumps(plain(content), indent=2, ensure_ascii=False))


def show_lines(lines: Iterable[Table | Wide | str]) -> None:
    """Print tables and lines of text."""
    from netsim.common.terminal import show

    for line in lines:
        show(line) if not isinstance(line, str) else click.echo(line)


def show_found(
    found: Found,
    as_json: bool,
    tables: Callable[[Found], Iterable[Table | Wide | str]],
    content: Callable[[Found], Any],
) -> None:
    """Print tables and lines of text, or JSON."""
    if as_json:
        print_json(content(found))
    else:
        show_lines(tables(found))


threads_and_jobs = together(
    click.option(
        "--threads",
        type=click.IntRange(1, THREADS),
        help="Threads of each point (the cores, divided by the points at a time).",
    ),
    click.option(
        "--jobs",
        type=click.IntRange(1, THREADS),
        help="Points at a time, each in its own process (as cores, memory and points suggest).",
    ),
)
"""The options that divide the machine among points."""

trust_option = click.option(
    "--trust",
    is_flag=True,
    help="Run RESULT's own plugins, which are code: only if you trust their author.",
)

experiment_dir_option = click.option(
    "--experiment-dir",
    "directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Directory to search for files the experiment refers to.",
)


def load_experiment(written: str, overrides: Sequence[str], seed: str | None) -> Experiment:
    """Load the experiment that the shared options describe."""
    from netsim.experiment import Experiment, locate

    return Experiment.load(locate(written), _changes(overrides, seed))


def changed(loaded: Experiment, overrides: Sequence[str], seed: str | None) -> Experiment:
    """Return an experiment with the changes of the shared options."""
    changes = _changes(overrides, seed)
    return loaded.changed(changes) if changes else loaded


def _changes(overrides: Sequence[str], seed: str | None) -> list[str]:
    return [*overrides, *([] if seed is None else [f"seed={seed}"])]


def flow_number(result: Result, text: str) -> int:
    """Return the number of the flow that an option selects."""
    if WHOLE.fullmatch(text):
        return int(text)
    ranked = RANK.fullmatch(text)
    if text != SLOWEST and not ranked:
        hint = f'a whole number, "{SLOWEST}", or a rank, such as "p99" or "p99:slowdown"'
        raise InputError(f"{written(text)} is not a flow", key="--flow", hint=hint)
    flows = result.flows.drop_nulls("slowdown")
    if not len(flows):
        raise InputError(f"{text} needs a finished flow", key="--flow")
    if not ranked:
        return int(flows.sort("slowdown", descending=True)["flow"][0])
    place = math.ceil(len(flows) * Fraction(ranked[1]) / 100)
    by = "slowdown" if ranked[2] else "fct_ps"
    return int(flows.sort(by, "flow")["flow"][max(1, place) - 1])


def option_seconds(given: str | None, option: str) -> float | None:
    """Return the time of an option in seconds. Raises InputError if it is not positive."""
    if given is None:
        return None
    from netsim.units import parse_time_ps

    with errors_at(file=option):
        time_ps = parse_time_ps(given)
    if time_ps <= 0:
        raise InputError(f"{given} must be positive", file=option, hint='such as "60s"')
    return time_ps / 1e12
