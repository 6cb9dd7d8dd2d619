"""[reference]: values that a figure of the sweep is held against, of a formula or a paper.

They are drawn and told beside what is simulated, and change nothing of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from netsim.errors import CombinedInputError, InputError, did_you_mean
from netsim.experiment.document import Tree
from netsim.experiment.schema import ReferenceSection, problems
from netsim.units import parse_time_ps, written

SECTION = "reference"


@dataclass(frozen=True)
class Reference:
    """What the column `column` should be at values of the axis `axis`: by value, times in ps."""

    axis: str
    column: str
    label: str
    source: str
    values: Mapping[Any, float]


def is_time(column: str) -> bool:
    """Whether the figures of a column are times: "fct_p99", "wan.ideal_mean", "job_step_ps"."""
    return column.endswith("_ps") or column.rpartition(".")[2].startswith(("fct_", "ideal_"))


def resolve_reference(table: Tree) -> Reference:
    """The reference of a [reference] table; `InputError`s with keys, without a file."""
    try:
        section = ReferenceSection.model_validate(table)
    except ValidationError as error:
        raise CombinedInputError(problems(error, ReferenceSection, SECTION)) from None
    values: dict[Any, float] = {}
    for pair in section.values:
        if not _is_pair(pair):
            hint = 'pairs of a value of the axis and a figure: [[0.3, "2us"], [0.5, "3us"]]'
            raise InputError(f"{written(pair)} is no pair", key=f"{SECTION}.values", hint=hint)
        at, figure = pair
        if at in values:
            raise InputError(
                f"{written(at)} stands twice", key=f"{SECTION}.values", code="duplicate"
            )
        values[at] = _figure(figure, section.column)
    return Reference(section.axis, section.column, section.label, section.source, values)


def _is_pair(pair: Any) -> bool:
    if not isinstance(pair, list) or len(pair) != 2:
        return False
    return not any(isinstance(one, list | dict) for one in pair)


def _figure(value: Any, column: str) -> float:
    """A figure of a column: a time with its unit where it is one, else a number."""
    key = f"{SECTION}.values"
    if is_time(column):
        try:
            return float(parse_time_ps(value))
        except InputError as error:
            raise error.at(key=key) from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(
            f"{written(value)} is not a number", key=key, hint=f"{column} is one", code="wrong_type"
        )
    return float(value)


def axis_problem(axis: str, resolved: Tree) -> InputError | None:
    """What is wrong with the axis of a reference if a resolved point has no such key."""
    known = _keys(resolved, "")
    if axis in known:
        return None
    hint = did_you_mean(axis, [*known]) or "a key with its section, such as traffic.load"
    return InputError(f"the experiment has no {written(axis)}", key=f"{SECTION}.axis", hint=hint)


def _keys(table: Tree, prefix: str) -> set[str]:
    found = set()
    for name, value in table.items():
        found.add(f"{prefix}{name}")
        if isinstance(value, dict):
            found |= _keys(value, f"{prefix}{name}.")
    return found
