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
from netsim.engine.kernels.layout import HostState, LinkState
from netsim.engine.kernels.task_fields import ProgramHostRecord


class Env(NamedTuple):
    """A host's NIC and what is on it, for the handlers of one transport."""

    host: HostRecord
    par: ParameterRecord  # the transport's parameters
    tx: Records[FlowId, TxRecord]  # all flows; those of other hosts are not to be touched
    rx: Records[FlowId, RxRecord]
    bits: Numbers[int, int]  # their bitmaps
    hosts: HostState  # these two are the engine's own
    links: LinkState


def env_of(host: HostRecord, par: ParameterRecord, hosts: HostState, links: LinkState) -> Env:
    """The `Env` of a host, for the transport whose parameters are ``par``.

    Compiled code cannot return a tuple of records, so this is copied to where it is called
    (``IN_PLACE`` of bindings.py).
    """
    return Env(
        host=host, par=par, tx=hosts.tx, rx=hosts.rx, bits=hosts.bits, hosts=hosts, links=links
    )


class ProgramEnv(NamedTuple):
    """A host, for the handlers of a program."""

    par: CommonParameters  # and the program's own
    host: ProgramHostRecord
    engine: Env


def program_env_of(env: Env) -> ProgramEnv:
    """The `ProgramEnv` of a host; copied to where it is called, as `env_of` is."""
    hosts = env.hosts
    return ProgramEnv(par=hosts.program[0], host=hosts.program_hosts[env.host.host], engine=env)


class QueueEnv(NamedTuple):
    """A switch, for the handlers of its queue discipline."""

    par: CommonParameters  # and the discipline's own
    switch: SwitchRecord
    links: LinkState  # all ports and queues; those of other switches are not to be touched


def queue_env_of(switch: SwitchRecord, links: LinkState) -> QueueEnv:
    """The `QueueEnv` of a switch; copied to where it is called, as `env_of` is."""
    return QueueEnv(par=links.discipline[0], switch=switch, links=links)


def queue_env_at(env: QueueEnv, port: PortRecord) -> QueueEnv:
    """That of a switch with the sizes of one of its ports; copied likewise."""
    par = env.links.discipline[env.links.size_kind[port.number]]
    return QueueEnv(par=par, switch=env.switch, links=env.links)
