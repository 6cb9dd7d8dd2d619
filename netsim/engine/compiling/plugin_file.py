"""Check the declarations in the file of a transport or a queue discipline."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from netsim.common.inputs import at_line
from netsim.engine.compiling.bindings import Bindings
from netsim.engine.compiling.unsupported_code import contents
from netsim.engine.kernels.fields import CommonParameters, Declared
from netsim.engine.kernels.handlers import Handler
from netsim.engine.kernels.layout import Field, fields_of, padded_record_of, record_of
from netsim.errors import InputError
from netsim.plugins.declarations import Declarations
from netsim.units import Bdp

MAX_STATE_BYTES = 1 << 16
MAX_BYTES = {"PACKET_FIELDS": 1 << 10, "LOG": 8 * 64}
"""Most bytes of the fields that a file declares: of state, and of others."""

NOT_PLAIN = (
    inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR | inspect.CO_COROUTINE
)
"""Flags of functions that cannot be handlers."""


class PluginFile(Declarations):
    """File of a plugin whose handlers the engine compiles."""

    def __init__(self, module: ModuleType, name: str) -> None:
        super().__init__(module, str(getattr(module, "__file__", None) or name))

    def parameters(
        self, params: Mapping[str, Any], base: type[Declared] = CommonParameters
    ) -> np.dtype:
        """Return the record of the parameters, which must not be named like those of the engine."""
        for name in (name for name in params if name in fields_of(base)):
            raise self.wrong("PARAMS", f"name {name} is reserved by the engine")
        own = [(name, float) if isinstance(v, float) else name for name, v in params.items()]
        return record_of(base, *own)

    def record(self, what: str, base: type[Declared], *, padded: bool = False) -> np.dtype:
        """Return the record with the declared fields after the engine's."""
        own = self.fields(what, fields_of(base))
        return padded_record_of(base, *own) if padded else record_of(base, *own)

    def count(self, what: str, most: int) -> int:
        """Return a declared number of timers or bitmaps."""
        value = getattr(self.module, what, 0)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            raise self.wrong(what, f"{value!r} is not a whole number from 0 to {most}")
        return value

    def fields(self, what: str, base: Sequence[str] = ()) -> tuple[Field, ...]:
        """Return the declared fields of a record, which must not be the engine's (``base``)."""
        most_bytes = MAX_BYTES.get(what, MAX_STATE_BYTES)
        own = getattr(self.module, what, ())
        if not isinstance(own, (tuple, list)):
            example = f'{what} = ("{own}",)' if isinstance(own, str) else f'{what} = ("rate",)'
            raise self.wrong(what, f"{own!r} is not a tuple of fields", f"such as {example}")
        names = [self._field_name(field, what) for field in own]
        for name in names:
            if name in base:
                raise self.wrong(what, f"field {name} is reserved by the engine")
            if names.count(name) > 1:
                raise self.wrong(what, f"duplicate field {name}")
        n_bytes = sum(8 * field[1] if _is_array(field) else 8 for field in own)
        if n_bytes > most_bytes:
            raise self.wrong(what, f"the fields take {n_bytes} bytes", f"at most {most_bytes}")
        return tuple(own)

    def names(self, what: str, base: Sequence[str]) -> tuple[str, ...]:
        """Return declared names of integers, which must not be the engine's (``base``)."""
        named = self.fields(what, base)
        for field in named:
            if not isinstance(field, str):
                message = f"holds {field!r}, and a log has whole numbers only"
                raise self.wrong(what, message, f'"{field[0]}"')
        return tuple(str(field) for field in named)

    def _field_name(self, field: Any, what: str) -> str:
        """Return the name of a declared field. Raises InputError if it is invalid."""
        name, kind = field if isinstance(field, tuple) and len(field) == 2 else (field, int)
        good = isinstance(name, str) and name.isidentifier() and not name.startswith("_")
        if (
            not good
            or keyword.iskeyword(name)
            or not (kind is float or kind is int or _is_count(kind))
        ):
            raise self.wrong(
                what,
                f"{field!r} is not a field",
                '"name" for a whole number, ("name", float), or ("name", 8) for eight numbers',
            )
        return str(name)

    def handler(self, handler: Handler) -> FunctionType:
        """Return the file's function for a handler, with checked arguments."""
        name, form = handler.name, f"def {handler.form}"
        function: Any = getattr(self.module, name, None)
        if function is None and not hasattr(self.module, name):
            if handler.required:
                raise InputError(f"has no function {name}", file=self.file, hint=form)
            function = handler.default
        if not isinstance(function, FunctionType):
            raise self.wrong(name, "is not a plain function", form)
        code = function.__code__
        wanted = len(handler.arguments)
        problem = ""
        if code.co_flags & NOT_PLAIN:
            problem = f"{name} is not a plain function"
        elif code.co_argcount != wanted or code.co_kwonlyargcount:
            n = code.co_argcount + code.co_kwonlyargcount
            problem = f"{name} takes {n} arguments, the engine gives {wanted}"
        if problem:
            raise at_line(Path(code.co_filename), code.co_firstlineno, problem, form)
        return function


def functions_of(
    module: ModuleType, handlers: Iterable[FunctionType], *, within: bool = False
) -> set[Callable[..., Any]]:
    """Return the functions that handlers refer to, at any depth within the plugin's files. With
    ``within`` also those that the engine's functions refer to."""
    bindings = Bindings({}, (module,))
    found: set[Callable[..., Any]] = set()
    under_way: list[Any] = list(handlers)
    while under_way:
        function = under_way.pop()
        if function in found or not bindings.compiles(function):
            continue
        found.add(function)
        if function.__module__.startswith("netsim.engine.") and not within:
            continue
        for value in (*bindings.of(function).values(), *contents(function)):
            members = bindings.members(value, function)
            of_value = [value] if members is None else members.values()
            under_way += [one for one in of_value if isinstance(one, FunctionType)]
    return found


def _is_array(field: Any) -> bool:
    return isinstance(field, tuple) and _is_count(field[1])


def _is_count(kind: Any) -> bool:
    return isinstance(kind, int) and not isinstance(kind, bool) and kind > 0


def plugin_parameters(plugin: Any, params: Mapping[str, Any]) -> dict[str, int | float]:
    """Return a plugin's resolved parameters as handlers see them."""
    choices = {p.name: p.choices for p in plugin.params}
    return {name: parameter_value(v, choices.get(name, ())) for name, v in params.items()}


def parameter_value(value: Any, choices: tuple[str, ...]) -> int | float:
    """Return a parameter as handlers see it: None is -1, a choice its index, a bool 0 or 1."""
    if value is None:
        return -1
    if isinstance(value, str):
        return choices.index(value) if value in choices else -1
    if isinstance(value, Bdp):
        return 0  # a different number at each port (`PortSizes`)
    return value if isinstance(value, float) else int(value)
