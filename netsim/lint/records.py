"""The records that handlers are given: their fields, and which of them may be set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.engine.compiling.protocol import SETTABLE, Protocol
from netsim.engine.kernels.env import Env
from netsim.engine.kernels.handlers import ARRIVED, FILLED, FORWARDED, HANDLERS, SENT
from netsim.engine.kernels.layout import (
    HOST_FIELDS,
    PACKET_FIELDS,
    PORT,
    QUEUE,
    RX_FIELDS,
    TX_FIELDS,
)
from netsim.errors import InputError, did_you_mean


@dataclass(frozen=True)
class Ref:
    """What a variable may stand for: a record of some kind, or the array ``field`` in it."""

    kind: str
    field: str = ""


Value = frozenset[Ref]
"""All that a variable may stand for; numbers, and what is unknown, are nothing."""

NOTHING: Value = frozenset()

CHANGED_BY = {"bits": "bit_set and bit_clear", "timers": "set_timer and cancel_timer"}


def arguments(handler: str) -> tuple[Value, ...]:
    """What the arguments of a handler stand for."""
    kinds = {"pkt": HANDLERS[handler].packet, "now": "", "k": ""}
    named = [kinds.get(name, name) for name in HANDLERS[handler].arguments]
    return tuple(frozenset({Ref(kind)}) if kind else NOTHING for kind in named)


@dataclass(frozen=True)
class _Kind:
    """A kind of record: its type, those of its fields that are the engine's, where its own are
    declared, and what is to be said of it."""

    dtype: np.dtype
    engines: tuple[str, ...]
    declared_in: str
    written: str
    place: str = ""


class Records:
    """The records of one transport."""

    def __init__(self, protocol: Protocol) -> None:
        def packet(place: str) -> _Kind:
            return _Kind(protocol.packet, PACKET_FIELDS, "PACKET_FIELDS", "pkt", f" {place}")

        self._kinds = {
            "tx": _Kind(protocol.tx, TX_FIELDS, "TX_STATE", "tx"),
            "rx": _Kind(protocol.rx, RX_FIELDS, "RX_STATE", "rx"),
            "host": _Kind(protocol.host, HOST_FIELDS, "HOST_STATE", "env.host"),
            "par": _Kind(
                protocol.pars[0], tuple(protocol.pars[0].names or ()), "PARAMS", "env.par"
            ),
            "port": _Kind(PORT, tuple(PORT.names or ()), "", "port"),
            "queue": _Kind(QUEUE, tuple(QUEUE.names or ()), "", "queue"),
            FILLED: packet("in fill"),
            SENT: packet("of what send returns"),
            ARRIVED: packet("of a packet that came"),
            FORWARDED: packet("in on_forward"),
        }

    def get(self, ref: Ref, name: str) -> Value:
        """What ``ref.name`` stands for. Raises InputError if there is no such field."""
        if ref.field:
            return NOTHING
        if ref.kind == "env":
            if name not in Env._fields:
                raise InputError(f"env has no {name}", hint="it has host, par, tx and rx")
            return frozenset({Ref(name) if name in ("host", "par") else Ref("env", name)})
        dtype = self._known(ref.kind, name).dtype
        is_array = dtype[name].subdtype is not None
        return frozenset({Ref(ref.kind, name)}) if is_array else NOTHING

    def item(self, ref: Ref) -> Value:
        """What an element of an array stands for."""
        is_side = ref.kind == "env" and ref.field in ("tx", "rx")
        return frozenset({Ref(ref.field)}) if is_side else NOTHING

    def may_set(self, ref: Ref, name: str) -> None:
        """Raises InputError if it is not for a handler to set ``ref.name``."""
        if ref.field:
            return
        if ref.kind == "env":
            how = CHANGED_BY.get(name)
            hint = f"{how} change it" if how else "only fields of records can be set"
            raise InputError(f"env.{name} belongs to the engine", hint=hint)
        kind = self._known(ref.kind, name)
        settable = SETTABLE.get(ref.kind, ())
        if name in kind.engines and name not in settable:
            what = "does not change in a run" if ref.kind == "par" else "belongs to the engine"
            raise InputError(f"{kind.written}.{name} {what}", hint=_what_may_be(kind, settable))

    def may_set_item(self, ref: Ref) -> None:
        """Raises InputError if it is not for a handler to set an element of an array."""
        if ref.field:
            self.may_set(Ref(ref.kind), ref.field)

    def _known(self, kind: str, name: str) -> _Kind:
        """The kind, which must have a field of that name."""
        found = self._kinds[kind]
        names = found.dtype.names or ()
        if name not in names:
            hint = did_you_mean(name, names)
            if not hint.startswith("did you mean") and found.declared_in:
                hint = f"declare it in {found.declared_in}"
            raise InputError(f"{found.written} has no field {name}", hint=hint)
        return found


def _what_may_be(kind: _Kind, settable: tuple[str, ...]) -> str:
    if kind.declared_in == "PARAMS":
        return "what changes is kept in TX_STATE, RX_STATE or HOST_STATE"
    if not kind.declared_in:
        return "what a switch has is only read"
    fields = "".join(f"{name}, " for name in settable)
    return f"to be set{kind.place} are {fields}and the fields in {kind.declared_in}"
