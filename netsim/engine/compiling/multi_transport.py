"""Join the transports of a run into one protocol.

Records have the fields of every transport. Fields that must not be shared get other names in the
second transport's records and in a copy of its functions. Each handler becomes a function that
calls the handler of the flow's transport, with an `Env` of its parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from netsim.engine.compiling.bindings import ENGINE, Bindings, contents
from netsim.engine.compiling.declarations import Protocol
from netsim.engine.kernels import fields
from netsim.engine.kernels.handlers import HANDLERS, Env, Handler, env_of
from netsim.engine.kernels.layout import MAX_TIMERS, fields_of
from netsim.errors import InputError

RECORDS = {
    "tx": fields_of(fields.TxRecord),
    "rx": fields_of(fields.RxRecord),
    "host": fields_of(fields.HostRecord),
    "packet": fields_of(fields.PacketRecord),
}
"""Records to which transports add fields, with the engine's own fields."""

PER_FLOW = ("tx_timers", "rx_timers", "tx_bitmaps", "rx_bitmaps")
"""Items that each flow has in the number that its transport declares."""

TAKEN = {*chain(*RECORDS.values()), *fields_of(fields.ParameterRecord), *Env._fields}
OF_PORTS = {*fields_of(fields.PortRecord), *fields_of(fields.QueueRecord)}
"""Field names that handlers already use: TAKEN, and with telemetry also fields of ports."""


def with_own_names(protocols: Sequence[Protocol], names: Sequence[str]) -> list[Protocol]:
    """Return the transports without unintended shared fields; `names` are for messages.

    A flow has one transport, so fields of flows and packets with the same name and type are shared.
    Host state never is. Packet fields of a transport with telemetry are not either, since switches
    do not know whose packet they forward.
    """
    found: list[Protocol] = []
    for i, protocol in enumerate(protocols):
        own = {
            name: f"{name}#{i}"  # not a valid name in a file
            for record in RECORDS
            for before in found
            for name in _apart(record, before, protocol)
        }
        for name in own:
            if name in (TAKEN | OF_PORTS if protocol.has("on_forward") else TAKEN):
                others = " and ".join(names[: i + 1])
                hint = f"another name in {names[i]}"
                raise InputError(f"{others} have conflicting fields {name}", hint=hint)
        found.append(_renamed(protocol, own) if own else protocol)
    return found


def kinds_of(record: np.dtype) -> dict[str, np.dtype]:
    """Return the fields of a record with their types."""
    return {name: kind for name, (kind, *_) in (record.fields or {}).items()}


def _apart(record: str, first: Protocol, second: Protocol) -> list[str]:
    """Return the fields of a record that both transports declare but must not share."""
    ours, theirs = (kinds_of(getattr(protocol, record)) for protocol in (first, second))
    both = [name for name in ours.keys() & theirs.keys() if name not in RECORDS[record]]
    telemetry = first.has("on_forward") or second.has("on_forward")
    if record == "host" or (record == "packet" and telemetry and first.modules != second.modules):
        return both
    return [name for name in both if ours[name] != theirs[name]]


def _renamed(protocol: Protocol, own: Mapping[str, str]) -> Protocol:
    """Return the transport with some of its fields renamed everywhere."""
    renaming = _Renaming(Bindings({}, protocol.modules), own, {})
    records: dict[str, Any] = {name: _with_names(getattr(protocol, name), own) for name in RECORDS}
    return replace(
        protocol,
        **records,
        pars=tuple(_with_names(par, own) for par in protocol.pars),
        handlers={name: renaming.function(one) for name, one in protocol.handlers.items()},
        own_names=(own,),
    )


def _with_names(record: np.dtype, own: Mapping[str, str]) -> np.dtype:
    kinds = kinds_of(record).items()
    return np.dtype([(own.get(name, name), kind) for name, kind in kinds], align=True)


