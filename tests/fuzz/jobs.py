"""The kinds of cases: how to run one, and its time limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import checks, experiments, files, hostile, reads, runs
from .workers import Job


@dataclass(frozen=True)
class Kind:
    """One kind of cases. `show` returns the text of a case."""

    job: Job
    show: Callable[[int], str]
    wall_s: float


def _shown(make: Callable[[int], experiments.Case]) -> Callable[[int], str]:
    """Return a function that shows an experiment's text and changes."""

    def show(number: int) -> str:
        case = make(number)
        text = case.content.decode("utf-8", "backslashreplace")
        text = "\n".join(line[:300] for line in text.split("\n"))
        return f"# {number}: {case.changes}\n# arguments: {case.arguments}\n{text}"

    return show


def _file(make: Callable[[int], files.Case]) -> Callable[[int], str]:
    """Return a function that shows a mutated file."""

    def show(number: int) -> str:
        case = make(number)
        return f"# {number}: {case.name}: {case.what}\n{case.content[:3000]!r}\n{case.experiment}"

    return show


JOBS = {
    "experiments": Kind(checks.check, _shown(experiments.case), 90.0),
    "runs": Kind(runs.run, _shown(experiments.tiny), 250.0),
    "files": Kind(reads.read_file, _file(files.case), 90.0),
    "hostile": Kind(reads.read_hostile, _file(hostile.case), 90.0),
    "results": Kind(reads.read_result, str, 90.0),
}
