"""Declare and check the parameters of plugins: unit, default, bounds and source.

A transport, topology, traffic pattern or queue discipline lists its parameters as `Param`s. The
experiment gives values as a person writes them ("1us", 15, 0.25). The plugin receives what the
simulator computes with: integer picoseconds, bytes, bits per second and counts; floats; bools;
text. docs/experiment-file.md lists the units (`UNITS`).

A parameter with `each` may have a value for each of several parts, such as the tiers of a tree. An
experiment writes one value for all parts, or a table of some, `{leaf = "400Gbps", spine =
"1.6Tbps"}`; the others keep the default. The plugin receives a dict with every part.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from netsim.errors import InputError, did_you_mean, raise_all
from netsim.limits import COUNT, RATIO
from netsim.units import (
    Bdp,
    format_bytes,
    format_port_size,
    format_rate,
    format_time,
    parse_bytes,
    parse_port_size,
    parse_queue,
    parse_rate_bps,
    parse_time_ps,
    written,
)

LARGEST_NUMBER = 1e15
"""Largest allowed number; double precision is exact for whole numbers up to it."""


Sizes = str | tuple[tuple[int, float], ...]
"""A name, or (bytes, cumulative probability)."""


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Any = _Required()
"""Default of a parameter that the experiment must give."""


@dataclass(frozen=True)
class Param:
    """One parameter of a plugin. `default`, `minimum` and `maximum` are as a user writes them.

    A default of None makes the parameter optional: its value may be None, written as the word
    `none`. `each` names the parts that may have different values. A transport's time that is
    `above_round_trip` must not be below any flow's round trip. `products` is what a window's
    default stands for, such as "1.5bdp": values far from it are reported. A wrong declaration
    raises `InputError`.
    """

    name: str
    unit: str
    default: object
    doc: str
    source: str = ""
    choices: tuple[str, ...] = ()
    minimum: object = None
    maximum: object = None
    optional: bool = False
    none: str = "none"
    each: tuple[str, ...] = ()
    above_round_trip: bool = False
    products: str | None = None

    def __post_init__(self) -> None:
        self._check_types()
        if self.unit not in UNITS:
            hint = did_you_mean(self.unit, UNITS)
            raise InputError(f'unknown unit "{self.unit}"', key=self.name, hint=hint)
        if self.unit == "choice" and not self.choices:
            raise InputError("`choices` is missing", key=self.name)
        if self.default is None:
            object.__setattr__(self, "optional", True)
        try:
            for bound in (self.minimum, self.maximum):
                if bound is not None:
                    self._converted(bound, 1)
            if self.default is not REQUIRED:
                self.convert(self.default)
        except InputError as error:
            raise error.at(key=self.name) from None

    def _check_types(self) -> None:
        name = self.name
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            hint = 'letters, digits and _, as in "rto"'
            raise InputError(f"{name!r} is not a parameter name", hint=hint)
        for what in ("unit", "doc", "source", "none"):
            value = getattr(self, what)
            if not isinstance(value, str):
                raise InputError(f"{what} must be text, not {value!r}", key=name)
        for what, example in (("choices", '("one", "other")'), ("each", '("leaf", "spine")')):
            value = getattr(self, what)
            is_list = isinstance(value, (list, tuple))
            if not is_list or not all(isinstance(one, str) for one in value):
                hint = f"{what}={example}"
                raise InputError(f"{value!r} must be a tuple of texts", key=name, hint=hint)
        if self.each and (self.unit in UNITS_OF_ONE or self.default is REQUIRED):
            hint = f"needs a default, and a unit other than {', '.join(UNITS_OF_ONE)}"
            raise InputError("`each` is not allowed", key=name, hint=hint)

    @property
    def required(self) -> bool:
        """Whether the parameter has no default."""
        return self.default is REQUIRED

    def convert(self, value: object, packet_bytes: int = 1) -> Any:
        """Return the value that the plugin receives; raises `InputError` without file and key.

        `packet_bytes` is a full packet on the wire, for sizes written in packets.
        """
        if not self.each:
            return self._convert_one(value, packet_bytes)
        if not isinstance(value, Mapping):
            return dict.fromkeys(self.each, self._convert_one(value, packet_bytes))
        values = dict.fromkeys(self.each, self._convert_one(self.default, packet_bytes))
        errors: list[InputError] = []
        for part, of_part in value.items():
            try:
                if part not in self.each:
                    hint = did_you_mean(str(part), self.each)
                    raise InputError("unknown", hint=hint, code="unknown_key")
                values[part] = self._convert_one(of_part, packet_bytes)
            except InputError as error:
                errors.append(error.at(key=part))
        raise_all(errors)
        return values

    def _convert_one(self, value: object, packet_bytes: int) -> Any:
        if self.optional and (value is None or value == self.none):
            return None
        converted = self._converted(value, packet_bytes)
        if isinstance(converted, Bdp):
            return converted  # a size that depends on the port
        if self.minimum is not None and converted < self._converted(self.minimum, packet_bytes):
            raise _out_of_range(value, "too small", f"at least {_bare(self.minimum)}")
        if self.maximum is not None and converted > self._converted(self.maximum, packet_bytes):
            raise _out_of_range(value, "too large", f"at most {_bare(self.maximum)}")
        return converted

    def _converted(self, value: object, packet_bytes: int) -> Any:
        if self.unit == "queue":
            return parse_port_size(value, packet_bytes)
        if self.unit == "buffer":
            return parse_queue(value, packet_bytes)
        return _CONVERTERS[self.unit](self, value)

    def format(self, value: Any) -> Any:
        """Return a converted value as a user would write it; `convert` of that gives `value`."""
        if self.each:
            values = list(value.values())
            if values.count(values[0]) == len(values):
                return self._format_one(values[0])
            return {part: self._format_one(one) for part, one in value.items()}
        return self._format_one(value)

    def _format_one(self, value: Any) -> Any:
        if value is None:
            return self.none
        if self.unit == "sizes" and not isinstance(value, str):
            return [[format_bytes(size), probability] for size, probability in value]
        formatter = _FORMATTERS.get(self.unit)
        return formatter(value) if formatter else value

    def is_axis(self, value: object) -> bool:
        """Return whether a written list holds several values of the parameter, not one."""
        if not isinstance(value, list):
            return False
        return self.unit != "sizes" or not any(is_pair(item) for item in value)


def resolve_params(
    params: Sequence[Param],
    presets: Mapping[str, Mapping[str, object]],
    given: Mapping[str, object],
    preset: str | None,
    *,
    file: str | None,
    key: str,
    packet_bytes: int = 1,
) -> dict[str, Any]:
    """Return every parameter's converted value: as given, else the preset's, else the default.

    `given` maps names to written values; `packet_bytes` is as for `Param.convert`. All errors are
    raised at once, as `InputError`s with `file` and `key`.name.
    """
    errors: list[InputError] = []
    known = {param.name: param for param in params}
    chosen: Mapping[str, object] = {}
    if preset is not None:
        if preset in presets:
            chosen = presets[preset]
        else:
            what, hint = f"unknown preset {written(preset)}", did_you_mean(preset, presets)
            errors.append(InputError(what, file=file, key=key, hint=hint, code="unknown_value"))
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known)
            unknown = InputError("unknown parameter", hint=hint, code="unknown_key")
            errors.append(unknown.at(file=file, key=f"{key}.{name}"))
    values: dict[str, Any] = {}
    for param in params:
        try:
            written_value = _written_value(param, given, chosen)
            values[param.name] = param.convert(written_value, packet_bytes)
        except InputError as error:
            errors.append(error.under(f"{key}.{param.name}").at(file=file))
    raise_all(errors)
    return values


def _written_value(
    param: Param, given: Mapping[str, object], preset: Mapping[str, object]
) -> object:
    for values in (given, preset):
        if param.name in values:
            return values[param.name]
    if param.required:
        example = _EXAMPLES.get(param.unit, "")
        hint = param.doc + (f", such as {param.name} = {example}" if example else "")
        raise InputError("missing", hint=hint, code="missing")
    return param.default


# --- conversion, one function per unit: (param, written value) -> converted value ----------------


def _wrong_type(value: object, what: str, hint: str) -> InputError:
    return InputError(f"{written(value)} is {what}", hint=hint, code="wrong_type")


def _out_of_range(value: object, what: str, hint: str) -> InputError:
    return InputError(f"{written(value)} is {what}", hint=hint, code="out_of_range")


def _count(param: Param, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong_type(value, "not a whole number", "write it like 15")
    if param.minimum is None and value < 0:
        raise _out_of_range(value, "negative", "at least 0")
    if abs(value) > COUNT:
        raise _out_of_range(value, "too large", f"at most 2^31 - 1, {COUNT}")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong_type(value, "not a number", "write it like 0.5")
    if isinstance(value, float) and not math.isfinite(value):
        raise _wrong_type(value, "not a finite number", "write it like 0.5")
    if abs(value) > LARGEST_NUMBER:
        raise _out_of_range(value, "too large", f"at most {LARGEST_NUMBER:g}")
    return float(value)


def _fraction(_: Param, value: object) -> float:
    number = _number(value)
    if not 0.0 <= number <= 1.0:
        raise _out_of_range(value, "not a fraction", "between 0 and 1")
    return number


def _ratio(param: Param, value: object) -> float:
    number = _number(value)
    if param.minimum is None and number < 0:
        raise _out_of_range(value, "negative", "at least 0")
    if param.maximum is None and number > RATIO:
        raise _out_of_range(value, "too large", f"at most 2^20, {RATIO}")
    return number


def _bool(_: Param, value: object) -> bool:
    if not isinstance(value, bool):
        raise _wrong_type(value, "not a bool", "write true or false, without quotes")
    return value


def _text(_: Param, value: object) -> str:
    if not isinstance(value, str):
        raise _wrong_type(value, "not text", 'write it in quotes, like "name"')
    return value


def _choice(param: Param, value: object) -> str:
    if not isinstance(value, str) or value not in param.choices:
        hint = did_you_mean(value if isinstance(value, str) else "", param.choices)
        raise InputError(f"{written(value)} is not a choice", hint=hint, code="unknown_value")
    return value


def _topology(_: Param, value: object) -> dict[str, Any]:
    """Return the table of a topology; the experiment's resolver finds the topology itself."""
    if isinstance(value, str):
        return {"kind": value}
    if not isinstance(value, Mapping):
        hint = 'a table such as [topology.plane] with kind = "fat_tree"'
        raise InputError(f"{written(value)} is not a topology", hint=hint, code="unknown_value")
    return dict(value)