@dataclass(frozen=True)
class _Renaming:
    """Copies functions with renamed fields; unaffected functions are kept."""

    bindings: Bindings
    own: Mapping[str, str]
    done: dict[FunctionType, FunctionType]

    def function(self, function: FunctionType) -> FunctionType:
        """Return the function, or a copy with renamed fields and callees."""
        if function in self.done:
            return self.done[function]
        self.done[function] = function  # recursion is refused later
        code = self._code(function.__code__)
        used = self.bindings.of(function)
        changed = {
            name: new
            for name, old in used.items()
            if (new := self._value(old, function)) is not old
        }
        inside = contents(function)
        cells = tuple(self._value(value, function) for value in inside)
        if code is function.__code__ and not changed and cells == inside:
            return function
        # A renamed field may also be the name of a global: keep both.
        scope = {**function.__globals__, **changed}
        scope |= {new: scope[old] for old, new in self.own.items() if old in scope}
        closure = tuple(CellType(value) for value in cells) or None
        copied = FunctionType(code, scope, function.__name__, function.__defaults__, closure)
        copied.__module__, copied.__qualname__ = function.__module__, function.__qualname__
        copied.__kwdefaults__, copied.__doc__ = function.__kwdefaults__, function.__doc__
        self.done[function] = copied
        return copied

    def _value(self, value: Any, user: FunctionType) -> Any:
        """Return the value of a name of ``user`` in its copy."""
        members = self.bindings.members(value, user)
        if members is not None:
            new = {name: self._value(member, user) for name, member in members.items()}
            aliases = {self.own[name]: member for name, member in new.items() if name in self.own}
            if not aliases and all(new[name] is members[name] for name in members):
                return value
            stand_in = ModuleType(value.__name__)
            vars(stand_in).update({"__file__": value.__file__, **new, **aliases})
            return stand_in
        is_engine = getattr(value, "__module__", "").startswith(ENGINE)
        if self.bindings.compiles(value) and not is_engine:
            return self.function(value)
        return value

    def _code(self, code: CodeType) -> CodeType:
        """Return the code, and code within it, with renamed fields."""
        names = tuple(self.own.get(name, name) for name in code.co_names)
        constants = tuple(
            self._code(one) if isinstance(one, CodeType) else one for one in code.co_consts
        )
        same = all(new is old for new, old in zip(constants, code.co_consts, strict=True))
        if names == code.co_names and same:
            return code
        return code.replace(co_names=names, co_consts=constants)


ENV = "env_of(env.host, env.hosts.pars[0].transport{i}, env.hosts, env.links)"


def join(protocols: Sequence[Protocol], names: Sequence[str]) -> Protocol:
    """Return one protocol for flows of several transports; `names` are for messages."""
    if len(protocols) == 1:
        return protocols[0]
    host_timers = [protocol.host_timers for protocol in protocols]
    if sum(host_timers) > MAX_TIMERS:
        raise InputError(f"together {' and '.join(names)} have more than {MAX_TIMERS} host timers")
    records: dict[str, Any] = {
        name: _union([getattr(one, name) for one in protocols]) for name in RECORDS
    }
    return Protocol(
        modules=tuple(dict.fromkeys(m for protocol in protocols for m in protocol.modules)),
        **records,
        pars=tuple(par for protocol in protocols for par in protocol.pars),
        **{name: max(getattr(one, name) for one in protocols) for name in PER_FLOW},
        host_timers=sum(host_timers),
        handlers={name: _joined(handler, protocols) for name, handler in HANDLERS.items()},
        own_names=tuple(own for protocol in protocols for own in protocol.own_names),
    )


def with_packet(protocol: Protocol, packet: np.dtype, names: Sequence[str]) -> Protocol:
    """Add the packet fields of a queue discipline or routing algorithm to the transports.

    A field that both declare is shared: the transport sets it for the switches. ``names`` names
    both, for messages. Raises InputError if their types differ.
    """
    ours, theirs = kinds_of(protocol.packet), kinds_of(packet)
    for field in sorted(ours.keys() & theirs.keys()):
        if ours[field] != theirs[field]:
            both = " and ".join(names)
            raise InputError(f"{both} have different fields {field} in PACKET_FIELDS")
    return replace(protocol, packet=_union([protocol.packet, packet]))


def _union(records: Sequence[np.dtype]) -> np.dtype:
    """Return a record with all fields; equal names have the first one's type."""
    kinds = {name: kind for record in reversed(records) for name, kind in kinds_of(record).items()}
    order = dict.fromkeys(name for record in records for name in record.names or ())
    return np.dtype([(name, kinds[name]) for name in order], align=True)


def _joined(handler: Handler, protocols: Sequence[Protocol]) -> FunctionType:
    """Return one function for the handlers of all transports."""
    if not any(protocol.has(handler.name) for protocol in protocols):
        return handler.default
    if handler.side:
        return _dispatch(handler, protocols)
    joiners = {"on_host_timer": _host_timer_dispatch, "on_forward": _forward}
    return joiners[handler.name](handler, protocols)


def _function(handler: Handler, lines: list[str], names: dict[str, Any]) -> FunctionType:
    """Return a function made of source text; the handlers it calls are its globals."""
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
