"""`netsim bench --against`: netsim beside another simulator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netsim.cli.options import Command, load_experiment
from netsim.common.steps import format_duration
from netsim.errors import InputError
from netsim.units import format_bytes, format_number, format_time

if TYPE_CHECKING:
    from rich.table import Table

    from netsim.experiment import Point
    from netsim.validation.against import Comparison, Turn

HOSTS, SIZE = (128,), "2MB"
"""Default case: the other simulator may need minutes for more."""

COSTS: dict[str, tuple[str, Callable[[float], str]]] = {
    "simulated_s": ("simulated part", format_duration),
    "whole_s": ("whole command", format_duration),
    "processor_s": ("processor time", format_duration),
    "peak_bytes": ("peak memory", lambda size: format_bytes(int(size), 3)),
}


def against_options(command: Command) -> Command:
    """Add the options of a comparison, as `against`, `experiment`, `overrides`,
    `repeats` and `time_limit`."""
    options = (
        click.option(
            "--against",
            type=click.Path(path_type=Path),
            metavar="PROGRAM",
            help="Run also PROGRAM, htsim_ndp, htsim_roce or htsim_uec, which you have built.",
        ),
        click.option("--experiment", metavar="EXPERIMENT", help="Compare on it instead of cases."),
        click.option(
            "--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Change the experiment."
        ),
        click.option("--repeats", type=click.IntRange(1), help="Runs of each simulator (3)."),
        click.option(
            "--time-limit",
            type=click.FloatRange(0, min_open=True),
            metavar="SECONDS",
            help="Longest run of either simulator (3600).",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def experiment_point(experiment: str, overrides: Sequence[str]) -> Point:
    """Return the only point of an experiment. Raises InputError if it is a sweep."""
    loaded = load_experiment(experiment, overrides, seed=None)
    points = loaded.points()
    if len(points) > 1:
        hint = " ".join(f"--set {axis}=VALUE" for axis in loaded.axes)
        raise InputError(f"a sweep of {len(points)} points", file=experiment, hint=hint)
    return points[0]


def standard_transport(program: Path) -> str:
    """Return the transport of a program, with netsim's preset for the rate of the cases."""
    from netsim.validation.htsim import find_peer

    return f"{find_peer(program).transport}:800g"


def compared(
    program: Path,
    points: Iterator[tuple[Point, int]],
    overrides: Sequence[str],
    repeats: int | None,
    time_limit: float | None,
) -> Iterator[tuple[str, Comparison]]:
    """Compare on points, each with its number of threads; yield a title and the comparison."""
    from netsim.validation.against import Limits, compare
    from netsim.validation.htsim import find_peer, peer_input

    peer = find_peer(program)
    if not program.is_file():
        raise InputError("no such program", file=str(program), code="unreadable")
    for point, threads in points:
        given = peer_input(peer, point)
        title = (
            f"{point.name}, {point.transport.name}: {given.n_hosts:,} hosts, "
            f"{given.flows.total():,} flows, threads: {threads}"
        )
        click.echo(title, err=True)
        limits = Limits(repeats or 3, threads, time_limit or 3600.0)
        changes = [word for change in overrides for word in ("--set", change)]
        own = [str(Path(point.file).resolve()), *changes]
        yield title, compare(own, program, given, limits, _note)


def _note(who: str, turn: Turn) -> None:
    whole_s, simulated_s = turn["whole_s"], turn["simulated_s"]
    text = f"{who}: {format_duration(whole_s)}, {format_duration(simulated_s)} of it simulated"
    click.echo(text, err=True)


def as_json(title: str, program: Path, found: Comparison) -> dict[str, Any]:
    """Return a comparison as JSON, with every run."""
    from netsim.validation.against import COMPLETION

    def medians(name: str, *keys: str) -> dict[str, float]:
        return dict(zip(keys, found.medians(name), strict=False))

    def run(turn: Turn) -> dict[str, Any]:
        completion = {name: turn[name] for name in COMPLETION}
        return {**{name: turn[name] for name in COSTS}, "completion_us": completion}

    return {
        "title": title,
        "program": str(program),
        "costs": {name: medians(name, "netsim", "peer", "ratio") for name in COSTS},
        "completion_us": {name: medians(name, "netsim", "peer") for name in COMPLETION},
        "runs": {
            who: [run(turn) for turn in turns]
            for who, turns in (("netsim", found.netsim), ("peer", found.peer))
        },
    }


def cost_table(program: Path, found: Comparison) -> Table:
    """Return the times and memory of both, and how many times more the other one takes."""
    rows = []
    for name, (text, formatted) in COSTS.items():
        own, other, ratio = found.medians(name)
        rows.append([text, formatted(own), formatted(other), format_number(ratio, 3)])
    return _table(("", "netsim", program.name, "ratio"), rows)


def completion_table(program: Path, found: Comparison) -> Table:
    """Return the completion times of both, and by how much netsim's differ."""
    from netsim.validation.against import COMPLETION

    rows = []
    for name in COMPLETION:
        own, other, _ = found.medians(name)
        times = [format_time(round(time_us * 1e6), 4) for time_us in (own, other)]
        rows.append([name, *times, f"{own / other - 1:+.1%}"])
    return _table(("completion", "netsim", program.name, "difference"), rows)


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    from netsim.common.terminal import plain_table

    table = plain_table(*headers)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        table.add_row(*row)
    return table
