"""Jobs that run what `netsim check` accepts, and check exit status and results."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from . import checks, experiments, judge, processes, results
from .command import Outcome
from .command import run as run_here
from .judge import Finding

MAX_PACKET_HOPS = 6_000
MAX_LINKS = 400
MAX_POINTS = 3
SECONDS = 45.0
PLAIN = {"NUMBA_DISABLE_JIT": "1"}


def run(number: int, scratch: Path) -> tuple[str, list[Finding]]:
    """Run small experiment `number` in its own process, if it is accepted."""
    case = experiments.tiny(number)
    file = checks.place(case, scratch)
    checked = run_here(["check", str(file)], checks.SECONDS)
    found = list(judge.command(checked, (0, 2)))
    if found or checked.status != 0:
        return checks.verdict(checked), found
    if not _small(file):
        return "large", []
    outcome, found = _once(file, scratch / "out")
    if number % 8 == 0 and not found and outcome.status in (0, 1):
        before = results.hashes(scratch / "out")
        second, found = _once(file, scratch / "again")
        if second.status == outcome.status and results.hashes(scratch / "again") != before:
            found.append(Finding("nonsense", "another hash in a second run", str(case.changes)))
        elif second.status not in (outcome.status, processes.INTERRUPTED):
            found.append(Finding("nonsense", "another exit status in a second run"))
    return {0: "complete", 1: "incomplete", 130: "slow"}.get(outcome.status or 0, "?"), found


def _small(file: Path) -> bool:
    from netsim.experiment import Experiment
    from netsim.running.estimate import estimate

    points = Experiment.load(file).points()
    estimates = [estimate(point) for point in points[:MAX_POINTS]]
    return (
        len(points) <= MAX_POINTS
        and sum(one.packet_hops for one in estimates) <= MAX_PACKET_HOPS
        and all(one.n_links <= MAX_LINKS for one in estimates)
    )


def _once(file: Path, out: Path) -> tuple[Outcome, list[Finding]]:
    shutil.rmtree(out, ignore_errors=True)
    outcome = processes.run(["run", str(file), "--out", str(out)], file.parent, SECONDS, PLAIN)
    return outcome, list(_judged(outcome, out))


def _judged(outcome: Outcome, out: Path) -> Iterator[Finding]:
    if outcome.status == 2:
        yield Finding("nonsense", "accepted by check, rejected by run", outcome.err[-400:])
        return
    yield from judge.command(outcome, (0, 1, processes.INTERRUPTED))
    if outcome.status in (0, 1):
        yield from results.judged(out, complete=outcome.status == 0)
