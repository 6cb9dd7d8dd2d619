"""Reproduced figures of the paper: the paper's values, ours, and output files.

A figure is a function of `model_figures.py`, `simulated_figures.py` or `lite.py`, which takes
results and returns a `PaperFigure`; `SWEEPS` of the file has its simulations, if any. The paper's
values are in `netsim/workloads/job/paper.csv`, or beside the function if only simulation gives
ours.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from netsim.common.writing import write_text
from netsim.errors import InputError
from netsim.plots.style import save
from netsim.units import format_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from netsim.plots import sweeps

ENDINGS = ("png", "pdf")

JOBS = {"dense": "dense", "MoE": "moe"}
"""The paper's names of its models, and their jobs."""

POST_HOC = "POST-HOC"
"""Our input was chosen to give this value: no validation."""

NOT_REPRODUCED = "not reproduced"
"""The paper's inputs and formulas do not give its value."""

SMALLER = "smaller"
"""Simulated below the paper's size."""

UNVERIFIED = "unverified"
"""Our inputs, or the paper's value, are quoted from memory."""

MORE_THAN, LESS_THAN, AT_MOST, AT_LEAST = "more than", "less than", "at most", "at least"


class Sweep(NamedTuple):
    """A shipped experiment and its changes for the quick and the full form.

    `name` is the folder of its results. Figures with the same sweep share its points.
    """

    name: str
    experiment: str
    quick: tuple[str, ...] = ()
    full: tuple[str, ...] = ()


class Value(NamedTuple):
    """A value of the paper, and ours; both in `unit`.

    `bound` is "" or the paper's qualifier: `MORE_THAN`, `LESS_THAN`, `AT_MOST` or `AT_LEAST`.
    `standing` is empty, or says why the two do not validate each other, such as `POST_HOC`.
    """

    what: str
    paper: float
    ours: float
    unit: str
    section: str
    bound: str = ""
    standing: str = ""

    @property
    def difference(self) -> float:
        """Our deviation in percent of the paper's value."""
        return 100 * (self.ours / self.paper - 1)

    @property
    def within(self) -> bool:
        """Whether the paper's value is a bound that ours satisfies."""
        bounds = {
            MORE_THAN: self.ours > self.paper,
            LESS_THAN: self.ours < self.paper,
            AT_MOST: self.ours <= self.paper,
            AT_LEAST: self.ours >= self.paper,
        }
        return bounds.get(self.bound, False)

    @property
    def stated(self) -> str:
        return f"{self.bound} {format_number(self.paper)}".strip()


def stated(
    name: str, what: str, ours: float | None = None, *, standing: str | None = None
) -> Value:
    """Return a value of `netsim.workloads.job.paper` by name, with the model's result or another.

    `standing` defaults to the model's. Raises KeyError for an unknown name.
    """
    from netsim.workloads.job.paper import figures

    one = {figure.name: figure for figure in figures()}[name]
    assert one.number is not None
    bound = {">": MORE_THAN, "<": LESS_THAN}.get(one.stated[0], "")
    if standing is None:
        standing = POST_HOC if one.post_hoc else ""
        standing = NOT_REPRODUCED if one.agreement == "no" else standing
    value = one.ours if ours is None else ours
    return Value(what, one.number, value, one.unit, one.section, bound, standing)


@dataclass(frozen=True)
class PaperFigure:
    """A figure and its data.

    `drawn` has every drawn value, in columns of equal length. `about` says in one line what was
    computed or simulated; `notes` are caveats. `table` has more of our values than the paper
    states.
    """

    figure: Figure
    values: Sequence[Value]
    drawn: Mapping[str, Sequence[Any]]
    about: str
    notes: Sequence[str] = ()
    table: sweeps.Table | None = None


def columns(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    return {name: list(one) for name, one in zip(header, zip(*rows, strict=True), strict=True)}


def write(made: PaperFigure, directory: Path, name: str) -> list[Path]:
    """Write NAME.png, NAME.pdf, NAME.csv (drawn values) and NAME_stated.csv (comparison).

    Returns their paths. Raises InputError if `directory` cannot be written to.
    """
    values, table = directory / f"{name}.csv", directory / f"{name}_stated.csv"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        pictures = [save(made.figure, directory / f"{name}.{ending}") for ending in ENDINGS]
        _write_csv(values, list(made.drawn), list(zip(*made.drawn.values(), strict=True)))
        _write_csv(
            table,
            ["what", "unit", "bound", "paper", "ours", "difference_percent", "standing", "section"],
            [
                (one.what, one.unit, one.bound, one.paper, one.ours, one.difference, one.standing,
                 one.section)
                for one in made.values
            ],
        )  # fmt: skip
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=str(directory)) from error
    return [*pictures, values, table]


def _write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    write_text(path, text.getvalue())
