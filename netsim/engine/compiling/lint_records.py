"""The records that handlers receive: their fields, and which of them handlers may set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from netsim.engine.compiling.declarations import (
    PROGRAM_SETTABLE,
    QUEUE_SETTABLE,
    SETTABLE,
    Discipline,
    Program,
    Protocol,
)
from netsim.engine.compiling.routing_declarations import ROUTING_SETTABLE, RoutingAlgorithm
from netsim.engine.kernels import fields
from netsim.engine.kernels.fields import RouterRecord, RoutingPortRecord
from netsim.engine.kernels.handlers import (
    ARRIVED,
    BUILT,
    COMING,
    DEPARTS,
    FORWARDED,
    LEAVING,
    ROUTED,
    SENT,
    Env,
    Handler,
    QueueEnv,
)
from netsim.engine.kernels.layout import PORT, QUEUE, ROUTING_PORT, fields_of
from netsim.errors import InputError, did_you_mean


@dataclass(frozen=True)
class Ref:
    """What a variable may refer to: a record of some kind, or its array ``field``."""

    kind: str
    field: str = ""


Value = frozenset[Ref]
"""All that a variable may refer to; empty for numbers and unknown values."""

NOTHING: Value = frozenset()

CHANGED_BY = {"bits": "bit_set and bit_clear", "timers": "set_timer and cancel_timer"}
ENGINE_ONLY = ("hosts", "links")
"""Fields of `env` that are not for handlers."""

NUMBERS = ("now", "k", "cls", "size", "first", "n", "n_ticks")
"""Arguments of handlers that are numbers."""

WAITING = "pkt waiting"
"""A packet in a queue that a discipline inspects."""


def arguments(handler: Handler) -> tuple[Value, ...]:
    """Return what the arguments of a handler refer to."""
    kinds = {"pkt": handler.packet, **dict.fromkeys(NUMBERS, "")}
    named = [kinds.get(name, name) for name in handler.arguments]
    return tuple(frozenset({Ref(kind)}) if kind else NOTHING for kind in named)


@dataclass(frozen=True)
class Kind:
    """A kind of record: its type, that of the engine's fields (None: all are the engine's), where
    its own are declared, and its name."""

    dtype: np.dtype
    base: type[fields.Declared] | None
    declared_in: str
    written: str
    place: str = ""

    def is_of_engine(self, name: str) -> bool:
        """Return whether a field is not the file's own."""
        return self.base is None or name in fields_of(self.base)


class RoutedPacketRecord(fields.PacketRecord):
    """A packet in a fabric whose routing algorithm may send it via other groups."""

    via: int


@dataclass(frozen=True)
class Records:
    """The records of one file's handlers.

    ``settable`` lists the engine's fields that may be set in each kind of record. ``env`` lists the
    fields of `env`: numbers, records, and arrays of records (``sides``). ``gives`` maps functions
    of the engine that return a record to its kind. ``state`` names the lists in which state is
    declared, ``log`` the columns of LOG.
    """

    kinds: Mapping[str, Kind]
    settable: Mapping[str, tuple[str, ...]]
    env: tuple[str, ...]
    sides: tuple[str, ...]
    gives: Mapping[str, str]
    state: str
    log: tuple[str, ...] = ()

    def may_call(self, function: str, n_arguments: int) -> None:
        """Raise InputError if the arguments of `log_row` do not match the columns of LOG."""
        if function != "log_row" or n_arguments == 2 + len(self.log):
            return
        if not self.log:
            raise InputError("log_row() needs LOG", hint='declare LOG = ("event",)')
        message = f"log_row() has {n_arguments - 2} values for {len(self.log)} columns of LOG"
        raise InputError(message, hint=f"log_row(env, now, {', '.join(self.log)})")

    def returned_by(self, function: str) -> Value:
        """Return what a function of the engine returns."""
        kind = self.gives.get(function)
        return frozenset({Ref(kind)}) if kind else NOTHING

    def get(self, ref: Ref, name: str) -> Value:
        """Return what ``ref.name`` refers to. Raises InputError if there is no such field."""
        if ref.field:
            return NOTHING
        if ref.kind == "env":
            if name not in self.env:
                *most, last = [one for one in self.env if one in self.kinds]
                hint = f"it has {', '.join(most)} and {last}"
                raise InputError(f"env has no {name}", hint=hint)
            is_record = name in self.kinds and name not in self.sides
            return frozenset({Ref(name) if is_record else Ref("env", name)})
        dtype = self._known(ref.kind, name).dtype
        is_array = dtype[name].subdtype is not None
        return frozenset({Ref(ref.kind, name)}) if is_array else NOTHING

    def item(self, ref: Ref) -> Value:
        """Return what an element of an array refers to."""
        is_side = ref.kind == "env" and ref.field in self.sides
        return frozenset({Ref(ref.field)}) if is_side else NOTHING

    def may_set(self, ref: Ref, name: str) -> None:
        """Raise InputError if a handler must not set ``ref.name``."""
        if ref.field:
            return
        if ref.kind == "env":
            how = CHANGED_BY.get(name)
            hint = f"use {how}" if how else "only fields of records can be set"
            raise InputError(f"env.{name} belongs to the engine", hint=hint)
        kind = self._known(ref.kind, name)
        settable = self.settable.get(ref.kind, ())
        if kind.is_of_engine(name) and name not in settable:
            what = "is constant in a run" if ref.kind == "par" else "belongs to the engine"
            raise InputError(f"{kind.written}.{name} {what}", hint=self._allowed(kind, settable))

    def may_set_item(self, ref: Ref) -> None:
        """Raise InputError if a handler must not set an element of an array."""
        if ref.field:
            self.may_set(Ref(ref.kind), ref.field)

    def _known(self, kind: str, name: str) -> Kind:
        """Return the kind, which must have a field of that name."""
        found = self.kinds[kind]
        names = found.dtype.names or ()
        if name not in names:
            hint = did_you_mean(name, names)
            if not hint.startswith("did you mean") and found.declared_in:
                hint = f"declare it in {found.declared_in}"
            raise InputError(f"{found.written} has no field {name}", hint=hint)
        return found

    def _allowed(self, kind: Kind, settable: tuple[str, ...]) -> str:
        if kind.declared_in == "PARAMS":
            return f"keep state in {self.state}"
        if not kind.declared_in:
            return "ports and queues are read-only here"
        of_engine = f"{', '.join(settable)}, and " if settable else ""
        return f"a handler may set{kind.place} {of_engine}the fields in {kind.declared_in}"


