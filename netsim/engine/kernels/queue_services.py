"""Functions that a queue discipline's handlers call, imported from `netsim.queue`.

An invalid argument breaks a rule (handlers.py); the function returns something harmless.
"""

from __future__ import annotations

from typing import Any

from netsim.engine.kernels.fields import Bytes, Origin, PacketRecord, PortRecord, Ps, QueueRecord
from netsim.engine.kernels.handlers import (
    ENQUEUED_TWICE,
    IN_ADMIT,
    IN_CHOOSE_CLASS,
    IN_HAND,
    LOST_TRACK,
    NO_PAYLOAD,
    NO_SUCH_INDEX,
    NOT_LATER,
    ONLY_IN_ADMIT,
    ONLY_IN_CHOOSE_CLASS,
    UNKNOWN_CLASS,
    QueueEnv,
    broken,
)
from netsim.engine.kernels.layout import PFC_FRAME_PENDING, WAITS, queue_of, ring_slot
from netsim.engine.kernels.packets import FIRST_CONTROL, TRIMMED, TRIMMED_AT_LAST_HOP
from netsim.engine.kernels.ports import (
    close_gap,
    count_drop,
    enqueue_packet,
    mark_packet,
    note_empty_queues,
)
from netsim.engine.kernels.series import look_at_port
from netsim.engine.kernels.specialization_constants import (
    HAS_ON_DEPARTURE,
    HAS_SERIES,
    N_CLASSES,
    TRACE,
)
from netsim.engine.kernels.trace import TRIMMED as TRIMS
from netsim.engine.kernels.trace import trace_record


def _known_class(env: QueueEnv, cls: int) -> int:
    """Return ``cls`` if it exists; otherwise break a rule and return 0."""
    if 0 <= cls < N_CLASSES:
        return cls
    broken(env.switch, UNKNOWN_CLASS, cls)
    return 0


def class_of(env: QueueEnv, port: PortRecord, cls: int) -> Any:
    """Return class ``cls`` of a port: ``bytes`` held and the discipline's CLASS_STATE."""
    return env.links.queues[queue_of(port.number, _known_class(env, cls))]


def queue_length(queue: QueueRecord) -> int:
    """Return the number of waiting packets of a class, without the one in transmission."""
    return queue.tail - queue.head


def _is_valid_index(env: QueueEnv, queue: QueueRecord, index: int) -> bool:
    """Return whether a packet waits at an index; otherwise break a rule."""
    if 0 <= index < queue.tail - queue.head:
        return True
    broken(env.switch, NO_SUCH_INDEX, index)
    return False


def peek(env: QueueEnv, queue: QueueRecord, index: int) -> Any:
    """Return the waiting packet at ``index`` of a class; 0 is the head."""
    if not _is_valid_index(env, queue, index):
        index = 0
    return env.links.pool[ring_slot(queue.off, queue.mask, queue.head + index)]


def remove(env: QueueEnv, now: Ps, port: PortRecord, queue: QueueRecord, index: int) -> None:
    """Drop the waiting packet at ``index`` of a class; those behind it close up."""
    if not _is_valid_index(env, queue, index):
        return
    pkt = env.links.pool[ring_slot(queue.off, queue.mask, queue.head + index)]
    size = Bytes(pkt.size_bytes)
    if HAS_SERIES:
        look_at_port(env.links, port.number, now)
    count_drop(env.links, port, queue, pkt, now)
    queue.bytes -= size
    close_gap(env.links, queue, index)
    if queue.head == queue.tail:
        note_empty_queues(env.links, port)


def drop_head(env: QueueEnv, now: Ps, port: PortRecord, queue: QueueRecord) -> None:
    """Drop the head of a class."""
    remove(env, now, port, queue, 0)


