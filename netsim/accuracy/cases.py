"""A case: something to measure, and the rows that compare it with what others say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from netsim.discovery import applications

GROUPS: dict[str, str] = {
    "closed_forms": "netsim.accuracy.closed_forms",
    "reference": "netsim.accuracy.reference",
    "theory": "netsim.accuracy.theory",
    "routing": "netsim.accuracy.routing",
    "simulators": "netsim.accuracy.simulators",
    "uec_outcomes": "netsim.accuracy.uec_outcomes",
    "predictions": "netsim.accuracy.blind",
}
"""Group -> module with a function `cases`. Applications list theirs in `GROUPS` of their package
`accuracy`; those of a group that both have come last."""

ROUNDING = 1e-12
"""Relative error of a quotient of exact numbers."""


class Verdict(StrEnum):
    """Whether a row's values agree."""

    PASS = "pass"
    FAIL = "fail"
    NEEDS_DATA = "needs data"


@dataclass(frozen=True)
class Tolerance:
    """The largest relative deviation at which a row passes, and why it is not smaller."""

    share: float
    why: str


EXACT = Tolerance(0.0, "the law is exact")


@dataclass(frozen=True)
class Row:
    """One quantity: our value and theirs.

    `spread` is the range of their values where they have several: any value within it deviates by
    0, others by their distance to it. `why` explains a deviation beyond the tolerance, which fails
    nevertheless. Our value is None if it was not measured.
    """

    name: str
    ours: float | None
    theirs: float | None
    unit: str
    tolerance: Tolerance
    source: str
    why: str = ""
    spread: tuple[float, float] | None = None

    @property
    def error(self) -> float | None:
        """Ours over theirs, minus one."""
        if self.ours is None or not self.theirs:
            return None
        return self.ours / self.theirs - 1

    @property
    def verdict(self) -> Verdict:
        if self.ours is None or self.theirs is None:
            return Verdict.FAIL if self.why else Verdict.NEEDS_DATA
        low, high = self.spread or (self.theirs, self.theirs)
        room = self.tolerance.share + ROUNDING
        inside = low - room * abs(low) <= self.ours <= high + room * abs(high)
        return Verdict.PASS if inside else Verdict.FAIL

    def record(self) -> dict[str, Any]:
        """Return the row as a flat table row."""
        low, high = self.spread or (None, None)
        return {
            "name": self.name,
            "ours": self.ours,
            "theirs": self.theirs,
            "theirs_low": low,
            "theirs_high": high,
            "unit": self.unit,
            "error": self.error,
            "tolerance": self.tolerance.share,
            "tolerance_why": self.tolerance.why,
            "verdict": str(self.verdict),
            "source": self.source,
            "why": self.why,
        }


@dataclass(frozen=True)
class Case:
    """Something to measure, which gives rows.

    `needs` names files of the user's data folder, wherever in it they are; `measure` gets their
    paths. `reads` are other files that decide the outcome. `seconds` is about what it takes on one
    core with compiled code. `quick` cases run by default.
    """

    name: str
    measure: Callable[..., Iterable[Row]]
    seconds: float
    quick: bool = False
    needs: tuple[str, ...] = ()
    reads: tuple[Path, ...] = ()


@cache
def groups() -> dict[str, list[str]]:
    """Return the modules of each group of netsim and its applications."""
    found = {group: [module] for group, module in GROUPS.items()}
    for package in applications("accuracy"):
        for group, module in package.GROUPS.items():
            found.setdefault(group, []).append(module)
    return found


@cache
def cases(group: str) -> dict[str, Case]:
    """Return the cases of a group by name."""
    modules = map(import_module, groups()[group])
    return {case.name: case for module in modules for case in module.cases()}


def find(data: Path | None, name: str) -> Path | None:
    """Return the file of that name in the data folder."""
    return min(data.rglob(name), default=None) if data else None


def rows(group: str, name: str, data: Path | None) -> Iterator[Row]:
    """Measure a case and yield its rows; one without values if files are missing."""
    case = cases(group)[name]
    paths = [find(data, one) for one in case.needs]
    if None in paths:
        source = ", ".join(one for one, path in zip(case.needs, paths, strict=True) if path is None)
        yield Row(name, None, None, "", EXACT, source)
        return
    yield from case.measure(*paths)
