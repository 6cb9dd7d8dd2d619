"""[reference]: values of a formula or a paper, drawn and printed next to the results."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from netsim.errors import InputError, did_you_mean
from netsim.experiment.document import Tree
from netsim.experiment.schema import ReferenceSection
from netsim.params import read_table
from netsim.units import parse_time_ps, written

SECTION = "reference"


@dataclass(frozen=True)
class Reference:
    """Expected values of `column`, by value of `axis`; times in ps."""

    axis: str
    column: str
    label: str
    source: str
    values: Mapping[Any, float]


def is_time(column: str) -> bool:
    """Return whether a column contains times: "fct_p99", "wan.ideal_mean", "job_step_ps"."""
    return column.endswith("_ps") or column.rpartition(".")[2].startswith(("fct_", "ideal_"))


def resolve_reference(table: Tree) -> Reference:
    """Return the reference of a [reference] table. Raises InputError without a file."""
    section = read_table(ReferenceSection, table, key=SECTION)
    values: dict[Any, float] = {}
    for pair in section.values:
        if not _is_pair(pair):
            hint = 'write [axis value, reference] pairs: [[0.3, "2us"], [0.5, "3us"]]'
            raise InputError(f"{written(pair)} is not a pair", key=f"{SECTION}.values", hint=hint)
        at, value = pair
        if at in values:
            message = f"duplicate axis value {written(at)}"
            raise InputError(message, key=f"{SECTION}.values", code="duplicate")
        values[at] = _value(value, section.column)
    return Reference(section.axis, section.column, section.label, section.source, values)


def _is_pair(pair: Any) -> bool:
    if not isinstance(pair, list) or len(pair) != 2:
        return False
    return not any(isinstance(one, list | dict) for one in pair)


def _value(value: Any, column: str) -> float:
    """Return a value of a column: a time with its unit, or else a number."""
    key = f"{SECTION}.values"
    if is_time(column):
        try:
            return float(parse_time_ps(value))
        except InputError as error:
            raise error.at(key=key) from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        hint = f"{column} is a number"
        raise InputError(f"{written(value)} is not a number", key=key, hint=hint, code="wrong_type")
    return float(value)


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
