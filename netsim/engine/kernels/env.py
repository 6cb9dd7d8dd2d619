"""``env``: what a handler may reach besides the records that it is given."""

from __future__ import annotations

from typing import Any, NamedTuple

from netsim.engine.kernels.fields import (
    CommonParameters,
    HostRecord,
    OutletRecord,
    PacketRecord,
    ParameterRecord,
    PortRecord,
    RxRecord,
    SpreadRecord,
    SwitchRecord,
    TxRecord,
)
from netsim.engine.kernels.ids import FlowId, GlobalPort, HostId, Numbers, Records, Slot, TaskId
from netsim.engine.kernels.layout import Ends, Heap, Timers, Wires
from netsim.engine.kernels.task_fields import ProgramHostRecord, TaskRecord


class Env(NamedTuple):
    """A host's NIC and what is on it, for the handlers of one transport."""

    host: HostRecord
    par: ParameterRecord  # parameters of the transport ...
    pars: Records[int, Any]  # ... and of all of the run
    pool: Records[Slot, PacketRecord]
    blank: Records[int, PacketRecord]
    timers: Timers
    heap: Heap
    bits: Numbers[int, int]
    tx: Records[FlowId, TxRecord]  # all flows; those of other hosts are not to be touched
    rx: Records[FlowId, RxRecord]
    tasks: Records[TaskId, TaskRecord]
    next_task: Numbers[TaskId, int]
    next_tasks: Numbers[int, TaskId]
    send_task: Numbers[FlowId, TaskId]
    receive_task: Numbers[FlowId, TaskId]
    program: Records[int, Any]
    program_hosts: Records[HostId, ProgramHostRecord]
    ports: Records[GlobalPort, PortRecord]
    outlets: Records[GlobalPort, OutletRecord]
    spreads: Records[int, SpreadRecord]
    lanes: Numbers[tuple[int, int], GlobalPort]


def env_of(host: HostRecord, par: ParameterRecord, ends: Ends | Env, wires: Wires | Env) -> Env:
    """The `Env` of a host, for the transport whose parameters are ``par``.

    Another `Env` may stand for ``ends`` and ``wires``: it has what is asked of them.
    Compiled code cannot return a tuple of records, so this is copied to where it is called
    (``IN_PLACE`` of bindings.py).
    """
    return Env(
        host=host,
        par=par,
        pars=ends.pars,
        pool=wires.pool,
        blank=wires.blank,
        timers=ends.timers,
        heap=ends.heap,
        bits=ends.bits,
        tx=ends.tx,
        rx=ends.rx,
        tasks=ends.tasks,
        next_task=ends.next_task,
        next_tasks=ends.next_tasks,
        send_task=ends.send_task,
        receive_task=ends.receive_task,
        program=ends.program,
        program_hosts=ends.program_hosts,
        ports=wires.ports,
        outlets=ends.outlets,
        spreads=ends.spreads,
        lanes=ends.lanes,
    )


class ProgramEnv(NamedTuple):
    """A host, for the handlers of a program."""

    par: CommonParameters  # and the program's own
    host: ProgramHostRecord
    engine: Env


def program_env_of(env: Env) -> ProgramEnv:
    """The `ProgramEnv` of a host; copied to where it is called, as `env_of` is."""
    return ProgramEnv(par=env.program[0], host=env.program_hosts[env.host.host], engine=env)


class QueueEnv(NamedTuple):
    """A switch, for the handlers of its queue discipline."""

    par: CommonParameters  # and the discipline's own
    switch: SwitchRecord
    wires: Wires  # all ports and queues; those of other switches are not to be touched


def queue_env_of(switch: SwitchRecord, wires: Wires) -> QueueEnv:
    """The `QueueEnv` of a switch; copied to where it is called, as `env_of` is."""
    return QueueEnv(par=wires.discipline[0], switch=switch, wires=wires)
