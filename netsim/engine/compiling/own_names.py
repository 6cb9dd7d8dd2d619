"""Fields of several transports that may not be one: they get names of their own.

A handler names a field in its code, so where two transports mean different things by one name, the
functions of the second are copied with another name in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from netsim.engine.compiling.bindings import ENGINE, Bindings
from netsim.engine.compiling.protocol import Protocol
from netsim.engine.compiling.unsupported_code import contents
from netsim.engine.kernels.env import Env
from netsim.engine.kernels.layout import (
    HOST_FIELDS,
    PACKET_FIELDS,
    PARAMETER_FIELDS,
    PORT_FIELDS,
    QUEUE_FIELDS,
    RX_FIELDS,
    TX_FIELDS,
)
from netsim.errors import InputError

RECORDS = {"tx": TX_FIELDS, "rx": RX_FIELDS, "host": HOST_FIELDS, "packet": PACKET_FIELDS}
"""The records that transports add fields to, and the engine's own fields of each."""

TAKEN = {*chain(*RECORDS.values()), *PARAMETER_FIELDS, *Env._fields}
OF_PORTS = {*PORT_FIELDS, *QUEUE_FIELDS}
"""What handlers find besides: those of telemetry, at ports, and all others."""


def with_own_names(protocols: Sequence[Protocol], names: Sequence[str]) -> list[Protocol]:
    """The transports of a run, without fields that they share by mistake; `names` are for messages.

    A flow has one transport, so fields of flows and of packets are shared if they have the same
    name and type, and a state of hosts never is. Switches do not know whose packet they forward:
    where a transport has telemetry, what its packets carry is its own.
    """
    found: list[Protocol] = []
    for i, protocol in enumerate(protocols):
        own = {
            name: f"{name}#{i}"  # which no file can say
            for record in RECORDS
            for before in found
            for name in _apart(record, before, protocol)
        }
        for name in own:
            if name in (TAKEN | OF_PORTS if protocol.has("on_forward") else TAKEN):
                others = " and ".join(names[: i + 1])
                hint = f"another name in {names[i]}"
                raise InputError(f"{others} cannot both have a field {name}", hint=hint)
        found.append(_renamed(protocol, own) if own else protocol)
    return found


def fields_of(record: np.dtype) -> dict[str, np.dtype]:
    """The fields of a record with their types."""
    return {name: kind for name, (kind, *_) in (record.fields or {}).items()}


def _apart(record: str, first: Protocol, second: Protocol) -> list[str]:
    """The fields of a kind of record that both have, and that are not one."""
    ours, theirs = (fields_of(getattr(protocol, record)) for protocol in (first, second))
    both = [name for name in ours.keys() & theirs.keys() if name not in RECORDS[record]]
    telemetry = first.has("on_forward") or second.has("on_forward")
    if record == "host" or (record == "packet" and telemetry and first.modules != second.modules):
        return both
    return [name for name in both if ours[name] != theirs[name]]


def _renamed(protocol: Protocol, own: Mapping[str, str]) -> Protocol:
    """The transport with other names for some of its fields, wherever it has any of that name."""
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
    fields = fields_of(record).items()
    return np.dtype([(own.get(name, name), kind) for name, kind in fields], align=True)


@dataclass(frozen=True)
class _Renaming:
    """Copies functions with other names; those that have none of them stay as they are."""

    bindings: Bindings
    own: Mapping[str, str]
    done: dict[FunctionType, FunctionType]

    def function(self, function: FunctionType) -> FunctionType:
        """The function, or a copy that names fields, and calls functions that do, by new names."""
        if function in self.done:
            return self.done[function]
        self.done[function] = function  # one that calls itself is refused later on
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
        # What a new name replaces may be that of a global, too: it is there under both.
        scope = {**function.__globals__, **changed}
        scope |= {new: scope[old] for old, new in self.own.items() if old in scope}
        closure = tuple(CellType(value) for value in cells) or None
        copied = FunctionType(code, scope, function.__name__, function.__defaults__, closure)
        copied.__module__, copied.__qualname__ = function.__module__, function.__qualname__
        copied.__kwdefaults__, copied.__doc__ = function.__kwdefaults__, function.__doc__
        self.done[function] = copied
        return copied

    def _value(self, value: Any, user: FunctionType) -> Any:
        """What a name of ``user`` stands for in its copy."""
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
        """The code with other names, and the code within it."""
        names = tuple(self.own.get(name, name) for name in code.co_names)
        constants = tuple(
            self._code(one) if isinstance(one, CodeType) else one for one in code.co_consts
        )
        same = all(new is old for new, old in zip(constants, code.co_consts, strict=True))
        if names == code.co_names and same:
            return code
        return code.replace(co_names=names, co_consts=constants)
