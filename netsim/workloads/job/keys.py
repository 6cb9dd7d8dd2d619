"""Keys of job files: dataclass fields with a unit, a reader and a description.

A part of a job is a frozen dataclass whose fields are made by `key`. `read_part` reads one from a
TOML table and collects all errors.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from netsim.errors import InputError, did_you_mean, raise_all
from netsim.units import parse_bytes, parse_rate_bps, parse_time_ps, written

Part = TypeVar("Part")

Reader = tuple[str, Callable[[Any], Any]]
"""Unit of a key as text, and the function that checks and converts its value."""

MISSING: Any = dataclasses.MISSING

MAX_COUNT = 10**9
"""Largest count."""

FLOPS = {"FLOP": 1.0, "GFLOP": 1e9, "TFLOP": 1e12, "PFLOP": 1e15, "EFLOP": 1e18}
"""Units of work; with "/s", of a rate."""


class KeySpec(NamedTuple):
    """Unit of a key as text, its reader, and its description."""

    unit: str
    read: Callable[[Any], Any]
    doc: str


def key(how: Reader, doc: str, default: Any = MISSING) -> Any:
    """Return a field with unit and reader, description, and default."""
    metadata = {"how": KeySpec(how[0], how[1], doc)}
    if isinstance(default, (dict, list)):
        raise TypeError("a default must be immutable")
    return dataclasses.field(default=default, metadata=metadata, kw_only=True)


def keys_of(part: type[Any]) -> dict[str, KeySpec]:
    """Return the keys of a part."""
    return {field.name: field.metadata["how"] for field in dataclasses.fields(part)}


def needed(part: type[Any]) -> list[str]:
    """Return the keys of a part without a default."""
    return [field.name for field in dataclasses.fields(part) if field.default is MISSING]


def unknown_keys(table: Mapping[str, Any], known: Collection[str]) -> list[InputError]:
    """Return an error for each key that is not known."""
    return [
        InputError("unknown key", key=name, hint=did_you_mean(name, known), code="unknown_key")
        for name in map(str, table)
        if name not in known
    ]


def read_each(
    reads: Mapping[str, Callable[[], Any]], errors: Sequence[InputError] = ()
) -> dict[str, Any]:
    """Return what each function returns, by key. Raises InputError with all errors, also given."""
    found, errors = {}, list(errors)
    for name, read in reads.items():
        try:
            found[name] = read()
        except InputError as error:
            errors += [one.under(name) for one in error.errors]
    raise_all(errors)
    return found


def read_part(part: type[Part], table: Any) -> Part:
    """Read a part from its table. Raises InputError, without a file, with all errors."""
    if not isinstance(table, Mapping):
        raise InputError(f"{written(table)} is not a table", code="wrong_type")
    known, required = keys_of(part), needed(part)

    def read(name: str, how: KeySpec) -> Any:
        if name not in table:
            raise InputError("missing", hint=f"{how.unit}: {how.doc}", code="missing")
        return how.read(table[name])

    reads = {
        name: partial(read, name, how)
        for name, how in known.items()
        if name in table or name in required
    }
    return part(**read_each(reads, unknown_keys(table, known)))


def table(part: type[Any]) -> Reader:
    """Return the unit and the reader of a key that holds a table."""
    return "table", partial(read_part, part)


def named(part: type[Any]) -> Reader:
    """Return the unit and the reader of a key that holds named tables, read as a dict."""

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping) or not value:
            raise InputError("missing", hint="tables with a name each", code="missing")
        return read_each({name: partial(read_part, part, one) for name, one in value.items()})

    return "tables", read


def count(minimum: int = 1, maximum: int = MAX_COUNT) -> Reader:
    """Unit and reader of a whole number."""

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise InputError(f"{written(value)} is not a whole number", code="wrong_type")
        if not minimum <= value <= maximum:
            hint = f"{minimum} to {maximum:,}"
            raise InputError(f"{written(value)} is out of range", hint=hint, code="out_of_range")
        return value

    return "count", read


def number(low: float, high: float = math.inf) -> Reader:
    """Unit and reader of a number above `low` and at most `high`."""

    def read(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise InputError(f"{written(value)} is not a number", code="wrong_type")
        if not low < value <= high or math.isinf(value):
            limit = "" if math.isinf(high) else f", at most {high:g}"
            raise InputError(f"{written(value)} is out of range", hint=f"above {low:g}{limit}")
        return float(value)

    return "number", read


def flag() -> Reader:
    def read(value: Any) -> bool:
        if not isinstance(value, bool):
            raise InputError(f"{written(value)} is not true or false")
        return value

    return "bool", read


def choice(names: Iterable[str]) -> Reader:
    """Unit and reader of one of several names."""
    known = tuple(names)

    def read(value: Any) -> str:
        if value not in known or not isinstance(value, str):
            raise InputError(f"{written(value)} is unknown", hint="one of " + ", ".join(known))
        return value

    return ", ".join(known), read


def text() -> Reader:
    def read(value: Any) -> str:
        if not isinstance(value, str) or not value.strip():
            raise InputError(f"{written(value)} must be text", code="wrong_type")
        return value.strip()

    return "text", read


def time() -> Reader:
    return "time", parse_time_ps


def size() -> Reader:
    return "bytes", parse_bytes


def rate() -> Reader:
    return "rate", parse_rate_bps


def memory_rate() -> Reader:
    """Unit and reader of a memory bandwidth such as "2048GB/s", in bytes per second."""

    def read(value: Any) -> float:
        hint = 'write it like "2048GB/s"'
        if not isinstance(value, str) or not value.strip().endswith("/s"):
            raise InputError(f"{written(value)} is not a memory bandwidth", hint=hint)
        try:
            found = parse_bytes(value.strip().removesuffix("/s"))
        except InputError as error:
            raise error.replace(hint=hint) from None
        if found == 0:
            raise InputError("must be positive", hint=hint)
        return float(found)

    return "memory rate", read


def parse_flops(value: Any, ending: str = "") -> float:
    """Parse "128GFLOP" or, with the ending "/s", "312TFLOP/s"."""
    hint = f'write it like "312TFLOP{ending}"'
    if isinstance(value, str) and value.strip().endswith(ending):
        written_number = value.strip().removesuffix(ending)
        for unit in sorted(FLOPS, key=len, reverse=True):
            if written_number.endswith(unit):
                try:
                    found = float(written_number.removesuffix(unit)) * FLOPS[unit]
                except ValueError:
                    break
                if 0 <= found < math.inf:
                    return found
                break
    raise InputError(f"{written(value)} is not a number of FLOP", hint=hint)


def peaks(formats: Iterable[str]) -> Reader:
    """Unit and reader of FLOP/s by number format."""
    known = tuple(formats)

    def read(value: Any) -> tuple[tuple[str, float], ...]:
        if not isinstance(value, Mapping) or not value:
            hint = '{ bf16 = "312TFLOP/s" }'
            raise InputError(f"{written(value)} must be a table of rates", hint=hint)
        found = []
        for name, one in value.items():
            if name not in known:
                raise InputError("unknown number format", key=name, hint=did_you_mean(name, known))
            rate_of = parse_flops(one, "/s")
            if rate_of == 0:
                raise InputError("must be positive", key=name)
            found.append((name, rate_of))
        return tuple(found)

    return "FLOP/s by number format", read
