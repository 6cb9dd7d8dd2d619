"""Parse and format quantities with units.

| quantity | written | becomes |
|---|---|---|
| time | "1.5us", "10 ms" | int picoseconds |
| size | "97.39MB" (10^6), "64KiB" (2^10), "4096B" | int bytes |
| rate | "800Gbps" | int bits per second |
| queue size | a size, "35pkt", "0.2bdp" or "1bdp+8pkt" | int bytes, or a `Bdp` |

Parsing is exact: a value that is not a whole number of the base unit is an error. So are a number
without a unit and a value beyond `netsim.limits`. `format_*` writes text that parses to the same
value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from netsim.errors import InputError, printable
from netsim.frozen import frozen
from netsim.limits import HORIZON_PS, PS_BITS, RATE_BPS, SIZE_BYTES

_NUMBER = re.compile(r"([0-9]{1,30})(?:\.([0-9]{1,30}))?\s*([^\s0-9.+-][^\s]*)?", re.ASCII)


@frozen
class _Quantity:
    """One kind of quantity: its units (name -> size in the base unit) and names for messages."""

    noun: str  # "a time"
    base: str  # "picoseconds"
    example: str
    units: Mapping[str, int]  # one name per size; only powers of ten are written, but all are read
    aliases: Mapping[str, str]
    limit: int  # values must be smaller
    about: str  # the limit, in words

    @property
    def decimal(self) -> dict[str, int]:
        """Units that are powers of ten; other units cannot write every value exactly."""
        return {name: n for name, n in self.units.items() if str(n).rstrip("0") == "1"}

    def scale(self, unit: str) -> int | None:
        return self.units.get(self.aliases.get(unit, unit))

    def error(self, message: str, hint: str | None = None) -> InputError:
        hint = hint or f'write it like "{self.example}"'
        return InputError(message, hint=hint, code="wrong_type")


_TIME = _Quantity(
    "a time",
    "picoseconds",
    "1.5us",
    {"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12},
    {"\u00b5s": "us", "\u03bcs": "us"},
    HORIZON_PS,
    "2^56 ps, 20 hours",
)
_BYTES = _Quantity(
    "a size",
    "bytes",
    "64KB",
    {
        "B": 1,
        "KB": 10**3,
        "MB": 10**6,
        "GB": 10**9,
        "TB": 10**12,
        "KiB": 2**10,
        "MiB": 2**20,
        "GiB": 2**30,
        "TiB": 2**40,
    },
    {"kB": "KB"},
    SIZE_BYTES,
    "2^50 bytes, 1024 TiB",
)
_RATE = _Quantity(
    "a rate",
    "bits per second",
    "800Gbps",
    {"bps": 1, "kbps": 10**3, "Mbps": 10**6, "Gbps": 10**9, "Tbps": 10**12},
    {"Kbps": "kbps"},
    RATE_BPS,
    "2^50 bit/s, 1125 Tbps",
)


def parse_time_ps(value: object) -> int:
    """Return the picoseconds of a written time, such as "1.5us"; raises `InputError`."""
    return _parse(_TIME, value)


def parse_bytes(value: object) -> int:
    """Return the bytes of a written size, such as "97.39MB" or "64KiB"; raises `InputError`."""
    return _parse(_BYTES, value)


def parse_rate_bps(value: object) -> int:
    """Return the bits per second of a written rate, such as "800Gbps"; zero is an error."""
    rate = _parse(_RATE, value)
    if rate == 0:
        raise _RATE.error("rate must be positive").replace(code="out_of_range")
    return rate


def parse_shape(text: str, least: int = 1) -> tuple[int, ...]:
    """Return the lengths in a shape such as "4x4x8". Raises InputError if it is not a shape, or for
    a length below `least`."""
    parts = text.split("x")
    if not all(part.isascii() and part.isdigit() and len(part) < 7 for part in parts):
        raise InputError(f"{written(text)} is not a shape", hint='such as "4x4x8"')
    found = tuple(map(int, parts))
    if min(found) < least:
        raise InputError(f"a dimension of {min(found)}", hint=f"{least} or more in each")
    return found


@frozen
class Bdp:
    """A size in bandwidth-delay products, different at each port: "0.2bdp", "1bdp+8pkt"."""

    share: Fraction
    extra_bytes: int = 0

    def __str__(self) -> str:
        places = 0
        while (self.share * 10**places).denominator > 1:
            places += 1
        whole, rest = divmod(int(self.share * 10**places), 10**places)
        product = f"{whole}.{rest:0{places}d}bdp" if rest else f"{whole}bdp"
        return f"{product}+{format_bytes(self.extra_bytes)}" if self.extra_bytes else product

    def at(self, rate_bps: int, round_trip_ps: int) -> int:
        """Return the bytes at a port of that rate with that base round trip, rounded up. Raises
        InputError, without a file, if they exceed the limit."""
        size_bytes = -(-self.share * rate_bps * round_trip_ps // PS_BITS) + self.extra_bytes
        if size_bytes >= SIZE_BYTES:
            raise InputError(
                f"{self} is too large for a port of {format_rate(rate_bps)} and a round trip of "
                f"{format_time(round_trip_ps, 4)}",
                hint=f"less than {_BYTES.about}",
                code="out_of_range",
            )
        return size_bytes


def parse_port_size(value: object, packet_bytes: int) -> int | Bdp:
    """Return a size per port: like `parse_queue`, or a `Bdp`."""
    product, plus, extra = value.partition("+") if isinstance(value, str) else ("", "", "")
    match = _NUMBER.fullmatch(product.strip())
    try:
        if match and match[3] == "bdp":
            extra_bytes = parse_queue(extra, packet_bytes) if plus else 0
            return Bdp(Fraction(f"{match[1]}.{match[2] or 0}"), extra_bytes)
        return parse_queue(value, packet_bytes)
    except InputError as error:
        hint = (error.hint or "").replace(' or "35pkt"', ', "35pkt", "0.2bdp" or "1bdp+8pkt"')
        raise error.replace(hint=hint) from None


def parse_queue(value: object, packet_bytes: int) -> int:
    """Return the bytes of a queue size, written as a size or in full packets ("35pkt").
    `packet_bytes` is a full data packet on the wire (payload and header)."""
    match = _NUMBER.fullmatch(value.strip()) if isinstance(value, str) else None
    if match and match[3] and match[3].partition("+")[0] == "bdp":
        raise InputError(
            f"{written(value)} differs between ports, but this size is per switch",
            hint='write it like "64KB" or "35pkt"',
        )
    if match and match[3] in ("pkt", "pkts"):
        if match[2] is not None:
            raise InputError(
                f"{written(value)} is not a whole number of packets",
                hint='write it like "35pkt"',
                code="wrong_type",
            )
        size_bytes = int(match[1]) * packet_bytes
        if size_bytes >= SIZE_BYTES:
            raise InputError(
                f"{written(value)} of {packet_bytes} bytes is too large",
                hint=f"less than {_BYTES.about}",
                code="out_of_range",
            )
        return size_bytes
    try:
        return parse_bytes(value)
    except InputError as error:
        raise error.replace(hint='write it like "64KB" or "35pkt"') from None


@lru_cache
def format_time(time_ps: int, digits: int | None = None) -> str:
    """Return a time in its largest decimal unit: exact, or with `digits` significant digits."""
    return _format(time_ps, _TIME.decimal, digits)


@lru_cache
def format_bytes(size_bytes: int, digits: int | None = None) -> str:
    """Return a size: the shorter of decimal and binary form, or decimal rounded to `digits`."""
    written = _format(size_bytes, _BYTES.decimal, digits)
    if digits is not None:
        return written
    binary = {name: scale for name, scale in _BYTES.units.items() if "i" in name}
    whole = [
        f"{size_bytes // scale}{name}"
        for name, scale in binary.items()
        if size_bytes and size_bytes % scale == 0
    ]
    return min([written, *whole], key=len)


def format_port_size(size: int | Bdp) -> str:
    """Return a size that may be a `Bdp`."""
    return str(size) if isinstance(size, Bdp) else format_bytes(size)


@lru_cache
def format_rate(rate_bps: int, digits: int | None = None) -> str:
    """Return a rate in its largest decimal unit: exact, or with `digits` significant digits."""
    return _format(rate_bps, _RATE.decimal, digits)


def format_number(value: float, digits: int = 4) -> str:
    """Return a number with `digits` significant digits, whole from 1,000 on; never 1e+03."""
    return f"{value:,.0f}" if abs(value) >= 1000 else _rounded(value, digits)


def _parse(quantity: _Quantity, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise quantity.error(f"{written(value)} is not {quantity.noun}")
    if not isinstance(value, str):
        raise quantity.error(f"{written(value)} has no unit")
    match = _NUMBER.fullmatch(value.strip())
    if match is None:
        raise quantity.error(f"{written(value)} is not {quantity.noun}")
    whole, fraction, unit = match[1], match[2] or "", match[3]
    if unit is None:
        raise quantity.error(f"{written(value)} has no unit")
    scale = quantity.scale(unit)
    if scale is None:
        message = f'{written(value)}: unknown unit "{shortened(unit)}"'
        raise quantity.error(message, _unit_hint(quantity, unit))
    count, rest = divmod(int(whole + fraction) * scale, int("1" + "0" * len(fraction)))
    if rest:
        raise quantity.error(f"{written(value)} is not a whole number of {quantity.base}")
    if count >= quantity.limit:
        error = quantity.error(f"{written(value)} is too large", f"less than {quantity.about}")
        raise error.replace(code="out_of_range")
    return count


def _unit_hint(quantity: _Quantity, unit: str) -> str:
    names = list(quantity.units)
    same = [name for name in names if name.lower() == unit.lower()]
    return f'did you mean "{same[0]}"?' if same else "there are: " + ", ".join(names)


def _format(value: int, units: Mapping[str, int], digits: int | None) -> str:
    sign, value = ("-", -value) if value < 0 else ("", value)
    fitting = [name for name, scale in units.items() if scale <= value]
    unit = max(fitting, key=units.__getitem__) if fitting else next(iter(units))
    scale = units[unit]
    if digits is not None:
        return f"{sign}{_rounded(value / scale, digits)}{unit}"
    whole, rest = divmod(value, scale)
    width = len(str(scale)) - 1
    fraction = f".{rest:0{width}d}".rstrip("0") if rest else ""
    return f"{sign}{whole}{fraction}{unit}"


def _rounded(value: float, digits: int) -> str:
    """Return `value` (below about 1,000) with `digits` significant digits, never as 1e+03."""
    text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if "e" in text else text


LONGEST_SHOWN = 80  # most characters of a value in a message


_RANGE = re.compile(r"\s*([0-9]{1,18})\s*\.\.\s*([0-9]{1,18})\s*", re.ASCII)


def parse_range(text: Any) -> tuple[int, int] | None:
    """Return both ends of a range such as "0..7"; None for anything else."""
    match = _RANGE.fullmatch(text) if isinstance(text, str) else None
    return None if match is None else (int(match[1]), int(match[2]))


def written(value: object) -> str:
    """Return a value as in a TOML file, on one line and shortened, for messages."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{shortened(value)}"'
    if isinstance(value, int) and abs(value) >= 10**LONGEST_SHOWN:
        # Python refuses to format thousands of digits.
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, (list, tuple)):
        return "a list" if len(value) > 4 else "[" + ", ".join(map(written, value)) + "]"
    return str(value)


def listed(items: Sequence[Any], most: int, text: Callable[[Any], str] = str) -> str:
    """Return the texts of the first `most` items and the number of others: "a, b and 3 more"."""
    more = len(items) - most
    return ", ".join(map(text, items[:most])) + (f" and {more:,} more" if more > 0 else "")


def shortened(text: str) -> str:
    """Return text for a message, on one line and shortened if long."""
    if len(text) > LONGEST_SHOWN:
        text = text[: LONGEST_SHOWN - 3] + "..."
    return printable(text)
