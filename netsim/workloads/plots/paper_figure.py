"""What the figures of the paper share, that netsim makes again: what is stated, ours, and files.

A figure is a file, such as `fig5.py`, with `SWEEPS`, the simulations that it is drawn from, none if
the model of the job alone gives it, and `make(results) -> PaperFigure`. What the paper states
stands in `netsim/workloads/job/paper.csv`, and in that file where nothing but a simulation gives
ours.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from netsim.errors import InputError
from netsim.plots.style import save
from netsim.units import format_number
from netsim.writing import write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from netsim.plots import sweeps

ENDINGS = ("png", "pdf")

POST_HOC = "POST-HOC"
"""An input of ours was chosen so that this value comes out: it is no validation."""

NOT_REPRODUCED = "not reproduced"
"""The paper's own inputs and formulas do not give the value that it prints."""

SMALLER = "smaller"
"""Simulated at less than the paper's size."""

UNVERIFIED = "unverified"
"""Inputs of ours, or the stated value, are from memory of what the paper prints."""

MORE_THAN, LESS_THAN, AT_MOST, AT_LEAST = "more than", "less than", "at most", "at least"


class Sweep(NamedTuple):
    """An experiment that comes with netsim, and how it is changed: small, or of the paper's size.

    `name` is the folder of its results. Figures that name the same sweep share its points.
    """

    name: str
    experiment: str
    quick: tuple[str, ...] = ()
    full: tuple[str, ...] = ()


class Value(NamedTuple):
    """A value that the paper states, beside ours; both in `unit`.

    `bound` says how the paper puts it: "" or one of `MORE_THAN`, `LESS_THAN`, `AT_MOST` and
    `AT_LEAST`. `standing` is empty, or tells why the two are no validation of each other, such as
    `POST_HOC`.
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
        """Ours above the paper's, in percent of that."""
        return 100 * (self.ours / self.paper - 1)

    @property
    def within(self) -> bool:
        """Is the paper's value a bound, and ours within it?"""
        bounds = {
            MORE_THAN: self.ours > self.paper,
            LESS_THAN: self.ours < self.paper,
            AT_MOST: self.ours <= self.paper,
            AT_LEAST: self.ours >= self.paper,
        }
        return bounds.get(self.bound, False)

    @property
    def stated(self) -> str:
        """The paper's value as text."""
        return f"{self.bound} {format_number(self.paper)}".strip()


def stated(
    name: str, what: str, ours: float | None = None, *, standing: str | None = None
) -> Value:
    """A value of `netsim.workloads.job.metrics` by its name there, beside the model's or another
    of ours.

    `standing` is the model's if it is not given. Raises KeyError for a name that is not there.
    """
    from netsim.workloads.job.metrics import figures

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
    """A figure with what it shows.

    `drawn` has every value that is drawn, by column, all of one length. `about` says in a line what
    was computed or simulated; `notes` what is to be known of the values. `table` has more of ours
    than there is of the paper's.
    """

    figure: Figure
    values: Sequence[Value]
    drawn: Mapping[str, Sequence[Any]]
    about: str
    notes: Sequence[str] = ()
    table: sweeps.Table | None = None


def write(made: PaperFigure, directory: Path, name: str) -> list[Path]:
    """Write NAME.png and NAME.pdf, NAME.csv (what is drawn) and NAME_stated.csv (the comparison).

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
