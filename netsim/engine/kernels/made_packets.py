"""Packets that switches make or return: services for handlers of queue disciplines.

They stay in one of the worker's blocks until the event is over; then they arrive at their port
(`coupled_switch.take_made`). `netsim.queue` exports the services.
"""

from __future__ import annotations

from typing import Any

from netsim.engine.kernels.fields import (
    Block,
    Bytes,
    FlowId,
    GlobalPort,
    NodeId,
    PacketRecord,
    PortRecord,
    Ps,
    Slot,
)
from netsim.engine.kernels.handlers import (
    IN_ADMIT,
    MADE_TOO_MANY,
    NO_PAYLOAD,
    NOT_MADE,
    ONLY_IN_ADMIT,
    QueueEnv,
    broken,
)
from netsim.engine.kernels.links import MADE, NO_BLOCK, slot_in, take_block
from netsim.engine.kernels.packets import FIRST_CONTROL, NACK, PFC, RETURNED, TRIMMED
from netsim.engine.kernels.ports import known_class, tell_drop, trim
from netsim.engine.kernels.specialization_constants import HAS_ON_DROP, VIA

MOST_MADE = 64  # packets that a switch may make in one event: a block


def _new_packet(env: QueueEnv) -> Slot:
    """Return the slot of a packet that the switch makes."""
    switch = env.switch
    own = env.links.free_blocks
    if own[switch.worker, MADE] == NO_BLOCK:
        own[switch.worker, MADE] = take_block(env.links, switch.worker)
    if switch.n_made == MOST_MADE:
        broken(switch, MADE_TOO_MANY, MOST_MADE)
        switch.n_made -= 1
    slot = slot_in(Block(own[switch.worker, MADE]), switch.n_made)
    switch.n_made += 1
    return slot


def _rows_of(env: QueueEnv, pkt: PacketRecord) -> tuple[int, int]:
    """Return the rows of ``sources`` of a packet's flow: the first, and its port pair's."""
    links = env.links
    first = links.first_source[FlowId(pkt.flow)]
    last = links.first_source[FlowId(int(pkt.flow) + 1)] - 1
    to = int(pkt.dst) % _n_host_ports(env)
    row = first
    while row < last and links.sources[row, 0] != to:
        row += 1
    return first, row


def _n_host_ports(env: QueueEnv) -> int:
    return int(env.net.first_port[NodeId(env.net.n_hosts)])


def source_of(env: QueueEnv, pkt: PacketRecord) -> int:
    """Return the host that sent a packet."""
    first, row = _rows_of(env, pkt)
    if int(pkt.kind) < FIRST_CONTROL:
        port = env.links.sources[row, 1] % _n_host_ports(env)
    else:
        port = env.links.sources[first, 0]
    return int(env.net.port_node[GlobalPort(port)])


def bounce(env: QueueEnv, now: Ps, port: PortRecord, pkt: PacketRecord) -> None:
    """Trim the removed packet, or else the arriving one, and return it to its sender; only in
    `admit`, which must return DROP if it was the arriving one. It comes in by `port` again.
    Requires COUPLED."""
    switch = env.switch
    if switch.handler != IN_ADMIT:
        broken(switch, ONLY_IN_ADMIT, 0)
        return
    if int(pkt.kind) >= FIRST_CONTROL:
        broken(switch, NO_PAYLOAD, int(pkt.kind))
        return
    if int(pkt.kind) != TRIMMED:
        trim(env, now, port, pkt)
    slot = _new_packet(env)
    env.links.pool[slot] = pkt
    made: Any = env.links.pool[slot]
    made.time = port.number - switch.first_port
    made.dst = env.links.sources[_rows_of(env, pkt)[1], 1]
    made.kind = NACK
    made.ecn = int(pkt.ecn) | RETURNED
    if VIA:
        made.via = 0
    if switch.holds_packet == 0:
        switch.returned = 1
        return
    switch.holds_packet = 0
    if HAS_ON_DROP:
        tell_drop(env, switch.held_packet_origin, Bytes(pkt.size_bytes), now)


def emit(env: QueueEnv, port: PortRecord, pkt: PacketRecord, kind: int, aux: int, cls: int) -> None:
    """Make a control packet of a kind and class, such as a CNP, for the sender of a packet's flow.
    It comes in by `port`. Requires COUPLED."""
    switch = env.switch
    if kind < FIRST_CONTROL or kind >= PFC:
        broken(switch, NOT_MADE, kind)
        return
    slot = _new_packet(env)
    links = env.links
    links.pool[slot] = links.zero_packet[0]
    made = links.pool[slot]
    made.time = Ps(port.number - switch.first_port)
    made.flow = int(pkt.flow)
    made.seq = int(pkt.seq)
    made.dst = int(pkt.dst)
    if int(pkt.kind) < FIRST_CONTROL:
        made.dst = links.sources[_rows_of(env, pkt)[1], 1]
    made.aux = aux
    made.size_bytes = env.par.control_bytes
    made.entropy = int(pkt.entropy)
    made.kind = kind
    made.prio = known_class(env, cls)
    switch.made_packets += 1
    switch.made_bytes += env.par.control_bytes
