"""Link-level retry (`LINK_RETRY`): a port keeps its packets until they are acknowledged, and
resends packets that its link lost.

When a packet is sent, its fate and the time of the answer are already known. So the sending port
also decides which packets the other end accepts, and no acknowledgments cross the link. Its replay
buffer is a ring of packets, with these positions in ascending order:

- ``head``: the oldest packet whose ACK has not arrived. Up to ``expected``, the ``time`` of a kept
  packet is when its ACK arrives;
- ``expected``: the packet that the other end accepts next;
- ``cursor``: the packet to be sent next. It is beyond ``expected`` from a loss until a replay
  begins, and before the end while packets are to be sent again;
- ``tail``: the end.
"""

from __future__ import annotations

from netsim.engine.kernels.fields import (
    Bytes,
    GlobalPort,
    PacketRecord,
    PortRecord,
    Ps,
    RetryRecord,
)
from netsim.engine.kernels.handlers import return_credit
from netsim.engine.kernels.layout import (
    INF,
    WAITS,
    LinkState,
    queue_of,
    ring_slot,
)
from netsim.engine.kernels.specialization_constants import HAS_CREDIT, LINK_RETRY, TRACE
from netsim.engine.kernels.trace import LOST, trace_packet

WHOLE, DAMAGED, NOTHING = range(3)  # how a packet reaches the end of a link


def kept_packet(links: LinkState, retry: RetryRecord, position: int) -> PacketRecord:
    """Return the packet at a position of a port's replay buffer."""
    return links.kept[ring_slot(retry.off, retry.mask, position)]


def accepts(
    links: LinkState, port: PortRecord, pkt: PacketRecord, brings: int, end: Ps, arrival: Ps
) -> bool:
    """Return whether the other end accepts the packet at the cursor, which is sent by ``end``.

    ``brings`` says how it arrives at ``arrival``. A new packet goes into the replay buffer."""
    retry = links.retries[port.number]
    if retry.cursor == retry.tail:
        links.kept[ring_slot(retry.off, retry.mask, retry.tail)] = pkt
        retry.tail += 1
        retry.bytes += int(pkt.size_bytes)
    is_expected = retry.cursor == retry.expected
    retry.cursor += 1
    if is_expected and brings == WHOLE:
        kept_packet(links, retry, retry.expected).time = arrival + retry.answer_ps
        retry.expected += 1
        retry.refused = retry.replays = 0
    else:
        if is_expected:
            retry.due_ps = end + retry.timeout_ps
        if brings != NOTHING and retry.refused == 0:
            retry.refused = 1
            retry.due_ps = min(retry.due_ps, arrival + retry.answer_ps)
    return is_expected and brings == WHOLE


def is_incomplete(links: LinkState, p: GlobalPort) -> bool:
    """Return whether the other end has not accepted all packets of port ``p``."""
    return links.retries[p].expected < links.retries[p].tail


def has_work(links: LinkState, port: PortRecord) -> bool:
    """Return whether packets wait at a port or, with LLR, may be sent again."""
    if LINK_RETRY and is_incomplete(links, port.number):
        return True
    return port.backlog != 0


def has_replay(links: LinkState, port: PortRecord, now: Ps) -> bool:
    """Return whether a packet is to be sent again; begin a replay that is due, or give up."""
    retry = links.retries[port.number]
    if retry.expected < retry.cursor and retry.due_ps <= now:
        if retry.replays >= retry.max_replays:
            give_up(links, port, retry, now)
        else:
            retry.replays += 1
            retry.cursor = retry.expected
    return retry.cursor < retry.tail


def give_up(links: LinkState, port: PortRecord, retry: RetryRecord, now: Ps) -> None:
    """Lose all packets that the other end has not accepted."""
    for position in range(retry.expected, retry.tail):
        pkt = kept_packet(links, retry, position)
        size = Bytes(pkt.size_bytes)
        queue = queue_of(port.number, int(pkt.prio))
        links.losses[queue].packets += 1
        links.losses[queue].bytes += size
        retry.bytes -= size
        if HAS_CREDIT:
            if links.readers[port.number].from_host == 0:
                return_credit(links.discipline[0], links.queues[queue], size)
        if TRACE:
            trace_packet(links, LOST, port.number, pkt, now, links.queues[queue].bytes)
    retry.tail = retry.cursor = retry.expected
    retry.refused = retry.replays = 0


def has_room(links: LinkState, p: GlobalPort, now: Ps) -> bool:
    """Drop packets whose ACK has arrived; return whether port ``p`` may send a new packet."""
    retry = links.retries[p]
    while retry.head < retry.expected:
        pkt = kept_packet(links, retry, retry.head)
        if pkt.time > now:
            break
        retry.bytes -= int(pkt.size_bytes)
        retry.head += 1
    if retry.head == retry.tail:  # its first packets are in the cache
        retry.head = retry.expected = retry.cursor = retry.tail = 0
    return not is_full(retry)


def is_full(retry: RetryRecord) -> bool:
    """Return whether the replay buffer was full when last looked at."""
    return retry.tail - retry.head >= retry.max_frames or retry.bytes >= retry.max_bytes


def next_ack(links: LinkState, retry: RetryRecord) -> Ps:
    """Return when the ACK of the oldest packet arrives, or INF if it has not been accepted."""
    if retry.head == retry.expected:
        return INF
    return kept_packet(links, retry, retry.head).time


def may_start_at(links: LinkState, p: GlobalPort, waiting: bool) -> Ps:
    """Return the time from which port ``p`` may start a transmission, 0 for at once. ``waiting``:
    it has a new packet."""
    retry = links.retries[p]
    at = INF
    if retry.cursor < retry.tail:
        return Ps(0)
    if waiting:
        at = next_ack(links, retry) if is_full(retry) else Ps(0)
    if retry.expected < retry.cursor:
        at = min(at, retry.due_ps)
    return at


def wait_for_answer(links: LinkState, port: PortRecord, waiting: bool) -> None:
    """Set the wakeup of an idle switch port to when it may start, unless it wakes up before."""
    at = may_start_at(links, port.number, waiting)
    if at < INF and (port.tx_class != WAITS or at < port.free_at):
        port.free_at = at
        port.tx_class = WAITS
