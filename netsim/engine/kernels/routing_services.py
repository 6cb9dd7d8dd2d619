"""Functions that a routing algorithm's handlers call, imported from `netsim.routing`.

Ports are local numbers of the switch, groups numbers in its network. An invalid argument breaks a
rule (rules.py); the function returns something harmless.
"""

from __future__ import annotations

from typing import Any

from netsim.engine.kernels.env import PlaneEnv, RoutingEnv
from netsim.engine.kernels.fields import PacketRecord, PortChoiceRecord
from netsim.engine.kernels.ids import Address, Bytes, GlobalPort, LocalPort, NodeId, Ps
from netsim.engine.kernels.indexing import queue_of
from netsim.engine.kernels.packets import FIRST_CONTROL
from netsim.engine.kernels.port_pairs import pair_of, pairs_in_use
from netsim.engine.kernels.routing import row_of
from netsim.engine.kernels.routing_fields import RoutingPortRecord
from netsim.engine.kernels.rules import (
    NO_CANDIDATE,
    NO_GROUP,
    NO_KEY,
    NO_LEVEL,
    NO_LOCAL_PORT,
    broken,
)
from netsim.engine.kernels.specialization_constants import (
    FAULTS,
    FLOW_ROWS,
    N_CLASSES,
    N_LEVELS,
    N_PUBLISHED,
    ONE_FLOW_TABLE,
)
from netsim.model.arithmetic import below, mix
from netsim.model.routing import NO_ROUTE


def _port(env: RoutingEnv, p: int) -> GlobalPort:
    """Return local port ``p`` as a global one; port 0, and a broken rule, if it does not exist."""
    if p < 0 or p >= env.switch.n_ports:
        broken(env.home, NO_LOCAL_PORT, p)
        p = 0
    return env.switch.first_port + LocalPort(p)


KEPT = 4
"""Values kept of each that is published: the last one of each of so many periods. Readers take one
of two periods ago or before. A window spans at most two periods, so none that may be read in it is
overwritten in it."""


def _key(env: RoutingEnv, switch: int, key: int) -> int:
    """Return the row of what a switch publishes; that of key 0, and a broken rule, if there is no
    such key."""
    if key < 0 or key >= N_PUBLISHED:
        broken(env.home, NO_KEY, key)
        key = 0
    return switch * N_PUBLISHED + key


def _group(env: RoutingEnv, group: int) -> int:
    """Return a group; group 0, and a broken rule, if it does not exist."""
    if 0 <= group < env.switch.n_groups:
        return group
    broken(env.home, NO_GROUP, group)
    return 0


def candidates(env: RoutingEnv, now: Ps, group: int) -> tuple[int, int]:
    """Return ``first`` and the number of candidates for the edge switch of ``group``; none if that
    is this switch or has no route."""
    return _listed(env, now, env.switch.node, group)


def candidates_at(env: RoutingEnv, now: Ps, at: int, group: int) -> tuple[int, int]:
    """Return the same for the edge switch of group ``at``, whose local ports they are."""
    return _listed(env, now, env.links.routers[_switch(env, at)].node, group)


def _listed(env: RoutingEnv, now: Ps, node: NodeId, group: int) -> tuple[int, int]:
    """Return ``first`` and the number of a switch's candidates for a group."""
    entry = env.net.route[row_of(env.net, node, now) + _group(env, group)]
    if entry == NO_ROUTE:
        return 0, 0
    return entry >> 16, entry & 0xFFFF


def _switch(env: RoutingEnv, group: int) -> int:
    """Return the edge switch of a group."""
    return env.net.group_switch[env.switch.first_group + _group(env, group)]


def candidate(env: RoutingEnv, first: int, k: int) -> LocalPort:
    """Return the local port of candidate ``k`` of those from ``first`` on."""
    at = first + k
    if at < 0 or at >= env.net.route_ports.shape[0]:
        broken(env.home, NO_CANDIDATE, k)
        at = 0
    return LocalPort(env.net.route_ports[at])


def group_of(env: RoutingEnv, pkt: PacketRecord) -> int:
    """Return the group of a packet's destination."""
    group = int(env.net.host_group[Address(pkt.dst)])
    if group >= env.switch.n_groups:  # by another routing table than the first
        group %= env.switch.n_groups
    return group


def n_groups(env: RoutingEnv) -> int:
    """Return the number of groups of the switch's network."""
    return env.switch.n_groups


def set_via(env: RoutingEnv, pkt: Any, group: int) -> None:
    """Send a packet via a group's edge switch; -1: straight to its destination. Requires VIA."""
    if group != -1:
        group = _group(env, group)
    pkt.via = group + 1


def via_of(pkt: Any) -> int:
    """Return the group that a packet goes via, or -1. Requires VIA."""
    return int(pkt.via) - 1


def level_of(env: RoutingEnv, pkt: PacketRecord) -> int:  # noqa: ARG001 # like set_level
    """Return a packet's level, from 0 on; 0 without PFC."""
    if N_LEVELS == 1:
        return 0
    return N_LEVELS - 1 - int(pkt.prio) % N_LEVELS


def set_level(env: RoutingEnv, pkt: PacketRecord, level: int) -> None:
    """Change a packet's level for the links to come; nothing without PFC. Requires LEVELS."""
    if N_LEVELS > 1:
        if level < 0 or level >= N_LEVELS:
            broken(env.home, NO_LEVEL, level)
        else:
            pkt.prio = int(pkt.prio) // N_LEVELS * N_LEVELS + N_LEVELS - 1 - level


