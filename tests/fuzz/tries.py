"""Jobs for broken plugins: netsim must report their errors and do no harm."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from . import judge, plugins, processes, results
from .command import Outcome
from .judge import Finding

SECONDS = 60.0


def run(number: int, scratch: Path) -> tuple[str, list[Finding]]:
    """Run plugin `number` with `netsim check` and `netsim run`, or `netsim check-KIND`."""
    return _try(number, scratch, {"NUMBA_DISABLE_JIT": "1"})


def run_compiled(number: int, scratch: Path) -> tuple[str, list[Finding]]:
    """Run plugin `number` compiled."""
    return _try(number, scratch, {})


def _try(number: int, scratch: Path, how: dict[str, str]) -> tuple[str, list[Finding]]:
    case = plugins.case(number)
    (scratch / "mine.py").write_text(case.source, "utf-8")
    (scratch / "e.toml").write_text(case.experiment)
    commands = [["check", "e.toml"], ["run", "e.toml", "--out", "out"]]
    kind = "traffic" if case.kind == "program" else case.kind
    if kind != "topology" and random.Random(number).random() < 0.5:
        commands = [[f"check-{kind}", "mine.py"]]
    words, found = [], []
    for arguments in commands:
        outcome = processes.run(arguments, scratch, SECONDS, how)
        words.append("slow" if outcome.status == 130 else f"{outcome.status}")
        for finding in _judged(outcome, arguments[0], scratch / "out"):
            detail = f"{arguments[0]} of {case.kind} with {case.what}: {finding.detail}"
            found.append(Finding(finding.kind, finding.what, detail))
        if outcome.status != 0:
            break
    return " ".join(words), found


def _judged(outcome: Outcome, command: str, out: Path) -> Iterator[Finding]:
    yield from judge.command(outcome, (0, 1, 2, processes.INTERRUPTED), plugin=True)
    said = outcome.err + outcome.out
    if outcome.status in (1, 2) and "mine" not in said and "e.toml" not in said:
        yield Finding("message", "does not name the plugin", outcome.err[-300:])
    if command == "run" and outcome.status == 0:
        if not results.folders(out):
            yield Finding("nonsense", "status 0 and no result", said[-300:])
        yield from results.judged(out, complete=True)
