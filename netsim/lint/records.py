"""The records that handlers are given: their fields, and which of them may be set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from netsim.engine.compiling.discipline import QUEUE_SETTABLE, Discipline
from netsim.engine.compiling.program import PROGRAM_SETTABLE, Program
from netsim.engine.compiling.protocol import SETTABLE, Protocol
from netsim.engine.kernels.env import Env, QueueEnv
from netsim.engine.kernels.handler_table import Handler
from netsim.engine.kernels.handlers import ARRIVED, BUILT, FORWARDED, SENT
from netsim.engine.kernels.layout import (
    HOST_FIELDS,
    PACKET_FIELDS,
    PORT,
    PORT_FIELDS,
    PROGRAM_HOST_FIELDS,
    PROGRAM_TASK_FIELDS,
    QUEUE,
    QUEUE_FIELDS,
    RX_FIELDS,
    SWITCH_FIELDS,
    TX_FIELDS,
)
from netsim.engine.kernels.queue_handlers import COMING, LEAVING
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
OF_THE_ENGINE = ("hosts", "links")
"""Of `env`, what handlers have no business with."""

NUMBERS = ("now", "k", "cls", "size")
"""Arguments of handlers that are no records."""

WAITING = "pkt waiting"
"""A packet in a queue at which a discipline looks."""


def arguments(handler: Handler) -> tuple[Value, ...]:
    """What the arguments of a handler stand for."""
    kinds = {"pkt": handler.packet, **dict.fromkeys(NUMBERS, "")}
    named = [kinds.get(name, name) for name in handler.arguments]
    return tuple(frozenset({Ref(kind)}) if kind else NOTHING for kind in named)


@dataclass(frozen=True)
class Kind:
    """A kind of record: its type, those of its fields that are the engine's, where its own are
    declared, and what is to be said of it."""

    dtype: np.dtype
    engines: tuple[str, ...]
    declared_in: str
    written: str
    place: str = ""


@dataclass(frozen=True)
class Records:
    """The records that the handlers of one file are given.

    ``settable`` says which fields of the engine's may be set in each kind of record. ``env`` are
    the fields of `env`, of which some are records and ``sides`` arrays of them. ``gives`` are the
    functions of the engine's that return a record. ``state`` is where a handler keeps what changes.
    ``log`` are the columns of the rows that it may log.
    """

    kinds: Mapping[str, Kind]
    settable: Mapping[str, tuple[str, ...]]
    env: tuple[str, ...]
    sides: tuple[str, ...]
    gives: Mapping[str, str]
    state: str
    log: tuple[str, ...] = ()

    def may_call(self, function: str, n_arguments: int) -> None:
        """Raises InputError if `log_row` is given another number of columns than LOG has."""
        if function != "log_row" or n_arguments == 2 + len(self.log):
            return
        if not self.log:
            raise InputError("log_row() is called, but LOG is missing", hint='LOG = ("event",)')
        message = (
            f"log_row() is given {n_arguments - 2} numbers, and LOG has {len(self.log)} columns"
        )
        raise InputError(message, hint=f"log_row(env, now, {', '.join(self.log)})")

    def given_by(self, function: str) -> Value:
        """What a function of the engine's returns."""
        kind = self.gives.get(function)
        return frozenset({Ref(kind)}) if kind else NOTHING

    def get(self, ref: Ref, name: str) -> Value:
        """What ``ref.name`` stands for. Raises InputError if there is no such field."""
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
        """What an element of an array stands for."""
        is_side = ref.kind == "env" and ref.field in self.sides
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
        settable = self.settable.get(ref.kind, ())
        if name in kind.engines and name not in settable:
            what = "does not change in a run" if ref.kind == "par" else "belongs to the engine"
            hint = self._what_may_be(kind, settable)
            raise InputError(f"{kind.written}.{name} {what}", hint=hint)

    def may_set_item(self, ref: Ref) -> None:
        """Raises InputError if it is not for a handler to set an element of an array."""
        if ref.field:
            self.may_set(Ref(ref.kind), ref.field)

    def _known(self, kind: str, name: str) -> Kind:
        """The kind, which must have a field of that name."""
        found = self.kinds[kind]
        names = found.dtype.names or ()
        if name not in names:
            hint = did_you_mean(name, names)
            if not hint.startswith("did you mean") and found.declared_in:
                hint = f"declare it in {found.declared_in}"
            raise InputError(f"{found.written} has no field {name}", hint=hint)
        return found

    def _what_may_be(self, kind: Kind, settable: tuple[str, ...]) -> str:
        if kind.declared_in == "PARAMS":
            return f"what changes is kept in {self.state}"
        if not kind.declared_in:
            return "what a switch has is only read"
        fields = f"{', '.join(settable)}, and " if settable else ""
        return f"to be set{kind.place} are {fields}the fields in {kind.declared_in}"


