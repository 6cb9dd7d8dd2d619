"""The JSON files of a result, checked before anything is used.

A table may have other keys, and a key that ends in "?" may be missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from netsim.common.inputs import read_bytes
from netsim.errors import InputError
from netsim.limits import INT64
from netsim.units import shortened

COUNTERS = (
    *("drops", "lost", "unroutable", "trims", "ecn_marks", "retransmits", "pfc_pauses"),
    *("packet_hops", "packet_hops_per_s"),
)
"""Numbers of a summary that count packets, or their simulation rate."""

TIMES = ("ideal_max_ps", "wall_s", "compile_s")

DAMAGED = "the result is damaged or was changed"  # hint for content that netsim never writes
MAX_DEPTH = 60  # maximum nesting of objects and lists

# --- shapes of JSON values ------------------------------------------------------------------------

Check = Callable[[Any, str], object]
"""Takes a value and its key; raises InputError, with the key, if the value is wrong."""


def check(value: Any, shape: Any, key: str = "") -> None:
    """Raise InputError, with the key, for the first value that does not fit a shape.

    A shape is a type of `TYPES` or another `Check`; a dict, for an object with these keys and
    others; a list of one shape, for a list of any length; or a tuple of shapes, for a list of that
    length.
    """
    inside = f"{key}." if key else ""
    if isinstance(shape, dict):
        check(value, dict, key)
        for name, inner in shape.items():
            plain = name.removesuffix("?")
            if plain in value:
                check(value[plain], inner, inside + plain)
            elif plain == name:
                raise InputError("is missing", key=inside + name)
    elif isinstance(shape, list | tuple):
        check(value, list, key)
        if isinstance(shape, tuple) and len(value) != len(shape):
            raise InputError(f"is not a list of {len(shape)}", key=key or None)
        for k, item in enumerate(value):
            check(item, shape[k if isinstance(shape, tuple) else 0], f"{inside}{k}")
    else:
        TYPES.get(shape, shape)(value, key)


def _value(name: str, fits: Callable[[Any], bool]) -> Check:
    def checked(value: Any, key: str) -> None:
        if not fits(value):
            raise InputError(f"is not {name}", key=key or None)

    return checked


def each(shape: Any) -> Check:
    """Return a check of an object with any keys and values of one shape."""

    def checked(value: Any, key: str) -> None:
        check(value, dict, key)
        for name, item in value.items():
            check(item, shape, f"{key}.{shortened(name)}" if key else shortened(name))

    return checked


def nullable(shape: Any) -> Check:
    """Return a check that also accepts null."""

    def checked(value: Any, key: str) -> None:
        if value is not None:
            check(value, shape, key)

    return checked


def _is_number(value: Any) -> bool:
    is_bool = isinstance(value, bool)
    return not is_bool and isinstance(value, int | float) and abs(value) <= 1e300


def _is_whole(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, int) and abs(value) < 2 * INT64


TYPES: dict[Any, Check] = {
    str: _value("a text", lambda value: isinstance(value, str)),
    bool: _value("true or false", lambda value: isinstance(value, bool)),
    int: _value("a whole number", _is_whole),
    dict: _value("an object", lambda value: isinstance(value, dict)),
    list: _value("a list", lambda value: isinstance(value, list)),
}
NUMBER = _value("a number", _is_number)
COUNT = _value("a whole number, 0 or more", lambda value: _is_whole(value) and 0 <= value <= INT64)
POSITIVE = _value("a number above 0", lambda value: _is_number(value) and value > 0)

# --- files ----------------------------------------------------------------------------------------

USES = {name: {"kind?": str} for name in ("topology?", "transport?", "traffic?")}
ORIGIN = {"experiment": str, "overrides": [str], "directory": str}
SHARD = {"format": int, "number": int, "count": int, "sweep": str, "points": [str]}
STATISTICS = each(nullable(NUMBER))
LOADS = {"offered_load": NUMBER, "accepted_load": NUMBER}
THROUGHPUT = {
    **LOADS,
    **dict.fromkeys(("accepted_interval", "excess_load", "excess_interval"), NUMBER),
    "warmup_round_trips": NUMBER,
    **dict.fromkeys(("flows_injected", "flows_undelivered"), COUNT),
    **dict.fromkeys(("mean_hops", "saturation_bound"), nullable(NUMBER)),
    "latency_ps": dict.fromkeys(("mean", "p50", "p99", "p999"), nullable(NUMBER)),
    "worst_host": nullable({"name": str, **LOADS}),
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
    **{f"{name}?": nullable(NUMBER) for name in (*COUNTERS, *TIMES)},
    "fair_ps?": nullable(STATISTICS),
    "throughput?": THROUGHPUT,
}
PLUGIN = {"kind": str, "name": str, "file": str, "sha256": str, "sources?": each(str)}
EXPERIMENT = {
    "point": str,
    "axes": dict,
    "seed": int,
    "hash": str,
    "tables": [str],
    "versions?": dict,
    "git?": [dict],
    "origin?": nullable(ORIGIN),
    "plugins": [PLUGIN],
    "resolved": {
        **USES,
        "transport": {"kind": str},
        "classes?": each(USES),
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
        "data": [(str, str)],
    },
    "now_ps": COUNT,
    "wall_s": _value("a time", lambda value: _is_number(value) and value >= 0),
    "every_s": POSITIVE,
    "stall": {"moved": int, "since_ps": int, "since_windows": int},
    "digest": str,
    "origin": nullable(ORIGIN),
    "arrays": each((str, [COUNT])),
}


def read_object(path: Path, shape: Any) -> dict[str, Any]:
    """Return the object in a JSON file. Raises InputError with the wrong key."""
    try:
        content: dict[str, Any] = parsed(read_bytes(path))
    except ValueError:
        raise InputError("is not JSON", file=str(path), hint=DAMAGED, code="unreadable") from None
    require(content, shape, file=str(path), hint=DAMAGED)
    return content


def require(content: Any, shape: Any, *, file: str | None, hint: str) -> None:
    """Raise InputError, with the key, for the first value that does not fit."""
    try:
        check(content, shape)
    except InputError as error:
        raise error.replace(file=file, hint=hint) from None


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
        level = [one for item in level if isinstance(item, dict | list) for one in _values(item)]
        if not level:
            return value
    raise ValueError("nested too deeply")


def _values(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value
