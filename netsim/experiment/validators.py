"""How the values of the fixed sections are converted, and written back.

Values are converted by the same functions as plugin parameters, so error messages agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BeforeValidator, ValidationInfo
from pydantic_core import PydanticCustomError

from netsim.errors import InputError
from netsim.model.routing import NEVER
from netsim.plugins.params import REQUIRED, Param
from netsim.units import parse_port_size, written


class Convert:
    """A validator that converts a value like a plugin parameter."""

    def __init__(self, unit: str, **rules: Any) -> None:
        self.param = Param("value", unit, REQUIRED, "", **rules)

    def __call__(self, value: Any) -> Any:
        return _as_pydantic(self.param.convert, value)

    def format(self, value: Any) -> Any:
        """Return a value as a user would write it."""
        return self.param.format(value)


class ConvertQueue:
    """A validator for a size, also in packets ("35pkt") or bandwidth-delay products ("0.2bdp")."""

    def __call__(self, value: Any, info: ValidationInfo) -> Any:
        packet_bytes: int = (info.context or {})["packet_bytes"]
        return _as_pydantic(lambda value: parse_port_size(value, packet_bytes), value)


def _as_pydantic(convert: Callable[[Any], Any], value: Any) -> Any:
    try:
        return convert(value)
    except InputError as error:
        context = {"message": error.message, "hint": error.hint or "", "code": error.code}
        raise PydanticCustomError("netsim", "{message}", context) from None


def require(is_valid: Callable[[Any], object], message: str, hint: str) -> BeforeValidator:
    """Return a validator that refuses values: "VALUE message (hint)"."""

    def check(value: Any) -> Any:
        if is_valid(value):
            return value
        context = {"message": f"{written(value)} {message}", "hint": hint}
        raise PydanticCustomError("netsim", "{message}", context)

    return BeforeValidator(check)


class Interval(Convert):
    """A validator of a time or "auto"."""

    def __init__(self) -> None:
        super().__init__("time", minimum="1ps", optional=True)

    def __call__(self, value: Any) -> Any:
        return value if value == "auto" else super().__call__(value)

    def format(self, value: Any) -> Any:
        return value if value == "auto" else super().format(value)


class Delay(Convert):
    """A validator of a time or "never"."""

    def __init__(self) -> None:
        super().__init__("time")

    def __call__(self, value: Any) -> Any:
        return NEVER if value == "never" else super().__call__(value)

    def format(self, value: Any) -> Any:
        return "never" if value == NEVER else super().format(value)


DELAY = Delay()


class Delays:
    """A validator of one delay for all names, or a table of delays by pattern of names."""

    def __call__(self, value: Any) -> Any:
        table = value if isinstance(value, dict) and value else {"*": value}
        return tuple((pattern, DELAY(one)) for pattern, one in table.items())

    def format(self, value: Any) -> Any:
        times = {pattern: DELAY.format(one) for pattern, one in value}
        return times["*"] if list(times) == ["*"] else times


class Chosen:
    """A validator of a number of things, if `counts`, or a list of their names."""

    def __init__(self, what: str, example: str, *kinds: type, counts: bool = True) -> None:
        self.what, self.example, self.kinds, self.counts = what, example, kinds, counts

    def __call__(self, value: Any) -> Any:
        if self.counts and isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        items = value if isinstance(value, list) else [value]
        for item in items:
            if isinstance(item, bool) or not isinstance(item, self.kinds):
                context = {"message": f"{written(item)} does not name {self.what}"}
                raise PydanticCustomError("netsim", "{message}", context | {"hint": self.example})
        return tuple(items)

    def format(self, value: Any) -> Any:
        return list(value) if isinstance(value, tuple) else value
