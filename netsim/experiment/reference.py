"""[reference]: values of a formula or a paper, drawn and printed next to the results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from netsim.errors import InputError, did_you_mean
from netsim.experiment.document import Tree
from netsim.params import REQUIRED, Unit, key, read_number, read_table
from netsim.units import parse_time_ps, written

SECTION = "reference"


def _read_pairs(pairs: Any) -> dict[Any, Any]:
    if not isinstance(pairs, list) or not pairs:
        hint = "such as [[0.3, 2.5]]"
        raise InputError(f"{written(pairs)} is not a list of pairs", hint=hint)
    found: dict[Any, Any] = {}
    for pair in pairs:
        is_pair = isinstance(pair, list) and len(pair) == 2
        if not is_pair or any(isinstance(item, list | dict) for item in pair):
            hint = 'write [axis value, reference] pairs: [[0.3, "2us"], [0.5, "3us"]]'
            raise InputError(f"{written(pair)} is not a pair", hint=hint)
        if pair[0] in found:
            raise InputError(f"duplicate axis value {written(pair[0])}", code="duplicate")
        found[pair[0]] = pair[1]
    return found


PAIRS = Unit("list", _read_pairs, example='[[0.3, "2us"], [0.5, "3us"]]')


@dataclass(frozen=True, kw_only=True)
class Reference:
    """[reference]: expected values of `column`, by value of `axis`, and their source

    Times are in ps.
    """

    axis: str = key("text", REQUIRED, "axis of the sweep, such as traffic.load")
    column: str = key("text", REQUIRED, "column of the plot, such as fct_mean")
    label: str = key("text", REQUIRED, "name in plots and tables")
    source: str = key("text", "", "source of the values")
    values: Mapping[Any, float] = key(
        PAIRS,
        REQUIRED,
        'pairs of an axis value and the reference, such as [[0.5, "3.2us"]]',
    )

    def __post_init__(self) -> None:
        values = {at: _value(value, self.column) for at, value in self.values.items()}
        object.__setattr__(self, "values", values)


def is_time(column: str) -> bool:
    """Return whether a column contains times: "fct_p99", "wan.ideal_mean", "job_step_ps"."""
    return column.endswith("_ps") or column.rpartition(".")[2].startswith(("fct_", "ideal_"))


def resolve_reference(table: Tree) -> Reference:
    """Return the reference of a [reference] table. Raises InputError without a file."""
    return read_table(Reference, table, key=SECTION)


def _value(value: Any, column: str) -> float:
    """Return a value of a column: a time with its unit, or else a number."""
    try:
        return float(parse_time_ps(value)) if is_time(column) else read_number(value)
    except InputError as error:
        hint = error.hint if is_time(column) else f"{column} is a number"
        raise error.replace(key="values", hint=hint) from None


def axis_problem(axis: str, resolved: Tree) -> InputError | None:
    """Return the error if a resolved point lacks the reference's axis."""
    known = _keys(resolved, "")
    if axis in known:
        return None
    hint = did_you_mean(axis, [*known]) or "such as traffic.load"
    return InputError(
        f"the experiment has no key {written(axis)}", key=f"{SECTION}.axis", hint=hint
    )


def _keys(table: Tree, prefix: str) -> set[str]:
    found = set()
    for name, value in table.items():
        found.add(f"{prefix}{name}")
        if isinstance(value, dict):
            found |= _keys(value, f"{prefix}{name}.")
    return found