def transport_records(protocol: Protocol) -> Records:
    """Return the records of a transport."""
    return Records(
        kinds={
            "tx": Kind(protocol.tx, fields.TxRecord, "TX_STATE", "tx"),
            "rx": Kind(protocol.rx, fields.RxRecord, "RX_STATE", "rx"),
            "host": Kind(protocol.host, fields.HostRecord, "HOST_STATE", "env.host"),
            "par": _parameters(protocol.pars[0]),
            "port": Kind(PORT, fields.PortRecord, "", "port"),
            "queue": Kind(QUEUE, fields.QueueRecord, "", "queue"),
            BUILT: _packet(protocol.packet, "in build_packet"),
            SENT: _packet(protocol.packet, "in what send returns"),
            ARRIVED: _packet(protocol.packet, "in an arrived packet"),
            FORWARDED: _packet(protocol.packet, "in on_forward"),
        },
        settable=SETTABLE,
        env=tuple(name for name in Env._fields if name not in ENGINE_ONLY),
        sides=("tx", "rx"),
        gives={"send": SENT},
        state="TX_STATE, RX_STATE and HOST_STATE",
    )


def queue_records(discipline: Discipline) -> Records:
    """Return the records of a queue discipline."""
    return Records(
        kinds={
            "port": Kind(discipline.port, fields.PortRecord, "PORT_STATE", "port"),
            "queue": Kind(discipline.queue, fields.QueueRecord, "CLASS_STATE", "queue"),
            "switch": Kind(discipline.switch, fields.SwitchRecord, "SWITCH_STATE", "env.switch"),
            "par": _parameters(discipline.par),
            COMING: _packet(discipline.packet, "in an arriving packet"),
            WAITING: _packet(discipline.packet, "in a waiting packet"),
            LEAVING: _packet(discipline.packet, "in on_send"),
        },
        settable=QUEUE_SETTABLE,
        env=tuple(name for name in QueueEnv._fields if name != "net"),
        sides=(),
        gives={"class_of": "queue", "peek": WAITING, "pop_tail": COMING},
        state="PORT_STATE, CLASS_STATE and SWITCH_STATE",
    )


def routing_records(routing: RoutingAlgorithm) -> Records:
    """Return the records of a routing algorithm. Without coupled ports, the state of another port
    is unknown when a packet is routed."""
    port = Kind(routing.port, RoutingPortRecord, "PORT_STATE", "port")
    other = port if routing.coupled else Kind(ROUTING_PORT, RoutingPortRecord, "", "the output")
    packet = Kind(routing.packet, RoutedPacketRecord, "PACKET_FIELDS", "pkt")
    return Records(
        kinds={
            "port": port,
            "out": other,
            "switch": Kind(routing.switch, RouterRecord, "SWITCH_STATE", "env.switch"),
            "par": _parameters(routing.par),
            "side": Kind(routing.plane, fields.PortChoiceRecord, "PLANE_STATE", "side"),
            "row": Kind(routing.row, fields.Declared, "FLOW_TABLE", "row"),
            ROUTED: packet,
            DEPARTS: packet,
        },
        settable=ROUTING_SETTABLE | ({"out": ROUTING_SETTABLE["port"]} if routing.coupled else {}),
        env=("par", "switch", "is_data"),
        sides=(),
        gives={"egress": "out", "flow_row": "row"},
        state="PORT_STATE, SWITCH_STATE, PLANE_STATE, FLOW_TABLE and PACKET_FIELDS",
    )


def program_records(program: Program) -> Records:
    """Return the records of a program."""
    return Records(
        kinds={
            "task": Kind(program.task, fields.ProgramTaskRecord, "TASK_STATE", "task"),
            "host": Kind(program.host, fields.ProgramHostRecord, "HOST_STATE", "env.host"),
            "par": _parameters(program.par),
        },
        settable=PROGRAM_SETTABLE,
        env=("par", "host"),
        sides=(),
        gives={"task_at": "task"},
        state="HOST_STATE and TASK_STATE",
        log=program.log,
    )


def _packet(dtype: np.dtype, place: str) -> Kind:
    return Kind(dtype, fields.PacketRecord, "PACKET_FIELDS", "pkt", f" {place}")


def _parameters(dtype: np.dtype) -> Kind:
    return Kind(dtype, None, "PARAMS", "env.par")
