"""One way to declare a key: unit, default, bounds, choices and description.

A plugin lists its parameters, `PARAMS = [Param("rto", "time", "1ms", "timeout")]`. A table of an
experiment, a job, a deployment or a price list is a frozen dataclass whose fields are made by
`key`. Files give values as a person writes them ("1us", 15, 0.25). Plugins and tables receive the
simulator's units: integer picoseconds, bytes, bits per second and counts; floats; bools; text.
docs/experiment-file.md lists the units (`UNITS`).

A parameter with `each` may have a value for each of several parts, such as the tiers of a tree. An
experiment writes one value for all parts, or a table of some, `{leaf = "400Gbps", spine =
"1.6Tbps"}`; the others keep the default. The plugin receives a dict with every part.
"""

from __future__ import annotations

import dataclasses
import keyword
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

from netsim.errors import InputError, did_you_mean, raise_all
from netsim.frozen import frozen
from netsim.limits import COUNT, RATIO
from netsim.units import (
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

__all__ = ["REQUIRED", "Param", "Params"]

LARGEST_NUMBER = 1e15  # largest allowed number; whole numbers up to it are exact doubles
Sizes = str | tuple[tuple[int, float], ...]  # a name, or (bytes, cumulative probability)

Params = Mapping[str, Any]  # the values of a plugin's parameters, by name

T = TypeVar("T")


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Any = _Required()  # default of a parameter that must be given


def _same(value: Any) -> Any:
    return value


@frozen
class Unit:
    """A kind of value: how it is read from a file, and written to one.

    `read` raises `InputError` without file and key. `minimum` and `maximum` are the bounds of keys
    that declare none. With `in_packets`, `read` also takes the bytes of a full packet on the wire.
    """

    name: str
    read: Callable[..., Any] = _same
    write: Callable[[Any], Any] = _same
    example: str = ""
    minimum: float | None = None
    maximum: float | None = None
    in_packets: bool = False
    table: type[Any] | None = None  # class of a table of keys

    def __str__(self) -> str:
        return self.name


@frozen
class Param:
    """One key. `default`, `minimum`, `maximum` and `above` (an exclusive minimum) are as a user
    writes them.

    A default of None makes it optional: its value may be None, written as the word `none`. `each`
    names the parts that may have different values. A transport's time that is `above_round_trip`
    must not be below any flow's round trip. `products` is a window's default in BDPs, such as
    "1.5bdp"; values far from it are reported. A wrong declaration raises `InputError`.
    """

    name: str
    unit: str | Unit
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
    above: float | None = None

    def __post_init__(self) -> None:
        self._check_types()
        if isinstance(self.unit, str) and self.unit not in UNITS:
            hint = did_you_mean(self.unit, UNITS)
            raise InputError(f'unknown unit "{self.unit}"', key=self.name, hint=hint)
        if self.unit == "choice" and not self.choices:
            raise InputError("`choices` is missing", key=self.name)
        if self.default is None:
            object.__setattr__(self, "optional", True)
        try:
            for bound in (self.minimum, self.maximum):
                if bound is not None:
                    self._read(bound, 1)
            if self.default is not REQUIRED:
                self.convert(self.default)
        except InputError as error:
            raise error.at(key=self.name) from None

    def _check_types(self) -> None:
        name = self.name
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            hint = 'letters, digits and _, as in "rto"'
            raise InputError(f"{name!r} is not a parameter name", hint=hint)
        for field in ("doc", "source", "none"):
            if not isinstance(value := getattr(self, field), str):
                raise InputError(f"{field} must be text, not {value!r}", key=name)
        if not isinstance(self.unit, str | Unit):
            raise InputError(f"unit must be text, not {self.unit!r}", key=name)
        for field, example in (("choices", '("one", "other")'), ("each", '("leaf", "spine")')):
            value = getattr(self, field)
            is_list = isinstance(value, list | tuple)
            if not is_list or not all(isinstance(part, str) for part in value):
                hint = f"{field}={example}"
                raise InputError(f"{value!r} must be a tuple of texts", key=name, hint=hint)
        if self.each and (self.unit in UNITS_OF_ONE or self.default is REQUIRED):
            hint = f"needs a default, and a unit other than {', '.join(UNITS_OF_ONE)}"
            raise InputError("`each` is not allowed", key=name, hint=hint)

    @property
    def required(self) -> bool:
        """Whether the parameter has no default."""
        return self.default is REQUIRED

    @property
    def kind(self) -> Unit:
        """The unit, with its reader."""
        return self.unit if isinstance(self.unit, Unit) else UNITS[self.unit]

    @property
    def example(self) -> str:
        """A value as written in a file; "" if there is none."""
        return f'"{self.choices[0]}"' if self.choices else self.kind.example

    def convert(self, value: object, packet_bytes: int = 1) -> Any:
        """Return the value that the plugin receives; raises `InputError` without file and key.
        `packet_bytes` is a full packet on the wire, for sizes written in packets."""
        if not self.each:
            return self._convert_one(value, packet_bytes)
        if not isinstance(value, Mapping):
            return dict.fromkeys(self.each, self._convert_one(value, packet_bytes))
        values = dict.fromkeys(self.each, self._convert_one(self.default, packet_bytes))
        errors = unknown_keys(value, self.each, "unknown")
        for part in filter(values.__contains__, value):
            try:
                values[part] = self._convert_one(value[part], packet_bytes)
            except InputError as error:
                errors.append(error.at(key=part))
        raise_all(errors)
        return values

    def _convert_one(self, value: object, packet_bytes: int) -> Any:
        if self.optional and (value is None or value == self.none):
            return None
        converted = self._read(value, packet_bytes)
        if not isinstance(converted, int | float):
            return converted  # a size that depends on the port, a word, a table
        return self._in_bounds(value, converted, packet_bytes)

    def _in_bounds(self, value: object, converted: float, packet_bytes: int) -> float:
        if self.above is not None and converted <= self.above:
            raise _out_of_range(value, "too small", f"above {self.above:g}")
        for declared, of_unit, sign, problem, word in (
            (self.minimum, self.kind.minimum, 1, "too small", "at least"),
            (self.maximum, self.kind.maximum, -1, "too large", "at most"),
        ):
            bound = of_unit if declared is None else self._read(declared, packet_bytes)
            if bound is not None and sign * converted < sign * bound:
                raise _out_of_range(value, problem, f"{word} {_bare(declared, of_unit)}")
        return converted

    def _read(self, value: object, packet_bytes: int) -> Any:
        unit = self.kind
        if self.unit == "choice":
            if isinstance(value, str) and value in self.choices:
                return value
            hint = did_you_mean(value if isinstance(value, str) else "", self.choices)
            raise InputError(f"{written(value)} is not a choice", hint=hint, code="unknown_value")
        if unit.table is not None and not isinstance(value, Mapping):
            hint = f"write [{self.name}] and its keys below"
            if dataclasses.is_dataclass(unit.table):
                hint = _in_braces(self.name, unit.table)
            raise wrong_type(value, "not a table", hint)
        return unit.read(value, packet_bytes) if unit.in_packets else unit.read(value)

    def format(self, value: Any) -> Any:
        """Return a converted value as a user would write it; `convert` of that gives `value`."""
        if self.each:
            values = list(value.values())
            if values.count(values[0]) == len(values):
                return self._format_one(values[0])
            return {part: self._format_one(of_part) for part, of_part in value.items()}
        return self._format_one(value)

    def _format_one(self, value: Any) -> Any:
        return self.none if value is None else self.kind.write(value)

    def is_axis(self, value: object) -> bool:
        """Return whether a written list holds several values of the parameter, not one."""
        if not isinstance(value, list):
            return False
        return self.unit != "sizes" or not any(is_pair(item) for item in value)


# --- tables of keys -------------------------------------------------------------------------------


def key(unit: str | Unit, default: Any, doc: str, *, name: str = "", **rules: Any) -> Any:
    """Return a dataclass field that is a key of a file: a `Param` of the field's name, or `name`.
    The field's default is the converted default."""
    metadata = declared(unit, default, doc, name=name, **rules)
    param = metadata["key"]
    if param.required:
        return dataclasses.field(metadata=metadata)
    converted = param.convert(default)
    if isinstance(converted, dict | list):
        return dataclasses.field(default_factory=partial(param.convert, default), metadata=metadata)
    return dataclasses.field(default=converted, metadata=metadata)


def declared(
    unit: str | Unit, default: Any, doc: str, *, name: str = "", **rules: Any
) -> dict[str, Param]:
    """Return the metadata that make a dataclass field a key, as `key` does."""
    return {"key": Param(name or "_", unit, default, doc, **rules)}


_KEYS: dict[type[Any], dict[str, Param]] = {}


def keys_by_field(table: type[Any]) -> dict[str, Param]:
    """Return the keys of a table by the names of its fields, in order."""
    if table not in _KEYS:
        found = {
            field.name: field.metadata["key"]
            for field in dataclasses.fields(table)
            if "key" in field.metadata
        }
        for name, param in found.items():
            if param.name == "_":
                object.__setattr__(param, "name", name)
        _KEYS[table] = found
    return _KEYS[table]


def keys_of(table: type[Any]) -> dict[str, Param]:
    """Return the declared keys of a table by name, in the order of declaration."""
    return {param.name: param for param in keys_by_field(table).values()}


def unknown_keys(
    given: Mapping[str, Any], known: Iterable[str], message: str = "unknown key"
) -> list[InputError]:
    """Return an error for each key that is not known."""
    names = list(known)
    return [
        InputError(message, key=name, hint=did_you_mean(name, names), code="unknown_key")
        for name in map(str, given)
        if name not in names
    ]


def read_keys(
    params: Iterable[Param], given: Mapping[str, Any], packet_bytes: int = 1
) -> dict[str, Any]:
    """Return every key's converted value: as given, or else the default. Raises InputError, without
    a file, with all errors, including unknown keys."""
    known = {param.name: param for param in params}
    return read_each(
        {name: partial(_value_of, param, given, packet_bytes) for name, param in known.items()},
        unknown_keys(given, known),
    )


def _value_of(param: Param, given: Mapping[str, Any], packet_bytes: int) -> Any:
    if param.name in given:
        return param.convert(given[param.name], packet_bytes)
    if param.required:
        hint = f"{param.unit}: {param.doc}"
        if param.example:
            hint = f"{param.doc}, such as {param.name} = {param.example}"
        raise InputError("missing", hint=hint, code="missing")
    return param.convert(param.default, packet_bytes)


def read_each(
    reads: Mapping[str, Callable[[], Any]], errors: Sequence[InputError] = ()
) -> dict[str, Any]:
    """Return each function's result, by key. Raises InputError with these and all `errors`."""
    values, errors = {}, list(errors)
    for name, read in reads.items():
        try:
            values[name] = read()
        except InputError as error:
            errors.append(error.under(name))
    raise_all(errors)
    return values


def read_table(table: type[T], given: Any, packet_bytes: int = 1, *, key: str = "") -> T:
    """Return a table from its keys in a file; `key` is the table's own key.

    The table's function `conflicts(given)` yields errors for valid keys that conflict. Raises
    InputError, without a file, with all errors.
    """
    require_table(given, key)
    fields = keys_by_field(table)
    try:
        values = read_keys(fields.values(), given, packet_bytes)
        found = table(**{field: values[param.name] for field, param in fields.items()})
        if hasattr(table, "conflicts"):
            raise_all(list(found.conflicts(given)))  # type: ignore[attr-defined]
    except InputError as error:
        raise (error.under(key) if key else error) from None
    return found


def read_tables(
    table: type[T], given: Mapping[str, Any], packet_bytes: int = 1, *, key: str = ""
) -> dict[str, T]:
    """Return tables that have a name each, like `read_table`."""
    errors, found = [], {}
    for name, of_name in given.items():
        try:
            if not key:
                require_table(of_name, name, _in_braces(name, table))
            path = f"{key}.{name}" if key else name
            found[name] = read_table(table, of_name, packet_bytes, key=path)
        except InputError as error:
            errors.append(error)
    raise_all(errors)
    return found


def _in_braces(name: str, table: type[Any]) -> str:
    first = next(iter(keys_of(table).values()))
    return f"write {name} = {{ {first.name} = {first.example or '...'} }}"


def require_table(given: Any, key: str, hint: str | None = None) -> None:
    """Raise InputError, with the key, for a value that is not a table."""
    if not isinstance(given, Mapping):
        hint = hint or (f"write [{key}] and its keys below" if key else None)
        raise InputError(
            f"{written(given)} is not a table", key=key or None, hint=hint, code="wrong_type"
        )


def as_table(value: Any) -> dict[str, Any]:
    """Return the keys of a table with their values as written."""
    fields = keys_by_field(type(value))
    return {param.name: param.format(getattr(value, field)) for field, param in fields.items()}


def table_of(table: type[Any]) -> Unit:
    """Return the unit of a key that holds a table."""
    return Unit("table", partial(read_table, table), as_table, in_packets=True, table=table)


def tables_of(table: type[Any]) -> Unit:
    """Return the unit of a key that holds tables with a name each, read as a dict."""

    def write(tables: Mapping[str, Any]) -> dict[str, Any]:
        return {name: as_table(one) for name, one in tables.items()}

    return Unit("tables", partial(read_tables, table), write, in_packets=True, table=dict)


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
    if preset is not None and preset not in presets:
        message, hint = f"unknown preset {written(preset)}", did_you_mean(preset, presets)
        errors.append(InputError(message, file=file, key=key, hint=hint, code="unknown_value"))
    chosen = presets.get(preset or "", {}) if preset is not None else {}
    values: dict[str, Any] = {}
    try:
        values = read_keys(params, {**chosen, **given}, packet_bytes)
    except InputError as error:
        errors.append(error.under(key).at(file=file))
    raise_all(errors)
    return values


# --- units ----------------------------------------------------------------------------------------


def wrong_type(value: object, problem: str, hint: str) -> InputError:
    """Return the error for a value of another type."""
    return InputError(f"{written(value)} is {problem}", hint=hint, code="wrong_type")


def _out_of_range(value: object, problem: str, hint: str) -> InputError:
    return InputError(f"{written(value)} is {problem}", hint=hint, code="out_of_range")


def _bare(declared: object, of_unit: object) -> str:
    """Return a bound as it is written in a file, without quotes."""
    bound = of_unit if declared is None else declared
    return bound if isinstance(bound, str) else written(bound)


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(value, "not a whole number", "write it like 15")
    if abs(value) > COUNT:
        raise _out_of_range(value, "too large", f"at most 2^31 - 1, {COUNT}")
    return value


def read_number(value: object, largest: float = LARGEST_NUMBER) -> float:
    """Return a finite number. Raises InputError for another value, or one beyond `largest`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong_type(value, "not a number", "write it like 0.5")
    if isinstance(value, float) and not math.isfinite(value):
        raise wrong_type(value, "not a finite number", "write it like 0.5")
    if abs(value) > largest:
        raise _out_of_range(value, "too large", f"at most {largest:g}")
    return float(value)


def _bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise wrong_type(value, "not a bool", "write true or false, without quotes")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise wrong_type(value, "not text", 'write it in quotes, like "name"')
    return value


def _topology(value: object) -> dict[str, Any]:
    """Return the table of a topology; the experiment's resolver finds the topology itself."""
    if isinstance(value, str):
        return {"kind": value}
    if not isinstance(value, Mapping):
        hint = 'a table such as [topology.plane] with kind = "fat_tree"'
        raise InputError(f"{written(value)} is not a topology", hint=hint, code="unknown_value")
    return dict(value)


def _job(value: object) -> str | dict[str, Any]:
    if isinstance(value, str):
        return value
    if not isinstance(value, Mapping):
        hint = "a name, a file, or a table such as [traffic.job]"
        raise InputError(f"{written(value)} is not a job", hint=hint, code="unknown_value")
    return dict(value)


def _jobs(value: object) -> dict[str, Any]:
    """Return tables of traffic by name; the experiment's resolver finds the patterns themselves."""
    hint = "write [traffic.jobs.NAME] with kind, hosts and the parameters of that pattern"
    if not isinstance(value, Mapping) or not value:
        raise InputError(f"{written(value)} is not a table of jobs", hint=hint, code="wrong_type")
    for name, table in value.items():
        require_table(table, name, hint)
    return dict(value)


def _sizes(value: object) -> Sizes:
    """Return a distribution as a plugin receives it."""
    if isinstance(value, str):
        if value[:1].isdigit():
            return ((parse_bytes(value), 1.0),)
        return value
    if not isinstance(value, list | tuple) or not value:
        raise _sizes_error(f"{written(value)} is not a distribution of sizes")
    points = []
    for item in value:
        if not is_pair(item):
            raise _sizes_error(f"{written(item)} is not a pair of a size and a probability")
        points.append((parse_bytes(item[0]), FRACTION.convert(item[1])))
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


def _written_sizes(value: Sizes) -> Any:
    if isinstance(value, str):
        return value
    return [[format_bytes(size), probability] for size, probability in value]


def is_pair(item: object) -> bool:
    """Return whether a value is a list of two items, the second a number."""
    return (
        isinstance(item, list | tuple)
        and len(item) == 2
        and isinstance(item[1], int | float)
        and not isinstance(item[1], bool)
    )


def chosen(of: str, example: str, *kinds: type, counts: bool = True) -> Unit:
    """Return the unit of a number of things, if `counts`, or a list of their names."""

    def read(value: Any) -> Any:
        if counts and isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        items = value if isinstance(value, list | tuple) else [value]
        for item in items:
            if isinstance(item, bool) or not isinstance(item, kinds):
                raise InputError(f"{written(item)} does not name {of}", hint=example)
        return tuple(items)

    return Unit(of, read, lambda value: list(value) if isinstance(value, tuple) else value)


UNITS: dict[str, Unit] = {
    unit.name: unit
    for unit in (
        Unit("time", parse_time_ps, format_time, '"1.5us"'),
        Unit("bytes", parse_bytes, format_bytes, '"2MB"'),
        Unit("rate", parse_rate_bps, format_rate, '"800Gbps"'),
        Unit("count", _count, example="8", minimum=0),
        Unit("fraction", read_number, example="0.5", minimum=0, maximum=1),
        Unit("ratio", read_number, example="1.0", minimum=0, maximum=RATIO),
        Unit("bool", _bool, example="true"),
        Unit("choice"),
        Unit("text", _text),
        Unit("file", _text, example='"flows.csv"'),
        Unit("sizes", _sizes, _written_sizes, '"2MB"'),
        Unit("topology", _topology, example='"fat_tree"'),
        Unit("job", _job, example='"gpt3_175b"'),
        Unit("jobs", _jobs),
        Unit("queue", parse_port_size, format_port_size, '"35pkt"', in_packets=True),
        Unit("buffer", parse_queue, format_bytes, '"12MB"', in_packets=True),
    )
}

NUMBER = Unit("number", partial(read_number, largest=1e300), example="1.0", minimum=0)
"""A number that may be very large."""


def _nonblank(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{written(value)} must be text", code="wrong_type")
    return value.strip()


NONBLANK = Unit("text", _nonblank)  # text that is not blank

UNITS_OF_ONE = ("queue", "buffer", "file", "sizes", "topology", "job", "jobs")
"""Units of parameters that cannot have a value per part."""

FRACTION = Param("fraction", "fraction", REQUIRED, "a probability")