def pop_tail(env: QueueEnv, port: PortRecord, queue: QueueRecord) -> Any:
    """Remove the last waiting packet of a class, in `admit`; one at a time. It must then be
    enqueued or dropped."""
    switch = env.switch
    slot = ring_slot(queue.off, queue.mask, queue.tail - 1)
    if switch.handler != IN_ADMIT:
        broken(switch, ONLY_IN_ADMIT, 0)
    elif switch.holds_packet == 1:
        broken(switch, IN_HAND, 0)
    elif _is_valid_index(env, queue, queue.tail - queue.head - 1):
        switch.holds_packet = 1
        if HAS_ON_DEPARTURE:
            switch.held_packet_origin = Origin(env.links.origins[slot])
        queue.tail -= 1
        queue.bytes -= int(env.links.pool[slot].size_bytes)
        if queue.head == queue.tail:
            note_empty_queues(env.links, port)
    return env.links.pool[slot]


def enqueue(env: QueueEnv, now: Ps, port: PortRecord, cls: int, pkt: PacketRecord) -> None:
    """Append the removed packet to class ``cls``. At most one packet per class, and none to the
    class that `admit` returns."""
    switch = env.switch
    if switch.holds_packet == 0:
        broken(switch, LOST_TRACK, 0)
        return
    cls = _known_class(env, cls)
    if (switch.enqueued_classes >> cls) & 1 == 1:
        broken(switch, ENQUEUED_TWICE, cls)
        return
    switch.holds_packet = 0
    switch.enqueued_classes |= 1 << cls
    enqueue_packet(env, port, cls, pkt, switch.held_packet_origin, now)


def drop(env: QueueEnv, now: Ps, port: PortRecord, pkt: PacketRecord) -> None:
    """Drop the removed packet; its class (``prio``) counts it."""
    if env.switch.holds_packet == 0:
        broken(env.switch, LOST_TRACK, 0)
        return
    env.switch.holds_packet = 0
    count_drop(env.links, port, class_of(env, port, int(pkt.prio)), pkt, now)


def trim(env: QueueEnv, now: Ps, port: PortRecord, pkt: PacketRecord) -> None:
    """Trim an arriving or removed packet to its header; its class counts it."""
    if int(pkt.kind) >= FIRST_CONTROL:
        broken(env.switch, NO_PAYLOAD, int(pkt.kind))
        return
    queue = class_of(env, port, int(pkt.prio))
    header = env.par.control_bytes
    queue.trims += 1
    queue.trim_bytes += int(pkt.size_bytes) - header
    if TRACE:
        trace_record(env.links, TRIMS, port.number, pkt, now, queue.bytes)
    pkt.kind = TRIMMED
    pkt.size_bytes = header
    if env.links.readers[port.number].from_host == 1:
        pkt.ecn = int(pkt.ecn) | TRIMMED_AT_LAST_HOP


def mark(env: QueueEnv, now: Ps, port: PortRecord, queue: QueueRecord, pkt: PacketRecord) -> None:
    """Set a packet's CE bit; its class counts a mark."""
    mark_packet(env.links, port, queue, pkt, now)


def is_pausing(port: PortRecord, cls: int) -> bool:
    """Return whether this port pauses class ``cls`` of its neighbor."""
    return (port.pause_requested >> cls) & 1 == 1


def pause(env: QueueEnv, port: PortRecord, cls: int) -> None:
    """Pause class ``cls`` of the neighbor: the port owes it a PFC frame."""
    if not is_pausing(port, _known_class(env, cls)):
        port.pause_requested |= 1 << cls | PFC_FRAME_PENDING
        class_of(env, port, cls).pfc_pauses += 1


def resume(env: QueueEnv, port: PortRecord, cls: int) -> None:
    """Resume class ``cls`` of the neighbor: the port owes it a PFC frame."""
    if is_pausing(port, _known_class(env, cls)):
        port.pause_requested = port.pause_requested & ~(1 << cls) | PFC_FRAME_PENDING


def wait_until(env: QueueEnv, now: Ps, port: PortRecord, time: Ps) -> None:
    """Request another `choose_class` call at ``time``, or at an earlier event at the port."""
    if env.switch.handler != IN_CHOOSE_CLASS:
        broken(env.switch, ONLY_IN_CHOOSE_CLASS, 0)
    elif time <= now:
        broken(env.switch, NOT_LATER, now - time)
    else:
        port.free_at = time
        port.tx_class = WAITS
