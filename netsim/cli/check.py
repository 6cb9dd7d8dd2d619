"""`netsim check`: validate an experiment, print it in full, predict time and memory."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from netsim.cli.options import (
    experiment_options,
    json_option,
    load_experiment,
    option_seconds,
    print_json,
)
from netsim.steps import Steps, format_duration

if TYPE_CHECKING:
    from netsim.experiment import Point
    from netsim.running.estimate import Code, Estimate

START_S = 1.0
"""Time to start the interpreter and load libraries."""

BUILD_S = 5.0
"""Processor time after which no further point is built."""

NAMED_POINTS = 2
"""Named points per assumption; more are counted."""


@click.command("check")
@experiment_options
@click.option(
    "--ranks", type=click.IntRange(1), metavar="N", help="Predict memory for N ranks of --mpi."
)
@click.option(
    "--budget",
    metavar="TIME",
    default="60s",
    show_default=True,
    help="Propose the sample of a training job that distorts least in this time of simulation.",
)
@click.option("--all", "every", is_flag=True, help="Build every point, however long it takes.")
@json_option
def command(
    experiment: str,
    overrides: tuple[str, ...],
    seed: str | None,
    ranks: int | None,
    budget: str,
    every: bool,
    as_json: bool,
) -> None:
    """Check EXPERIMENT, print every value, and predict run time and memory.

    The keys of all points are checked. Networks and traffic are built, point by point, for 5 s of
    processor time; points that are then left are named. Points that exceed the memory of this
    machine are an error, unless --ranks is given.
    """
    from netsim.cli.tables import estimate_table
    from netsim.experiment.resolve_fabric import report_queue_sizes
    from netsim.results.files import plain
    from netsim.running.estimate import code_needed, require_memory
    from netsim.terminal import show
    from netsim.units import format_bytes

    loaded = load_experiment(experiment, overrides, seed)
    everything = loaded.points()
    budget_s = option_seconds(budget, "--budget")
    with Steps():
        points, estimates, skipped = predicted(everything, math.inf if every else BUILD_S, budget_s)

    def require_room() -> None:
        for point, one in zip(points, estimates, strict=True):
            if ranks is None:
                require_memory(one, what=point.file)

    if as_json:
        code = code_needed(points, [one.feature_set for one in estimates])
        print_json(
            {
                "seconds": seconds(estimates, code),
                "skipped": [point.name for point in skipped],
                "points": [
                    described(*both) | memory_of_ranks(both[1], ranks)
                    for both in zip(points, estimates, strict=True)
                ],
            }
        )
        require_room()
        return
    click.echo(json.dumps(plain(everything[0].resolved), indent=2, ensure_ascii=False))
    if len(everything) > 1:
        click.echo(f"\nThis is the first of {len(everything)} points. Axes:")
        for axis, values in loaded.axes.items():
            click.echo(f"  {axis} = {', '.join(str(value) for value in values)}")
    for line in report_queue_sizes(points):
        click.echo(line)
    for note in dict.fromkeys(note for one in estimates for note in one.notes):
        click.echo(note)
    for pfc in dict.fromkeys(one.pfc for one in estimates if one.pfc):
        click.echo(f"PFC: {pfc}")
    for note in dict.fromkeys(note for one in estimates for note in one.far):
        click.echo(f"Size: {note}")
    show(estimate_table([point.name for point in points], estimates))
    click.echo(total_line(estimates, code_needed(points, [one.feature_set for one in estimates])))
    for advice in estimates[0].advice:
        of_first = f" of {points[0].name}" if len(points) > 1 else ""
        click.echo(f"Sample{of_first}: {advice}")
    if skipped:
        names = ", ".join(point.name for point in skipped[:NAMED_POINTS])
        more = f" and {len(skipped) - NAMED_POINTS} more" if len(skipped) > NAMED_POINTS else ""
        click.echo(
            f"Without {len(skipped)} of {len(everything)} points, which were not built after "
            f"{BUILD_S:.0f} s: {names}{more} (--all builds them)"
        )
    for names, assumptions in assumed(points, estimates):
        click.echo(f"Assumed{names}: {assumptions}")
    largest = max(estimates, key=lambda one: one.memory_bytes)
    if of_ranks := memory_of_ranks(largest, ranks):
        first, other = (format_bytes(n_bytes, 3) for n_bytes in of_ranks["memory_of_ranks"])
        point = f", {points[estimates.index(largest)].name}" if len(points) > 1 else ""
        click.echo(
            f"With --mpi on {ranks:,} ranks{point}: about {first} on rank 0, "
            f"which gathers the result, and {other} on each other rank."
        )
    require_room()


def predicted(
    points: Sequence[Point], build_s: float, budget_s: float | None
) -> tuple[list[Point], list[Estimate], list[Point]]:
    """Return the points that could be built in that processor time, at least one, with their
    predictions, and the others."""
    from netsim.running.estimate import estimate_each

    found: dict[int, Estimate] = {}
    end = time.process_time() + build_s
    for point, one in estimate_each(points, budget_s):
        found[point.index] = one
        if time.process_time() > end:
            break
    built = [point for point in points if point.index in found]
    rest = [point for point in points if point.index not in found]
    return built, [found[point.index] for point in built], rest


def memory_of_ranks(estimate: Estimate, ranks: int | None) -> dict[str, tuple[int, int]]:
    """Return the memory of rank 0 and of each other rank, as an item of the prediction."""
    if ranks is None or estimate.memory is None:
        return {}
    return {"memory_of_ranks": estimate.memory.of_ranks(ranks)}


def total_line(estimates: Sequence[Estimate], code: Code) -> str:
    """Return one line with the predicted time of all points and its parts."""
    running = sum(one.seconds for one in estimates)
    around = START_S + sum(one.setup_seconds for one in estimates)
    kinds = f"{code.needed} combination{'s' * (code.needed != 1)} of transport and fabric"
    missing = f"{code.missing} of {kinds} to compile" if code.missing else f"{kinds} to load"
    return (
        f"Total: about {format_duration(seconds(estimates, code))}: "
        f"{format_duration(running)} of simulation, {format_duration(code.seconds)} of code "
        f"({missing}), {format_duration(around)} to set up and write."
    )


def seconds(estimates: Sequence[Estimate], code: Code) -> float:
    """Return the predicted time of all points, start-up included."""
    return START_S + code.seconds + sum(one.seconds + one.setup_seconds for one in estimates)


def described(point: Point, estimate: Estimate) -> dict[str, Any]:
    """Return a point and its prediction as JSON."""
    figures = {field.name: getattr(estimate, field.name) for field in fields(estimate)}
    del figures["feature_set"], figures["memory"]
    return {"point": point.name, "axes": point.axes, **figures, "experiment": point.resolved}


def assumed(points: Sequence[Point], estimates: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Yield each assumption with its points, or "" if it holds for all."""
    names: dict[str, list[str]] = {}
    for point, one in zip(points, estimates, strict=True):
        names.setdefault(one.assumptions, []).append(point.name)
    for assumptions, these in names.items():
        more = len(these) - NAMED_POINTS
        text = "; ".join(these[:NAMED_POINTS]) + (f" and {more} more" if more > 0 else "")
        yield (f" for {text}" if len(names) > 1 else ""), assumptions
