"""The kinds of cases: how to run one, and its time limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import checks, experiments, files, hostile, plugins, reads, runs, states, tries
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


def _plugin(number: int) -> str:
    """Return the source of a broken plugin."""
    case = plugins.case(number)
    return f"# {number}: {case.kind}: {case.what}\n{case.source}"


JOBS = {
    "experiments": Kind(checks.check, _shown(experiments.case), 90.0),
    "runs": Kind(runs.run, _shown(experiments.tiny), 250.0),
    "files": Kind(reads.read_file, _file(files.case), 90.0),
    "hostile": Kind(reads.read_hostile, _file(hostile.case), 90.0),
    "states": Kind(states.go_on, str, 90.0),
    "results": Kind(reads.read_result, str, 90.0),
    "plugins": Kind(tries.run, _plugin, 250.0),
    "compiled_plugins": Kind(tries.run_compiled, _plugin, 250.0),
    "compiled": Kind(runs.run_compiled, _shown(experiments.compiled), 400.0),
}
