"""Keys of a job's file: fields of dataclasses that say how they are written, and read from tables.

A part of a job is a frozen dataclass whose fields are made by `key`. `read_part` fills one from a
TOML table and collects everything that is wrong with it: unknown keys, wrong kinds, missing ones.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from netsim.errors import InputError, did_you_mean, raise_all
from netsim.units import parse_bytes, parse_rate_bps, parse_time_ps, written

Part = TypeVar("Part")

MISSING: Any = dataclasses.MISSING

MAX_COUNT = 10**9
"""No count of a job is larger."""

FLOPS = {"FLOP": 1.0, "GFLOP": 1e9, "TFLOP": 1e12, "PFLOP": 1e15, "EFLOP": 1e18}
"""Units of work; with "/s" behind them, of a rate of work."""


class KeySpec(NamedTuple):
    """How a key is written: the text of its unit for pages and messages, and its reader."""

    unit: str
    read: Callable[[Any], Any]
    doc: str


def key(how: tuple[str, Callable[[Any], Any]], doc: str, default: Any = MISSING) -> Any:
    """A field of a part: its unit and reader, what it means, and its default if it has one."""
    metadata = {"how": KeySpec(how[0], how[1], doc)}
    if isinstance(default, (dict, list)):
        raise TypeError("a default is shared: give a tuple or a part")
    return dataclasses.field(default=default, metadata=metadata, kw_only=True)


def keys_of(part: type[Any]) -> dict[str, KeySpec]:
    """The keys of a part, by name, in their order."""
    return {field.name: field.metadata["how"] for field in dataclasses.fields(part)}


def needed(part: type[Any]) -> list[str]:
    """The keys of a part that have no default."""
    return [field.name for field in dataclasses.fields(part) if field.default is MISSING]


def read_part(part: type[Part], table: Any, where: str) -> Part:
    """A part from a table that stands under the dotted key `where`.

    Raises InputError, without a file, with everything that is wrong in the table.
    """
    if not isinstance(table, Mapping):
        raise InputError(f"{written(table)} is not a table", key=where or None, code="wrong_type")
    known = keys_of(part)
    errors: list[InputError] = []
    for name in table:
        if name not in known:
            hint = did_you_mean(str(name), known)
            errors.append(InputError("is not known", key=_joined(where, name), hint=hint))
    values: dict[str, Any] = {}
    for field in dataclasses.fields(part):  # type: ignore[arg-type]
        how = known[field.name]
        if field.name in table:
            try:
                values[field.name] = how.read(table[field.name])
            except InputError as error:
                errors.extend(one.under(_joined(where, field.name)) for one in error.errors)
        elif field.default is MISSING:
            place = _joined(where, field.name)
            errors.append(InputError("is missing", key=place, hint=f"{how.unit}: {how.doc}"))
    raise_all(errors)
    return part(**values)


def _joined(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def count(minimum: int = 1, maximum: int = MAX_COUNT) -> tuple[str, Callable[[Any], Any]]:
    """A whole number from `minimum` to `maximum`."""

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise InputError(f"{written(value)} is not a whole number", code="wrong_type")
        if not minimum <= value <= maximum:
            hint = f"{minimum} to {maximum:,}"
            raise InputError(f"{written(value)} is out of range", hint=hint, code="out_of_range")
        return value

    return "count", read


def number(low: float, high: float = math.inf) -> tuple[str, Callable[[Any], Any]]:
    """A number above `low`, and at most `high`."""

    def read(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise InputError(f"{written(value)} is not a number", code="wrong_type")
        if not low < value <= high or math.isinf(value):
            limit = "" if math.isinf(high) else f", at most {high:g}"
            raise InputError(f"{written(value)} is out of range", hint=f"above {low:g}{limit}")
        return float(value)

    return "number", read


def flag() -> tuple[str, Callable[[Any], Any]]:
    """True or false."""

    def read(value: Any) -> bool:
        if not isinstance(value, bool):
            raise InputError(f"{written(value)} is not true or false")
        return value

    return "bool", read


def choice(names: Iterable[str]) -> tuple[str, Callable[[Any], Any]]:
    """One of some words."""
    known = tuple(names)

    def read(value: Any) -> str:
        if value not in known or not isinstance(value, str):
            raise InputError(f"{written(value)} is none of them", hint="one of " + ", ".join(known))
        return value

    return ", ".join(known), read


def text() -> tuple[str, Callable[[Any], Any]]:
    """Some words."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or not value.strip():
            raise InputError(f"{written(value)} is not a text", code="wrong_type")
        return value.strip()

    return "text", read


def time() -> tuple[str, Callable[[Any], Any]]:
    """A time; picoseconds."""
    return "time", parse_time_ps


def size() -> tuple[str, Callable[[Any], Any]]:
    """A size; bytes."""
    return "bytes", parse_bytes


def rate() -> tuple[str, Callable[[Any], Any]]:
    """A rate of a network; bits per second."""
    return "rate", parse_rate_bps


def memory_rate() -> tuple[str, Callable[[Any], Any]]:
    """A rate of a memory, "2048GB/s"; bytes per second."""

    def read(value: Any) -> float:
        hint = 'write it like "2048GB/s"'
        if not isinstance(value, str) or not value.strip().endswith("/s"):
            raise InputError(f"{written(value)} is not a rate of a memory", hint=hint)
        try:
            found = parse_bytes(value.strip().removesuffix("/s"))
        except InputError as error:
            raise error.replace(hint=hint) from None
        if found == 0:
            raise InputError("a rate of zero reads nothing", hint=hint)
        return float(found)

    return "memory rate", read


def parse_flops(value: Any, ending: str = "") -> float:
    """Operations of "128GFLOP", or with the ending "/s" of "312TFLOP/s"."""
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
    raise InputError(f"{written(value)} is not a number of operations", hint=hint)


def peaks(formats: Iterable[str]) -> tuple[str, Callable[[Any], Any]]:
    """A rate of work by number format; a mapping to FLOP/s."""
    known = tuple(formats)

    def read(value: Any) -> tuple[tuple[str, float], ...]:
        if not isinstance(value, Mapping) or not value:
            hint = '{ bf16 = "312TFLOP/s" }'
            raise InputError(f"{written(value)} is not a table of rates", hint=hint)
        found = []
        for name, one in value.items():
            if name not in known:
                raise InputError("is no number format", key=name, hint=did_you_mean(name, known))
            rate_of = parse_flops(one, "/s")
            if rate_of == 0:
                raise InputError("a rate of zero computes nothing", key=name)
            found.append((name, rate_of))
        return tuple(found)

    return "FLOP/s by number format", read
