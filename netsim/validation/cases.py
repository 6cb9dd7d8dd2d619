"""Validation cases as data: the function that measures, and the values to compare with.

A group is a file of families of cases:

    [[family]]
    measure = "laws:incast"              # function of a module beside the file
    seconds = 0.5                        # on one core, compiled
    title = "{transport}: last flow"     # of its rows
    unit = "us"
    tolerance = 0.05                     # largest relative deviation
    because = "means over a few seeds"   # why it is not smaller
    source = "closed form"
    [family.cases]
    incast_ndp = { quick = true, transport = "ndp" }
    incast_wan_fec = { transport = "wan_fec", why = "of a deviation, which fails nevertheless" }

A case has its own keys, its family's, and those of `[defaults]`. `measure` gets the keys that do
not describe rows or the case, and yields a dict for each row: our value as `ours`, other fields of
`Row` that are not in the file, and values for the title; `label` is for titles only. In the file, a
list has a value per row, and any value may be a table keyed by the start of titles.

`question` is one of QUESTIONS, a user's question that the row answers; "" if the row only sums up
others. Other keys: `quick` cases run by default. `needs` names files of the user's data folder,
whose paths `measure` gets. `their_flows` names such files for a second case, NAME_their_flows.
`reads` are patterns of files in a checkout that decide the outcome; the case needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from enum import StrEnum
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from netsim.common.discovery import applications
from netsim.common.inputs import read_toml
from netsim.frozen import frozen
from netsim.results.provenance import PACKAGE

GROUPS = (
    *("closed_forms", "reference", "theory", "routing", "simulators", "uec_outcomes"),
    *("predictions", "hardware"),
)
CHECKOUT = PACKAGE.parent

QUESTIONS = {
    "model": "Does the engine do what its model says?",
    "network": "Where does a direct network saturate, and how long does a packet take?",
    "control": "What queues and rates does congestion control produce?",
    "links": "How do PFC, credits, link retries and failed ports change a rate?",
    "flows": "When do sprayed flows end on a fat tree?",
    "hashed": "When do flows on single, hashed paths end?",
    "load": "What slowdown do flows have under load?",
    "counts": "How many packets are resent or acknowledged?",
    "circuits": "When do flows over rotating circuits end?",
    "size": "How long does a collective take at a size between measured ones?",
    "machine": "How long does a collective take on other node counts or networks?",
    "step": "How long is a training step of a dense model?",
    "moe": "How long is a training step of a mixture of experts?",
    "memory": "How much memory does a training job need?",
    "serving": "How long is an iteration of an inference server?",
}
"""Users' questions, by the name that rows give as `question`."""

ROUNDING = 1e-12  # relative error of a quotient of exact numbers


class Verdict(StrEnum):
    """Whether a row's values agree."""

    PASS = "pass"
    FAIL = "fail"
    NEEDS_DATA = "needs data"


@frozen
class Row:
    """One quantity: our value and theirs; None if it was not measured.

    `spread` is the range of their values if they have several: any value within it deviates by 0,
    others by their distance from it. `tolerance` is the largest relative deviation at which the row
    passes; `because` justifies it. `why` explains a larger deviation, which still fails.
    `predicted` says that our value was stored before theirs was seen.
    """

    title: str
    ours: float | None = None
    theirs: float | None = None
    unit: str = ""
    tolerance: float = 0.0
    because: str = "the law is exact"
    source: str = ""
    why: str = ""
    spread: tuple[float, float] | None = None
    question: str = ""
    predicted: bool = False

    @property
    def error(self) -> float | None:
        """Our value divided by theirs, minus one."""
        if self.ours is None or not self.theirs:
            return None
        return self.ours / self.theirs - 1

    @property
    def verdict(self) -> Verdict:
        if self.ours is None or self.theirs is None:
            return Verdict.FAIL if self.why else Verdict.NEEDS_DATA
        low, high = self.spread or (self.theirs, self.theirs)
        room = self.tolerance + ROUNDING
        inside = low - room * abs(low) <= self.ours <= high + room * abs(high)
        return Verdict.PASS if inside else Verdict.FAIL

    def record(self) -> dict[str, Any]:
        """Return the row as a flat table row."""
        record = asdict(self)
        low, high = record.pop("spread") or (None, None)
        return {
            "name": record.pop("title"),
            "tolerance_why": record.pop("because"),
            **record,
            "theirs_low": low,
            "theirs_high": high,
            "error": self.error,
            "verdict": str(self.verdict),
        }


