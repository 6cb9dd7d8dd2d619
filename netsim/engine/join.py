"""Several transports in one run, joined to one protocol.

Records of flows have the fields of every transport (those of the same name are shared: a flow
has one transport only). Each handler becomes a function that looks which transport the flow
has and calls that one's handler, with an `Env` that holds its parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from types import FunctionType
from typing import Any

import numpy as np

from netsim.engine import defaults
from netsim.engine.host import Env
from netsim.engine.layout import HOST_FIELDS, PACKET
from netsim.engine.protocol import ARGUMENTS, HANDLERS, MAX_TIMERS, Protocol
from netsim.errors import InputError

ENV = (
    "Env(env.host, env.pars[{i}][0], env.pars, env.pool, env.blank, env.timers, env.heap, "
    "env.bits, env.tx, env.rx)"
)
OF_A_FLOW = {
    name: ", ".join(arguments)
    for name, arguments in ARGUMENTS.items()
    if name not in ("on_host_timer", "on_forward")
}
"""The handlers of one flow, with the names of their arguments."""


def mix(protocols: Sequence[Protocol], names: Sequence[str]) -> Protocol:
    """One protocol for flows of several transports; `names` are for messages.

    Raises InputError if two of them keep state of the same name in a host or in packets.
    """
    if len(protocols) == 1:
        return protocols[0]
    _check(protocols, names)
    host_timers = [protocol.host_timers for protocol in protocols]
    if sum(host_timers) > MAX_TIMERS:
        raise InputError(f"together {' and '.join(names)} have more than {MAX_TIMERS} host timers")
    handlers = {name: _dispatch(name, protocols) for name in OF_A_FLOW}
    if all(protocol.handlers["rank"] is defaults.rank for protocol in protocols):
        handlers["rank"] = protocols[0].handlers["rank"]
    handlers["on_host_timer"] = _host_timer_dispatch(protocols)
    handlers["on_forward"] = _forward(protocols)
    assert set(handlers) == set(HANDLERS)
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
        handlers=handlers,
    )


def _union(records: Sequence[np.dtype]) -> np.dtype:
    """A record with the fields of all; those of one name have one type, the first one's."""
    fields = {name: kind for record in reversed(records) for name, kind in _fields(record).items()}
    order = dict.fromkeys(name for record in records for name in record.names or ())
    return np.dtype([(name, fields[name]) for name in order], align=True)


def _fields(record: np.dtype) -> dict[str, np.dtype]:
    return {name: kind for name, (kind, *_) in (record.fields or {}).items()}


def _check(protocols: Sequence[Protocol], names: Sequence[str]) -> None:
    """Refuse what cannot be joined.

    Flows of either transport may have a field of the same name and type. State of hosts and
    fields of packets are for all flows, so there a name belongs to one transport; packets may
    share it among several uses of the same one.
    """
    for (a, first), (b, second) in combinations(zip(protocols, names, strict=True), 2):
        for what, mine, other in (("TX_STATE", a.tx, b.tx), ("RX_STATE", a.rx, b.rx)):
            ours, theirs = _fields(mine), _fields(other)
            for field in ours.keys() & theirs.keys():
                if ours[field] != theirs[field]:
                    raise InputError(
                        f"{first} and {second} have different fields {field} in {what}"
                    )
        shared = {"HOST_STATE": set(a.host.names or ()) & set(b.host.names or ())}
        shared["HOST_STATE"] -= set(HOST_FIELDS)
        if a.modules != b.modules:
            shared["PACKET_FIELDS"] = set(a.packet.names or ()) & set(b.packet.names or ())
            shared["PACKET_FIELDS"] -= set(PACKET.names or ())
        for what, fields in shared.items():
            for field in sorted(fields):
                raise InputError(f"{first} and {second} both have the field {field} in {what}")


def _function(name: str, arguments: str, lines: list[str], names: dict[str, Any]) -> FunctionType:
    """A function made of source text; the handlers it calls are among its globals."""
    scope: dict[str, Any] = {"__name__": __name__, "Env": Env, **names}
    text = "\n    ".join([f"def {name}({arguments}):", *lines])
    exec(compile(text, f"<{name} of several transports>", "exec"), scope)
    function: FunctionType = scope[name]
    return function


def _dispatch(name: str, protocols: Sequence[Protocol]) -> FunctionType:
    arguments = OF_A_FLOW[name]
    side = "rx" if "rx" in arguments.split(", ") and "tx" not in arguments else "tx"
    rest = arguments.partition(", ")[2]
    lines = [
        f"if {side}.transport == {i}: return handler{i}({ENV.format(i=i)}, {rest})"
        for i in range(len(protocols) - 1)
    ]
    last = len(protocols) - 1
    lines.append(f"return handler{last}({ENV.format(i=last)}, {rest})")
    handlers = {f"handler{i}": p.handlers[name] for i, p in enumerate(protocols)}
    return _function(name, arguments, lines, handlers)


def _host_timer_dispatch(protocols: Sequence[Protocol]) -> FunctionType:
    lines = ["pass"]
    first = 0
    handlers = {}
    for i, protocol in enumerate(protocols):
        end = first + protocol.host_timers
        if protocol.host_timers > 0:
            handlers[f"handler{i}"] = protocol.handlers["on_host_timer"]
            call = f"handler{i}({ENV.format(i=i)}, now, k - {first})"
            lines.append(f"if {first} <= k and k < {end}: {call}")
        first = end
    return _function("on_host_timer", "env, now, k", lines, handlers)


def _forward(protocols: Sequence[Protocol]) -> FunctionType:
    """Telemetry of every transport that has it; each writes fields of its own only."""
    declared = [p.handlers["on_forward"] for p in protocols]
    found = [handler for handler in dict.fromkeys(declared) if handler is not defaults.on_forward]
    if not found:
        return declared[0]
    handlers = {f"handler{i}": handler for i, handler in enumerate(found)}
    lines = [f"{name}(now, pkt, port, queue)" for name in handlers]
    return _function("on_forward", "now, pkt, port, queue", lines, handlers)
