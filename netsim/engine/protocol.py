"""A transport module as the engine sees it: its declarations, checked, and its handlers.

Several transports of one run are joined to one (`mixed.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from netsim.engine import defaults
from netsim.engine.layout import (
    HOST_FIELDS,
    PACKET_FIELDS,
    PARAMETER_FIELDS,
    RX_FIELDS,
    TX_FIELDS,
    Field,
    packet_record,
    record,
)
from netsim.errors import InputError

HANDLERS = {
    "setup": 3,
    "on_start": 3,
    "ready": 3,
    "fill": 4,
    "on_data": 4,
    "on_trimmed": 4,
    "on_request": 4,
    "on_control": 4,
    "on_timer": 4,
    "on_rx_timer": 4,
    "on_host_timer": 3,
    "rank": 2,
    "on_forward": 4,
}
"""Every handler and its number of arguments."""

REQUIRED_HANDLERS = ("ready", "fill")
MAX_TIMERS = 15


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

    @property
    def features(self) -> dict[str, bool]:
        """What of the engine the transport makes use of."""
        return {
            "RANKED": self.handlers["rank"] is not defaults.rank,
            "TELEMETRY": self.handlers["on_forward"] is not defaults.on_forward,
        }


def read_protocol(module: ModuleType, params: Mapping[str, Any], name: str) -> Protocol:
    """Check a transport module's declarations. Raises InputError naming what is wrong."""

    def count(what: str, most: int) -> int:
        value = getattr(module, what, 0)
        if not isinstance(value, int) or not 0 <= value <= most:
            raise InputError(f"transport {name}: {what} must be a whole number from 0 to {most}")
        return value

    def fields(what: str, base: tuple[str, ...]) -> tuple[Field, ...]:
        own = getattr(module, what, ())
        names = [_field_name(field, f"transport {name}: {what}") for field in own]
        for field in names:
            if field in base or names.count(field) > 1:
                raise InputError(f"transport {name}: {what} names the field {field} twice")
        return tuple(own)

    taken = [p for p in params if p in PARAMETER_FIELDS]
    if taken:
        raise InputError(f"transport {name}: the parameter name {taken[0]} is the engine's own")
    kinds = {p: "f8" if isinstance(v, float) else "i8" for p, v in params.items()}
    return Protocol(
        modules=(module,),
        tx=record(*TX_FIELDS, *fields("TX_STATE", TX_FIELDS)),
        rx=record(*RX_FIELDS, *fields("RX_STATE", RX_FIELDS)),
        host=record(*HOST_FIELDS, *fields("HOST_STATE", HOST_FIELDS)),
        packet=packet_record(
            *fields("PACKET_FIELDS", tuple(field for field, _ in PACKET_FIELDS)),
        ),
        pars=(record(*PARAMETER_FIELDS, extra=tuple(kinds.items())),),
        tx_timers=count("TX_TIMERS", MAX_TIMERS - 1),
        rx_timers=count("RX_TIMERS", MAX_TIMERS),
        host_timers=count("HOST_TIMERS", MAX_TIMERS),
        tx_bitmaps=count("TX_BITMAPS", 16),
        rx_bitmaps=count("RX_BITMAPS", 16),
        handlers={h: _handler(module, h, n, name) for h, n in HANDLERS.items()},
    )


def _field_name(field: Any, where: str) -> str:
    """The name of a declared state field. Raises InputError if it is not declared well."""
    name, kind = field if isinstance(field, tuple) and len(field) == 2 else (field, int)
    good = isinstance(name, str) and name.isidentifier()
    if isinstance(kind, int) and not isinstance(kind, bool):
        good = good and kind > 0
    elif kind not in (int, float):
        good = False
    if not good:
        raise InputError(
            f"{where} holds {field!r}, which is not a field",
            hint='"name" for a whole number, ("name", float), or ("name", 8) for eight numbers',
        )
    return str(name)


def _handler(module: ModuleType, handler: str, n_arguments: int, name: str) -> FunctionType:
    function: Callable[..., Any] | None = getattr(module, handler, None)
    if function is None:
        if handler in REQUIRED_HANDLERS:
            raise InputError(f"transport {name} has no function {handler}")
        function = getattr(defaults, handler)
    if not isinstance(function, FunctionType):
        raise InputError(f"transport {name}: {handler} must be a plain function")
    if function.__code__.co_argcount != n_arguments:
        raise InputError(
            f"transport {name}: {handler} takes {function.__code__.co_argcount} arguments, "
            f"the engine gives {n_arguments}"
        )
    return function


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