def _job(_: Param, value: object) -> str | dict[str, Any]:
    if isinstance(value, str):
        return value
    if not isinstance(value, Mapping):
        hint = "a name, a file, or a table such as [traffic.job]"
        raise InputError(f"{written(value)} is not a job", hint=hint, code="unknown_value")
    return dict(value)


def _sizes(param: Param, value: object) -> Sizes:
    return parse_sizes(value, lambda probability: _fraction(param, probability))


def parse_sizes(value: object, fraction: Callable[[object], float]) -> Sizes:
    """Return a distribution as a plugin receives it; ``fraction`` converts a probability.

    Raises InputError without file and key.
    """
    if isinstance(value, str):
        if value[:1].isdigit():
            return ((parse_bytes(value), 1.0),)
        return value
    if not isinstance(value, (list, tuple)) or not value:
        raise _sizes_error(f"{written(value)} is not a distribution of sizes")
    points = []
    for item in value:
        if not is_pair(item):
            raise _sizes_error(f"{written(item)} is not a pair of a size and a probability")
        points.append((parse_bytes(item[0]), fraction(item[1])))
    for (size, below), (next_size, probability) in pairwise(points):
        if next_size < size or probability < below:
            raise _sizes_error("sizes and cumulative probabilities must not decrease")
    if points[-1][1] != 1.0:
        raise _sizes_error(f"the last cumulative probability must be 1, not {points[-1][1]}")
    return tuple(points)