def transport_records(protocol: Protocol) -> Records:
    """The records of a transport."""

    def packet(place: str) -> Kind:
        return Kind(protocol.packet, PACKET_FIELDS, "PACKET_FIELDS", "pkt", f" {place}")

    return Records(
        kinds={
            "tx": Kind(protocol.tx, TX_FIELDS, "TX_STATE", "tx"),
            "rx": Kind(protocol.rx, RX_FIELDS, "RX_STATE", "rx"),
            "host": Kind(protocol.host, HOST_FIELDS, "HOST_STATE", "env.host"),
            "par": _parameters(protocol.pars[0]),
            "port": Kind(PORT, tuple(PORT.names or ()), "", "port"),
            "queue": Kind(QUEUE, tuple(QUEUE.names or ()), "", "queue"),
            BUILT: packet("in build_packet"),
            SENT: packet("of what send returns"),
            ARRIVED: packet("of a packet that came"),
            FORWARDED: packet("in on_forward"),
        },
        settable=SETTABLE,
        env=tuple(name for name in Env._fields if name not in OF_THE_ENGINE),
        sides=("tx", "rx"),
        gives={"send": SENT},
        state="TX_STATE, RX_STATE and HOST_STATE",
    )


def queue_records(discipline: Discipline) -> Records:
    """The records of a queue discipline."""

    def packet(place: str) -> Kind:
        return Kind(discipline.packet, PACKET_FIELDS, "PACKET_FIELDS", "pkt", f" {place}")

    return Records(
        kinds={
            "port": Kind(discipline.port, PORT_FIELDS, "PORT_STATE", "port"),
            "queue": Kind(discipline.queue, QUEUE_FIELDS, "CLASS_STATE", "queue"),
            "switch": Kind(discipline.switch, SWITCH_FIELDS, "SWITCH_STATE", "env.switch"),
            "par": _parameters(discipline.par),
            COMING: packet("of a packet that comes"),
            WAITING: packet("of a packet that waits"),
            LEAVING: packet("in on_send"),
        },
        settable=QUEUE_SETTABLE,
        env=QueueEnv._fields,
        sides=(),
        gives={"class_of": "queue", "peek": WAITING, "pop_tail": COMING},
        state="PORT_STATE, CLASS_STATE and SWITCH_STATE",
    )


def program_records(program: Program) -> Records:
    """The records of a program."""
    return Records(
        kinds={
            "task": Kind(program.task, PROGRAM_TASK_FIELDS, "TASK_STATE", "task"),
            "host": Kind(program.host, PROGRAM_HOST_FIELDS, "HOST_STATE", "env.host"),
            "par": _parameters(program.par),
        },
        settable=PROGRAM_SETTABLE,
        env=("par", "host"),
        sides=(),
        gives={"task_at": "task"},
        state="HOST_STATE and TASK_STATE",
        log=program.log,
    )


def _parameters(dtype: np.dtype) -> Kind:
    return Kind(dtype, tuple(dtype.names or ()), "PARAMS", "env.par")