def held(env: RoutingEnv, p: int) -> Bytes:
    """Return the bytes held at local port ``p``, of all classes, with the packet that it sends.
    Requires COUPLED."""
    port = _port(env, p)
    n_bytes = Bytes(0)
    for cls in range(N_CLASSES):
        n_bytes += env.links.queues[queue_of(port, cls)].bytes
    return n_bytes


def is_up(env: RoutingEnv, now: Ps, p: int) -> bool:
    """Return whether the link that leaves by local port ``p`` has no outage now."""
    port = _port(env, p)
    if FAULTS:
        outages = env.links.outages
        fault = env.links.faults[port]
        k = fault.outage  # none before it ends after now
        while k < fault.last_outage and outages[k, 0] <= now:
            if now < outages[k, 1]:
                return False
            k += 1
    return True


def hops_to(env: RoutingEnv, group: int) -> int:
    """Return the links from this switch to a group's edge switch, by routes without failures; 255
    if there is none."""
    return int(env.net.hops[env.home.number, _group(env, group)])


def dimension_of(env: RoutingEnv, p: int) -> int:
    """Return the dimension that the topology has given to the cable at local port ``p``, or 0."""
    return env.net.port_dimension[_port(env, p)]


def far_group(env: RoutingEnv, p: int) -> int:
    """Return the group at the other end of the cable at local port ``p``; -1 if that is a host or a
    switch without hosts."""
    return _far_group(env, _port(env, p))


def far_group_at(env: RoutingEnv, at: int, p: int) -> int:
    """Return the same for a local port of the edge switch of group ``at``."""
    router = env.links.routers[_switch(env, at)]
    if p < 0 or p >= router.n_ports:
        broken(env.home, NO_LOCAL_PORT, p)
        p = 0
    return _far_group(env, router.first_port + LocalPort(p))


def _far_group(env: RoutingEnv, port: GlobalPort) -> int:
    """Return the group at the other end of a port's cable, or -1."""
    node = env.net.port_node[env.net.port_peer[port]]
    if node < env.net.n_hosts:
        return -1
    return int(env.links.routers[node - env.net.n_hosts].group)


def publish(env: RoutingEnv, now: Ps, key: int, value: int) -> None:
    """Publish a value of this switch. Requires COUPLED, PUBLISHED and a parameter publish_delay."""
    kept = env.links.published
    row = _key(env, env.home.number, key)
    period = now // env.links.routing[0].publish_delay + 1
    at = 0
    for k in range(KEPT):
        if kept[row, 0, k] == period:
            at = k
            break
        if kept[row, 0, k] < kept[row, 0, at]:
            at = k
    kept[row, 0, at] = period
    kept[row, 1, at] = value


def published(env: RoutingEnv, now: Ps, group: int, key: int) -> int:
    """Return what the edge switch of a group published last before the period of ``publish_delay``
    that precedes this one; 0 if it had published nothing."""
    kept = env.links.published
    row = _key(env, _switch(env, group), key)
    latest = 0
    value = 0
    for k in range(KEPT):
        period = kept[row, 0, k]
        if latest < period < now // env.links.routing[0].publish_delay:
            latest = period
            value = kept[row, 1, k]
    return value


def ps_per_byte_q20(env: RoutingEnv, p: int) -> int:
    """Return the ps that a byte takes at local port ``p``, in units of 2**-20, without faults."""
    return env.net.port_q20[_port(env, p)]


def egress(env: RoutingEnv, p: int) -> Any:
    """Return the record of local port ``p``. Its state requires COUPLED."""
    return env.links.routing_ports[_port(env, p)]


def flow_row(env: RoutingEnv, port: RoutingPortRecord, pkt: PacketRecord) -> Any:
    """Return the row of the flow table for a packet that came in by ``port``."""
    direction = 0
    if int(pkt.kind) >= FIRST_CONTROL:
        direction = 1
    key = mix(mix(int(pkt.flow) * 2 + direction) ^ int(pkt.entropy))
    table = int(port.number) - int(env.net.first_port[NodeId(env.net.n_hosts)])
    if ONE_FLOW_TABLE:
        table = env.home.number
    return env.links.flow_rows[table * FLOW_ROWS + below(key, FLOW_ROWS)]


def _port_of_pair(env: PlaneEnv, side: PortChoiceRecord, k: int) -> GlobalPort:
    """Return this host's port of port pair ``k`` of those in use."""
    n = pairs_in_use(env.engine, side)
    if k < 0 or k >= n:
        broken(env.engine.host, NO_CANDIDATE, k)
        k = 0
    pair = side.first_pair + pair_of(env.engine, side, k, n)
    return GlobalPort(env.engine.hosts.port_pairs[pair, 0])


def waiting(env: PlaneEnv, side: PortChoiceRecord, k: int) -> int:
    """Return how many flows wait for the port of port pair ``k``; for a control packet, how many
    control packets do."""
    port = env.engine.hosts.host_ports[_port_of_pair(env, side, k)]
    if env.is_data == 1:
        return port.n_ready
    return port.ctrl_tail - port.ctrl_head


def free_at(env: PlaneEnv, side: PortChoiceRecord, k: int) -> Ps:
    """Return when the last transmission at the port of port pair ``k`` ended, or ends."""
    return env.engine.links.ports[_port_of_pair(env, side, k)].free_at
