"""The ``env`` argument of handlers."""

from __future__ import annotations

from typing import NamedTuple

from netsim.engine.kernels.fields import (
    CommonParameters,
    FlowId,
    HostRecord,
    Numbers,
    ParameterRecord,
    PortRecord,
    ProgramHostRecord,
    Records,
    RouterRecord,
    RxRecord,
    SwitchRecord,
    TxRecord,
)
from netsim.engine.kernels.layout import HostState, LinkState, Net


class Env(NamedTuple):
    """A host's NIC, for the handlers of one transport."""

    host: HostRecord
    par: ParameterRecord  # parameters of the transport
    tx: Records[FlowId, TxRecord]  # all flows; those of other hosts are off limits
    rx: Records[FlowId, RxRecord]
    bits: Numbers[int, int]  # bitmaps of the flows
    hosts: HostState  # the engine's own, with links
    links: LinkState


def env_of(host: HostRecord, par: ParameterRecord, hosts: HostState, links: LinkState) -> Env:
    """Return a host's `Env` for the transport with parameters ``par``. Compiled code cannot return
    a tuple of records, so this is inlined as source (``IN_PLACE`` in bindings.py)."""
    return Env(
        host=host, par=par, tx=hosts.tx, rx=hosts.rx, bits=hosts.bits, hosts=hosts, links=links
    )


class ProgramEnv(NamedTuple):
    """A host, for the handlers of a program."""

    par: CommonParameters  # with the program's own
    host: ProgramHostRecord
    engine: Env


def program_env_of(env: Env) -> ProgramEnv:
    """Return a host's `ProgramEnv`; inlined like `env_of`."""
    hosts = env.hosts
    return ProgramEnv(par=hosts.program[0], host=hosts.program_hosts[env.host.host], engine=env)


class QueueEnv(NamedTuple):
    """A switch, for the handlers of its queue discipline."""

    par: CommonParameters  # with the discipline's own
    switch: SwitchRecord
    links: LinkState  # all ports and queues; those of other switches are off limits
    net: Net


def queue_env_of(switch: SwitchRecord, links: LinkState, net: Net) -> QueueEnv:
    """Return a switch's `QueueEnv`; inlined like `env_of`."""
    return QueueEnv(par=links.discipline[0], switch=switch, links=links, net=net)


def queue_env_at(env: QueueEnv, port: PortRecord) -> QueueEnv:
    """Return a switch's `QueueEnv` with the sizes of one port; inlined like `env_of`."""
    par = env.links.discipline[env.links.size_kind[port.number]]
    return QueueEnv(par=par, switch=env.switch, links=env.links, net=env.net)


class PlaneEnv(NamedTuple):
    """A host, for the routing algorithm's choice of a port."""

    par: CommonParameters  # with the algorithm's own
    is_data: int  # 1 for a data packet, 0 for a control packet
    engine: Env


def plane_env_of(env: Env, is_data: int) -> PlaneEnv:
    """Return a host's `PlaneEnv`; inlined like `env_of`."""
    return PlaneEnv(par=env.links.routing[0], is_data=is_data, engine=env)


class RoutingEnv(NamedTuple):
    """A switch, for the handlers of the routing algorithm."""

    par: CommonParameters  # with the algorithm's own
    switch: RouterRecord
    home: SwitchRecord  # the engine's own, like what follows
    links: LinkState
    net: Net


def routing_env_of(env: QueueEnv) -> RoutingEnv:
    """Return a switch's `RoutingEnv`; inlined like `env_of`."""
    return RoutingEnv(
        par=env.links.routing[0],
        switch=env.links.routers[env.switch.number],
        home=env.switch,
        links=env.links,
        net=env.net,
    )