def _sizes_error(message: str) -> InputError:
    return InputError(
        message,
        hint="pairs of size and cumulative probability ending at 1, "
        'like [["1KB", 0.5], ["1MB", 1.0]]',
    )


def is_pair(item: object) -> bool:
    """Return whether it is a list of two, the second a number."""
    return (
        isinstance(item, (list, tuple))
        and len(item) == 2
        and isinstance(item[1], (int, float))
        and not isinstance(item[1], bool)
    )


def _bare(value: object) -> str:
    return value if isinstance(value, str) else written(value)


_CONVERTERS: dict[str, Callable[[Param, Any], Any]] = {
    "time": lambda _, value: parse_time_ps(value),
    "bytes": lambda _, value: parse_bytes(value),
    "rate": lambda _, value: parse_rate_bps(value),
    "count": _count,
    "fraction": _fraction,
    "ratio": _ratio,
    "bool": _bool,
    "choice": _choice,
    "text": _text,
    "file": _text,
    "sizes": _sizes,
    "topology": _topology,
    "job": _job,
}
UNITS = (*_CONVERTERS, "queue", "buffer")

_FORMATTERS: dict[str, Callable[[Any], Any]] = {
    "time": format_time,
    "bytes": format_bytes,
    "queue": format_port_size,
    "buffer": format_bytes,
    "rate": format_rate,
}
UNITS_OF_ONE = ("queue", "buffer", "file", "sizes", "topology", "job")
"""Units of parameters that cannot have a value per part."""

_EXAMPLES = {
    "time": '"1.5us"',
    "bytes": '"2MB"',
    "queue": '"35pkt"',
    "buffer": '"12MB"',
    "rate": '"800Gbps"',
    "count": "8",
    "fraction": "0.5",
    "ratio": "1.0",
    "file": '"flows.csv"',
    "sizes": '"2MB"',
    "topology": '"fat_tree"',
    "job": '"gpt3_175b"',
}