ROW_KEYS = {"label", *(field.name for field in fields(Row))}
CASE_KEYS = {"cases", "measure", "seconds", "quick", "needs", "their_flows", "reads"}


@frozen
class Case:
    """A measurement: a function with its arguments, and the common properties of its rows."""

    name: str
    measure: Callable[..., Iterable[Mapping[str, Any]]]
    arguments: Mapping[str, Any]
    common: Mapping[str, Any]
    seconds: float
    quick: bool = False
    needs: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()

    def files(self) -> list[Path]:
        """Return the files of a checkout that decide the outcome; none without a checkout."""
        return sorted(file for pattern in self.reads for file in CHECKOUT.glob(pattern))

    def rows(self, data: Path | None) -> Iterator[Row]:
        """Measure and yield the rows; one without values if files are missing."""
        paths = {name: find(data, name) for name in self.needs}
        if missing := [name for name, path in paths.items() if path is None]:
            yield Row(self.name, source=", ".join(missing))
            return
        for index, measured in enumerate(self.measure(*paths.values(), **self.arguments)):
            yield self._row(index, measured)

    def _row(self, index: int, measured: Mapping[str, Any]) -> Row:
        given = {
            key: value[index] if isinstance(value, list) and key != "spread" else value
            for key, value in self.common.items()
        }
        title = str({**given, **measured}["title"])
        title = title.format(**{**self.arguments, **given, **measured})
        for key, value in given.items():
            if isinstance(value, Mapping):  # by the start of titles
                given[key] = next((v for name, v in value.items() if title.startswith(name)), None)
        every = {**self.arguments, **given, **measured, "title": title}
        every["why"] = given.get("why") or measured.get("why", "")
        return Row(**{key: value for key, value in every.items() if key in ROW_KEYS - {"label"}})


def find(data: Path | None, name: str) -> Path | None:
    """Return the file with this name in the data folder; None if missing."""
    return min(data.rglob(name), default=None) if data else None


@cache
def cases(group: str) -> dict[str, Case]:
    """Return the cases of a group by name, applications last."""
    found: dict[str, Case] = {}
    for package in (import_module(__package__), *applications("validation")):
        file = Path(package.__path__[0]) / f"{group}.toml"
        tree: dict[str, Any] = read_toml(file) if file.is_file() else {"family": ()}
        for family in tree["family"]:
            for name, case in family["cases"].items():
                content = {"title": name, **tree.get("defaults", {}), **family, **case}
                again = content.pop("their_flows", ())
                made = _case(package, name, content)
                found[made.name] = made
                if again:
                    again_content = {**content, "quick": False, "needs": again}
                    made = _case(package, f"{made.name}_their_flows", again_content)
                    found[made.name] = made
    return found


def _case(package: ModuleType, name: str, content: Mapping[str, Any]) -> Case:
    """Return a case; underscores replace the spaces of its name."""
    if " " in name:
        name = name.lower().replace(",", "").replace(" ", "_")
    module, function = content["measure"].split(":")
    common = {key: value for key, value in content.items() if key in ROW_KEYS}
    arguments = {key: value for key, value in content.items() if key not in CASE_KEYS | ROW_KEYS}
    return Case(
        name,
        getattr(import_module(f"{package.__name__}.{module}"), function),
        arguments,
        common,
        content["seconds"],
        content.get("quick", False),
        tuple(content.get("needs", ())),
        tuple(content.get("reads", ())),
    )
