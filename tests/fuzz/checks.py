"""Jobs for experiments: run `netsim check` on a mutated one and judge its answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from . import corpus, experiments, judge
from .command import Outcome, run
from .judge import Finding

SECONDS = 20.0
"""Limit on the CPU time of a check; all points are small."""

MAX_POINTS_LOOKED_AT = 4


def check(number: int, scratch: Path) -> tuple[str, list[Finding]]:
    """Check experiment `number`; return "accepted" or "rejected", and the findings."""
    case = experiments.case(number)
    file = place(case, scratch)
    outcome = run(["check", str(file), *case.arguments], SECONDS)
    return verdict(outcome), list(_judged(case, outcome, file))


def place(case: experiments.Case, scratch: Path) -> Path:
    """Write the case's file next to the flow lists that experiments name; return it."""
    for name in corpus.LISTS:
        if not (scratch / name).exists():
            (scratch / Path(name).name).write_bytes((corpus.folder() / name).read_bytes())
    file = scratch / "e.toml"
    file.write_bytes(case.content)
    return file


def verdict(outcome: Outcome) -> str:
    """Return one word for the outcome."""
    return {0: "accepted", 2: "rejected"}.get(
        outcome.status if outcome.status is not None else -1, "?"
    )


def _judged(case: experiments.Case, outcome: Outcome, file: Path) -> Iterator[Finding]:
    yield from judge.command(outcome, (0, 2))
    if outcome.status == 2 and not outcome.trouble:
        key = case.changes[0].key if case.must_fail else ""
        yield from judge.names_place(outcome.err, key)
    if outcome.status == 0:
        if case.must_fail:
            change = case.changes[0]
            yield Finding("nonsense", "accepted", f"{change.key} {change.what}")
        yield from _sound(case, file)


def _sound(case: experiments.Case, file: Path) -> Iterator[Finding]:
    """Check that an accepted experiment is within integer range and fully stated when printed."""
    from netsim.experiment import Experiment
    from netsim.running.estimate import estimate

    pairs = zip(case.arguments[::2], case.arguments[1::2], strict=True)
    changes = [value if option == "--set" else f"seed={value}" for option, value in pairs]
    # A seed on the command line is applied after all other changes.
    points = Experiment.load(
        file, sorted(changes, key=lambda one: one.startswith("seed="))
    ).points()
    if not points:
        yield Finding("nonsense", "no points")
    for point in points[:MAX_POINTS_LOOKED_AT]:
        one = estimate(point)
        for name in ("n_hosts", "n_flows", "packets", "packet_hops", "memory_bytes", "seconds"):
            value = getattr(one, name)
            if not 0 <= value < 2**62:
                yield Finding("nonsense", f"{name} out of range", f"{name} = {value}")
        again = Experiment.from_tree(point.resolved, str(file), file.parent).points()
        if len(again) != 1 or again[0].resolved != point.resolved:
            yield Finding(
                "nonsense", "what is printed is another experiment", str(point.resolved)[:300]
            )
