"""A transport module as the engine sees it: its declarations, checked, and its handlers.

Several transports of one run are joined to one (`join.py`).
"""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from netsim.engine.kernels.fields import (
    HostRecord,
    PacketRecord,
    ParameterRecord,
    RxRecord,
    TxRecord,
)
from netsim.engine.kernels.handlers import FILLED, HANDLERS, SENT, Handler
from netsim.engine.kernels.layout import (
    HOST_FIELDS,
    MAX_TIMERS,
    PACKET_FIELDS,
    PARAMETER_FIELDS,
    RX_FIELDS,
    TX_FIELDS,
    Field,
    record_of,
)
from netsim.errors import InputError
from netsim.inputs import at_line

SETTABLE = {
    "tx": ("prio", "entropy", "retransmits"),
    "rx": ("prio", "entropy"),
    FILLED: ("seq", "aux", "prio", "entropy", "kind", "ecn"),
    SENT: ("seq", "aux", "prio", "entropy", "ecn", "size_bytes"),
}
"""What a transport may set besides the fields that it declares; all else is the engine's."""

DECLARATIONS = (
    *("PARAMS", "PRESETS", "FABRIC", "PRESET_FABRIC"),
    *("TX_STATE", "RX_STATE", "HOST_STATE", "PACKET_FIELDS"),
    *("TX_TIMERS", "RX_TIMERS", "HOST_TIMERS", "TX_BITMAPS", "RX_BITMAPS"),
    *("CONTROL_PER_DATA", "RELIABLE", "CLOSED_FORM", "TRACE"),
)
"""All that a transport may declare."""

MAX_STATE_BYTES = 1 << 16
MAX_PACKET_BYTES = 1 << 10
"""Of a record of state, and of what a packet carries besides the engine's own fields."""

NOT_PLAIN = (
    inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR | inspect.CO_COROUTINE
)
"""Flags of functions that no handler can be."""


@dataclass(frozen=True)
class Protocol:
    """What a transport declares: state fields, timers, bitmaps, parameters, handlers."""

    modules: tuple[ModuleType, ...]
    tx: np.dtype
    rx: np.dtype
    host: np.dtype
    packet: np.dtype
    pars: tuple[np.dtype, ...]
    tx_timers: int
    rx_timers: int
    host_timers: int
    tx_bitmaps: int
    rx_bitmaps: int
    handlers: Mapping[str, FunctionType]

    def has(self, handler: str) -> bool:
        """Does the transport have this handler itself?"""
        return self.handlers[handler] is not HANDLERS[handler].default

    @property
    def features(self) -> dict[str, bool]:
        """What of the engine the transport makes use of."""
        return {
            "RANKED": self.has("rank"),
            "TELEMETRY": self.has("on_forward"),
        }


def read_protocol(module: ModuleType, params: Mapping[str, Any], name: str) -> Protocol:
    """Check a transport module's declarations. Raises InputError naming what is wrong."""
    declared = _Declared(module, name)
    taken = [p for p in params if p in PARAMETER_FIELDS]
    if taken:
        raise declared.wrong("PARAMS", f"the name {taken[0]} is the engine's own")
    kinds = [(p, float) if isinstance(v, float) else p for p, v in params.items()]
    return Protocol(
        modules=(module,),
        tx=record_of(TxRecord, *declared.fields("TX_STATE", TX_FIELDS, MAX_STATE_BYTES)),
        rx=record_of(RxRecord, *declared.fields("RX_STATE", RX_FIELDS, MAX_STATE_BYTES)),
        host=record_of(HostRecord, *declared.fields("HOST_STATE", HOST_FIELDS, MAX_STATE_BYTES)),
        packet=record_of(
            PacketRecord, *declared.fields("PACKET_FIELDS", PACKET_FIELDS, MAX_PACKET_BYTES)
        ),
        pars=(record_of(ParameterRecord, *kinds),),
        tx_timers=declared.count("TX_TIMERS", MAX_TIMERS - 1),
        rx_timers=declared.count("RX_TIMERS", MAX_TIMERS),
        host_timers=declared.count("HOST_TIMERS", MAX_TIMERS),
        tx_bitmaps=declared.count("TX_BITMAPS", 16),
        rx_bitmaps=declared.count("RX_BITMAPS", 16),
        handlers={name: declared.handler(handler) for name, handler in HANDLERS.items()},
    )


class _Declared:
    """What stands in a transport's file."""

    def __init__(self, module: ModuleType, name: str) -> None:
        self.module = module
        self.file = str(getattr(module, "__file__", None) or name)

    def wrong(self, key: str, message: str, hint: str | None = None) -> InputError:
        """The error for a declaration."""
        return InputError(message, file=self.file, key=key, hint=hint)

    def count(self, what: str, most: int) -> int:
        """A number of timers or bitmaps."""
        value = getattr(self.module, what, 0)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            raise self.wrong(what, f"{value!r} is not a whole number from 0 to {most}")
        return value

    def fields(self, what: str, base: Sequence[str], most_bytes: int) -> tuple[Field, ...]:
        """Fields of a record besides those of the engine, which are ``base``."""
        own = getattr(self.module, what, ())
        if not isinstance(own, (tuple, list)):
            example = f'{what} = ("{own}",)' if isinstance(own, str) else f'{what} = ("rate",)'
            raise self.wrong(what, f"{own!r} is not a tuple of fields", f"such as {example}")
        names = [self._field_name(field, what) for field in own]
        for name in names:
            if name in base:
                raise self.wrong(what, f"the engine has a field {name} itself")
            if names.count(name) > 1:
                raise self.wrong(what, f"names the field {name} twice")
        n_bytes = sum(8 * field[1] if _is_array(field) else 8 for field in own)
        if n_bytes > most_bytes:
            raise self.wrong(what, f"the fields take {n_bytes} bytes", f"at most {most_bytes}")
        return tuple(own)

    def _field_name(self, field: Any, what: str) -> str:
        """The name of a declared field. Raises InputError if it is not declared well."""
        name, kind = field if isinstance(field, tuple) and len(field) == 2 else (field, int)
        good = isinstance(name, str) and name.isidentifier() and not name.startswith("_")
        if (
            not good
            or keyword.iskeyword(name)
            or not (kind is float or kind is int or _is_count(kind))
        ):
            raise self.wrong(
                what,
                f"holds {field!r}, which is not a field",
                '"name" for a whole number, ("name", float), or ("name", 8) for eight numbers',
            )
        return str(name)

    def handler(self, handler: Handler) -> FunctionType:
        """The transport's function for a handler, which must take the same arguments."""
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


def _is_array(field: Any) -> bool:
    return isinstance(field, tuple) and _is_count(field[1])


def _is_count(kind: Any) -> bool:
    return isinstance(kind, int) and not isinstance(kind, bool) and kind > 0


def transport_parameters(plugin: Any, params: Mapping[str, Any]) -> dict[str, int | float]:
    """A transport's resolved parameters as handlers see them."""
    choices = {p.name: p.choices for p in plugin.params}
    return {name: parameter_value(v, choices.get(name, ())) for name, v in params.items()}


def parameter_value(value: Any, choices: tuple[str, ...]) -> int | float:
    """A resolved parameter as handlers see it: None is -1, a choice its index, a bool 0 or 1."""
    if value is None:
        return -1
    if isinstance(value, str):
        return choices.index(value) if value in choices else -1
    return value if isinstance(value, float) else int(value)
