"""Join the transports of a run to one protocol.

Records have the fields of every transport; `own_names.py` has renamed those that must not be
shared. Each handler becomes a function that calls the handler of the flow's transport, with an
`Env` of its parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any

import numpy as np

from netsim.engine.compiling.discipline import Discipline
from netsim.engine.compiling.own_names import fields_of
from netsim.engine.compiling.protocol import Protocol
from netsim.engine.kernels.env import env_of
from netsim.engine.kernels.handler_table import Handler
from netsim.engine.kernels.handlers import HANDLERS
from netsim.engine.kernels.layout import MAX_TIMERS
from netsim.errors import InputError

ENV = "env_of(env.host, env.hosts.pars[0].transport{i}, env.hosts, env.links)"


def join(protocols: Sequence[Protocol], names: Sequence[str]) -> Protocol:
    """Return one protocol for flows of several transports; `names` are for messages."""
    if len(protocols) == 1:
        return protocols[0]
    host_timers = [protocol.host_timers for protocol in protocols]
    if sum(host_timers) > MAX_TIMERS:
        raise InputError(f"together {' and '.join(names)} have more than {MAX_TIMERS} host timers")
    return Protocol(
        modules=tuple(dict.fromkeys(m for protocol in protocols for m in protocol.modules)),
        tx=_union([protocol.tx for protocol in protocols]),
        rx=_union([protocol.rx for protocol in protocols]),
        host=_union([protocol.host for protocol in protocols]),
        packet=_union([protocol.packet for protocol in protocols]),
        pars=tuple(par for protocol in protocols for par in protocol.pars),
        tx_timers=max(protocol.tx_timers for protocol in protocols),
        rx_timers=max(protocol.rx_timers for protocol in protocols),
        host_timers=sum(host_timers),
        tx_bitmaps=max(protocol.tx_bitmaps for protocol in protocols),
        rx_bitmaps=max(protocol.rx_bitmaps for protocol in protocols),
        handlers={name: _joined(handler, protocols) for name, handler in HANDLERS.items()},
        own_names=tuple(own for protocol in protocols for own in protocol.own_names),
    )


def with_discipline(protocol: Protocol, discipline: Discipline, names: Sequence[str]) -> Protocol:
    """Add a queue discipline's packet fields to the transports.

    A field that both declare is shared: the transport sets it for the discipline. ``names`` are
    those of both, for messages. Raises InputError if their types differ.
    """
    ours, theirs = fields_of(protocol.packet), fields_of(discipline.packet)
    for field in sorted(ours.keys() & theirs.keys()):
        if ours[field] != theirs[field]:
            both = " and ".join(names)
            raise InputError(f"{both} have different fields {field} in PACKET_FIELDS")
    return replace(protocol, packet=_union([protocol.packet, discipline.packet]))


def _union(records: Sequence[np.dtype]) -> np.dtype:
    """Return a record with all fields; equal names have the first one's type."""
    fields = {
        name: kind for record in reversed(records) for name, kind in fields_of(record).items()
    }
    order = dict.fromkeys(name for record in records for name in record.names or ())
    return np.dtype([(name, fields[name]) for name in order], align=True)


def _joined(handler: Handler, protocols: Sequence[Protocol]) -> FunctionType:
    """Return one function for the handlers of all transports."""
    if not any(protocol.has(handler.name) for protocol in protocols):
        return handler.default
    if handler.side:
        return _dispatch(handler, protocols)
    joiners = {"on_host_timer": _host_timer_dispatch, "on_forward": _forward}
    return joiners[handler.name](handler, protocols)


def _function(handler: Handler, lines: list[str], names: dict[str, Any]) -> FunctionType:
    """Return a function made of source text; the handlers it calls are globals of it."""
    scope: dict[str, Any] = {"__name__": __name__, "env_of": env_of, **names}
    text = "\n    ".join([f"def {handler.form}:", *lines])
    exec(compile(text, f"<{handler.name} of several transports>", "exec"), scope)
    function: FunctionType = scope[handler.name]
    return function


def _dispatch(handler: Handler, protocols: Sequence[Protocol]) -> FunctionType:
    """Return a function that calls the handler of the flow's transport."""
    rest = ", ".join(handler.arguments[1:])
    lines = [
        f"if {handler.side}.transport == {i}: return handler{i}({ENV.format(i=i)}, {rest})"
        for i in range(len(protocols) - 1)
    ]
    last = len(protocols) - 1
    lines.append(f"return handler{last}({ENV.format(i=last)}, {rest})")
    functions = {f"handler{i}": p.handlers[handler.name] for i, p in enumerate(protocols)}
    return _function(handler, lines, functions)


def _host_timer_dispatch(handler: Handler, protocols: Sequence[Protocol]) -> FunctionType:
    """Return a function that calls the handler of the timer's transport, with its own number."""
    lines = ["pass"]
    first = 0
    functions = {}
    for i, protocol in enumerate(protocols):
        end = first + protocol.host_timers
        if protocol.host_timers > 0:
            functions[f"handler{i}"] = protocol.handlers[handler.name]
            call = f"handler{i}({ENV.format(i=i)}, now, k - {first})"
            lines.append(f"if {first} <= k and k < {end}: {call}")
        first = end
    return _function(handler, lines, functions)


def _forward(handler: Handler, protocols: Sequence[Protocol]) -> FunctionType:
    """Return a function that calls every transport's telemetry; each writes only its own fields."""
    having = [protocol for protocol in protocols if protocol.has(handler.name)]
    found = dict.fromkeys(protocol.handlers[handler.name] for protocol in having)
    functions = {f"handler{i}": function for i, function in enumerate(found)}
    lines = [f"{name}({', '.join(handler.arguments)})" for name in functions]
    return _function(handler, lines, functions)
