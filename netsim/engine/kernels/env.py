"""``env``: what a handler may reach besides the records that it is given."""

from __future__ import annotations

from typing import NamedTuple

from netsim.engine.kernels.fields import (
    CommonParameters,
    HostRecord,
    ParameterRecord,
    PortRecord,
    RxRecord,
    SwitchRecord,
    TxRecord,
)
from netsim.engine.kernels.ids import FlowId, Numbers, Records
from netsim.engine.kernels.layout import Ends, Wires
from netsim.engine.kernels.task_fields import ProgramHostRecord


class Env(NamedTuple):
    """A host's NIC and what is on it, for the handlers of one transport."""

    host: HostRecord
    par: ParameterRecord  # the transport's parameters
    tx: Records[FlowId, TxRecord]  # all flows; those of other hosts are not to be touched
    rx: Records[FlowId, RxRecord]
    bits: Numbers[int, int]  # their bitmaps
    ends: Ends  # these two are the engine's own
    wires: Wires


def env_of(host: HostRecord, par: ParameterRecord, ends: Ends, wires: Wires) -> Env:
    """The `Env` of a host, for the transport whose parameters are ``par``.

    Compiled code cannot return a tuple of records, so this is copied to where it is called
    (``IN_PLACE`` of bindings.py).
    """
    return Env(host=host, par=par, tx=ends.tx, rx=ends.rx, bits=ends.bits, ends=ends, wires=wires)


class ProgramEnv(NamedTuple):
    """A host, for the handlers of a program."""

    par: CommonParameters  # and the program's own
    host: ProgramHostRecord
    engine: Env


def program_env_of(env: Env) -> ProgramEnv:
    """The `ProgramEnv` of a host; copied to where it is called, as `env_of` is."""
    ends = env.ends
    return ProgramEnv(par=ends.program[0], host=ends.program_hosts[env.host.host], engine=env)


class QueueEnv(NamedTuple):
    """A switch, for the handlers of its queue discipline."""

    par: CommonParameters  # and the discipline's own
    switch: SwitchRecord
    wires: Wires  # all ports and queues; those of other switches are not to be touched


def queue_env_of(switch: SwitchRecord, wires: Wires) -> QueueEnv:
    """The `QueueEnv` of a switch; copied to where it is called, as `env_of` is."""
    return QueueEnv(par=wires.discipline[0], switch=switch, wires=wires)


def queue_env_at(env: QueueEnv, port: PortRecord) -> QueueEnv:
    """That of a switch with the sizes of one of its ports; copied likewise."""
    par = env.wires.discipline[env.wires.size_kind[port.number]]
    return QueueEnv(par=par, switch=env.switch, wires=env.wires)
