"""Schemas of the JSON files of a result, checked before anything is used."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netsim.common.inputs import read_bytes
from netsim.errors import InputError
from netsim.limits import INT64
from netsim.units import shortened

Schema = Any
"""A type; a dict of an object's keys, optional ones ending in "?"; [schema] for a list; `Each` for
an object with any keys; a tuple of alternatives; or a `Rule`."""

COUNTERS = (
    "drops",
    "lost",
    "unroutable",
    "trims",
    "ecn_marks",
    "retransmits",
    "pfc_pauses",
    "packet_hops",
    "packet_hops_per_s",
)
"""Numbers of a summary that count packets, or their simulation rate."""

DAMAGED = "the result is damaged or was changed"
"""Hint for content that netsim never writes."""

MAX_DEPTH = 60
"""Maximum nesting of objects and lists."""


@dataclass(frozen=True)
class Each:
    """An object whose values are all of one schema."""

    schema: Schema


@dataclass(frozen=True)
class FixedList:
    """A list with one value per schema."""

    schemas: tuple[Schema, ...]


@dataclass(frozen=True)
class Rule:
    """A value of a type within limits; `text` describes it."""

    kind: type
    text: str
    least: float = -math.inf
    most: float = math.inf

    def fits(self, value: Any) -> bool:
        """Return whether a value is of the type and within the limits."""
        return _is(value, self.kind) and self.least <= value <= self.most


NUMBER = Rule(float, "a number")
COUNT = Rule(int, "a whole number, 0 or more", 0, INT64)
POSITIVE = Rule(float, "a number above 0", math.ulp(0.0))
USE = {"kind?": str}
USES = {"topology?": USE, "transport?": USE, "traffic?": USE}

ORIGIN = {"experiment": str, "overrides": [str], "directory": str}
SHARD = {"format": int, "number": int, "count": int, "sweep": str, "points": [str]}
STATISTICS = Each((NUMBER, None))
THROUGHPUT = {
    **dict.fromkeys(("offered_load", "accepted_load", "accepted_interval"), NUMBER),
    **dict.fromkeys(("excess_load", "excess_interval", "warmup_round_trips"), NUMBER),
    **dict.fromkeys(("flows_injected", "flows_undelivered"), COUNT),
    **dict.fromkeys(("mean_hops", "saturation_bound"), (NUMBER, None)),
    "latency_ps": dict.fromkeys(("mean", "p50", "p99", "p999"), (NUMBER, None)),
    "worst_host": ({"name": str, "offered_load": NUMBER, "accepted_load": NUMBER}, None),
    "busiest_link": {"name": str, "utilization": NUMBER},
}
SUMMARY = {
    "complete": bool,
    "stop_reason": str,
    "flows": COUNT,
    "flows_finished": COUNT,
    "fct_ps": STATISTICS,
    "slowdown": STATISTICS,
    "simulated_ps": COUNT,
    "hash": str,
    **{f"{name}?": (NUMBER, None) for name in ("ideal_max_ps", *COUNTERS, "wall_s", "compile_s")},
    "fair_ps?": (STATISTICS, None),
    "throughput?": THROUGHPUT,
}
EXPERIMENT = {
    "point": str,
    "axes": dict,
    "seed": int,
    "hash": str,
    "tables": [str],
    "versions?": dict,
    "git?": [dict],
    "origin?": (ORIGIN, None),
    "plugins": [{"kind": str, "name": str, "file": str, "sha256": str, "sources?": Each(str)}],
    "resolved": {
        **USES,
        "transport": {"kind": str},
        "classes?": Each(USES),
        "fabric?": {"model?": str},
        "reference?": dict,
    },
}
CHECKPOINT = {
    "format": int,
    "version": str,
    "point": str,
    "run_inputs": {
        "netsim": str,
        "libraries": dict,
        "experiment": dict,
        "plugins": [list],
        "data": [FixedList((str, str))],
    },
    "now_ps": COUNT,
    "wall_s": Rule(float, "a time", 0),
    "every_s": POSITIVE,
    "stall": {"moved": int, "since_ps": int, "since_windows": int},
    "digest": str,
    "origin": (ORIGIN, None),
    "arrays": Each(FixedList((str, [COUNT]))),
}


def read_object(path: Path, schema: Schema) -> dict[str, Any]:
    """Return the object of a schema in a JSON file. Raises InputError with the wrong key."""
    try:
        content: dict[str, Any] = parsed(read_bytes(path))
    except ValueError:
        raise InputError("is not JSON", file=str(path), hint=DAMAGED, code="unreadable") from None
    require(content, schema, file=str(path), hint=DAMAGED)
    return content


def require(content: Any, schema: Schema, *, file: str | None, hint: str) -> None:
    """Raise InputError, with the key, for the first value that does not match the schema."""
    found = _problem(content, schema, "")
    if found is not None:
        key, what = found
        raise InputError(what, file=file, key=key or None, hint=hint)


def parsed(text: bytes) -> Any:
    """Return the value of a JSON text. Raises ValueError if it is invalid, nested too deeply or has
    half of a surrogate pair."""
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("nested too deeply") from None
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for one in level if isinstance(one, dict | list) for inner in _values(one)]
        if not level:
            return value
    raise ValueError("nested too deeply")


def _values(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value


def _problem(value: Any, schema: Schema, key: str) -> tuple[str, str] | None:
    """Return the key that does not match, and what is wrong with it."""
    if isinstance(schema, tuple):
        problems = [_problem(value, one, key) for one in schema]
        return None if None in problems else problems[0]
    if isinstance(schema, dict):
        return _problem_of_object(value, schema, key)
    if isinstance(schema, Each):
        inner = list(value.items()) if isinstance(value, dict) else None
        return _first(inner, schema.schema, key) if inner is not None else _not(key, "an object")
    if isinstance(schema, list):
        inner = list(enumerate(value)) if isinstance(value, list) else None
        return _first(inner, schema[0], key) if inner is not None else _not(key, "a list")
    if isinstance(schema, FixedList):
        if not isinstance(value, list) or len(value) != len(schema.schemas):
            return _not(key, f"a list of {len(schema.schemas)}")
        pairs = zip(value, schema.schemas, strict=True)
        return next((found for one in pairs if (found := _problem(*one, key)) is not None), None)
    if isinstance(schema, Rule):
        return None if schema.fits(value) else _not(key, schema.text)
    return None if value is schema or _is(value, schema) else _not(key, NAMES[schema])


def _problem_of_object(value: Any, schema: dict[str, Schema], key: str) -> tuple[str, str] | None:
    if not isinstance(value, dict):
        return _not(key, "an object")
    for name, inner in schema.items():
        plain = name.rstrip("?")
        at = f"{key}.{plain}" if key else plain
        if plain not in value:
            if plain == name:
                return at, "is missing"
            continue
        if (found := _problem(value[plain], inner, at)) is not None:
            return found
    return None


def _first(items: list[tuple[Any, Any]], schema: Schema, key: str) -> tuple[str, str] | None:
    at = f"{key}." if key else ""
    found = (_problem(value, schema, f"{at}{shortened(str(name))}") for name, value in items)
    return next((one for one in found if one is not None), None)


NAMES: dict[Any, str] = {
    str: "a text",
    int: "a whole number",
    bool: "true or false",
    dict: "an object",
}
NAMES |= {list: "a list", None: "null"}


def _not(key: str, what: str) -> tuple[str, str]:
    return key, f"is not {what}"


def _is(value: Any, kind: Any) -> bool:
    """Return whether a JSON value is of a type; a float may be whole, and only a bool is a bool."""
    if kind is None:
        return value is None
    if isinstance(value, bool):
        return kind is bool
    if kind is float:
        return isinstance(value, int | float) and abs(value) <= 1e300
    if kind is int:
        return isinstance(value, int) and abs(value) < 2 * INT64
    return isinstance(value, kind)
