"""A switch's output port: its class queues, admission, service order, transmission.

Every function changes one port and its class queues only, so ports can be served one by one
(switch.py) or in time order over the switch (coupled_switch.py). The discipline's handlers decide
which packets are admitted and served. A queue's ``bytes`` counts packets until their transmission
ends; a packet is copied to the link when it starts. Bit c of a port's ``backlog`` means that
packets of class c wait.

`netsim.queue` exports the services. An invalid argument of a service breaks a rule; the function
returns a harmless value.
"""

from __future__ import annotations

import math
from typing import Any

from netsim.engine.kernels.class_weights import charge, weighted_class
from netsim.engine.kernels.fields import (
    Bytes,
    LocalPort,
    Origin,
    PacketRecord,
    PortRecord,
    Ps,
    QueueRecord,
    Slot,
)
from netsim.engine.kernels.handlers import (
    ENQUEUED_TWICE,
    IDLE_PORT,
    IN_ADMIT,
    IN_CHOOSE_CLASS,
    IN_CHOOSE_PACKET,
    IN_HAND,
    IN_ON_DROP,
    IN_ON_FORWARD,
    IN_ON_MESSAGE,
    IN_ON_PAUSE,
    IN_ON_PORT_TIMER,
    IN_ON_SEND,
    LOST_TRACK,
    NO_LOCAL_PORT,
    NO_PAYLOAD,
    NO_PORT_TIMER,
    NO_SUCH_INDEX,
    NO_VALUE,
    NOT_LATER,
    NOT_OPEN,
    NOT_WHILE_SENDING,
    ONLY_IN_ADMIT,
    ONLY_IN_CHOOSE_CLASS,
    ONLY_ON_TIMER,
    UNKNOWN_CLASS,
    QueueEnv,
    admit,
    broken,
    choose_class,
    choose_packet,
    has_credit,
    on_drop,
    on_forward,
    on_message,
    on_pause,
    on_send,
    queue_env_at,
)
from netsim.engine.kernels.instructions import lowest_bit, prefetch
from netsim.engine.kernels.layout import (
    NOT_QUEUED,
    PFC_FRAME_PENDING,
    WAITS,
    LinkState,
    include,
    queue_of,
    ring_slot,
)
from netsim.engine.kernels.link_retry import has_room, has_work, wait_for_answer
from netsim.engine.kernels.links import (
    append,
    depart,
    end_of_transmission,
    header_end,
    lengthen_queue,
    may_start,
    next_slot,
    reaches_end,
    retries,
    waits_for_circuit,
)
from netsim.engine.kernels.packets import (
    DATA,
    DROP,
    ECN_CE,
    FIRST_CONTROL,
    MESSAGE,
    MESSAGE_BYTES,
    NO_CLASS,
    PAUSE_END,
    PFC,
    TRIMMED,
    TRIMMED_AT_LAST_HOP,
)
from netsim.engine.kernels.routing import departs
from netsim.engine.kernels.series import change, close_until, look_at_port
from netsim.engine.kernels.specialization_constants import (
    CIRCUITS,
    ECN_DEQUEUE,
    ECN_ENQUEUE,
    HAS_CHOOSE_CLASS,
    HAS_CHOOSE_PACKET,
    HAS_CREDIT,
    HAS_ON_DEPART,
    HAS_ON_DEPARTURE,
    HAS_ON_DROP,
    HAS_ON_MESSAGE,
    HAS_ON_PAUSE,
    HAS_ON_SEND,
    HAS_PFC,
    HAS_SERIES,
    IS_SHAPED,
    LATE_PAUSES,
    LINK_RETRY,
    MAKES_PACKETS,
    MOVES_PACKETS,
    N_CLASSES,
    N_LEVELS,
    N_PORT_TIMERS,
    PAUSES_END,
    PER_PORT_SIZES,
    PORT_WAKEUPS,
    TELEMETRY,
    TRACE,
    WEIGHTED,
)
from netsim.engine.kernels.trace import ARRIVED, DROPPED, FORWARDED, MARKED, trace_packet
from netsim.engine.kernels.trace import TRIMMED as TRIMS
from netsim.limits import CLASSES
from netsim.model.arithmetic import PURPOSE_ECN, rand32
from netsim.model.fabric import PFC_FRAME_BYTES


def ecn_marks(links: LinkState, port: PortRecord, held: Bytes) -> bool:
    """Return whether a packet that finds ``held`` bytes is marked. Between Kmin and Kmax a random
    draw decides; the port counts it."""
    kind = 0
    if PER_PORT_SIZES:
        kind = links.size_kind[port.number]
    fabric = links.fabric[kind]
    if held <= fabric.kmin_bytes:
        return False
    if held > fabric.kmax_bytes:
        return True
    draw = rand32(fabric.seed, PURPOSE_ECN, int(port.number), port.ecn_draws)
    port.ecn_draws += 1
    scaled = fabric.pmax * 4294967296.0 * (held - fabric.kmin_bytes)
    return draw < math.floor(scaled / (fabric.kmax_bytes - fabric.kmin_bytes))


def mark_packet(
    links: LinkState, port: PortRecord, queue: QueueRecord, pkt: PacketRecord, now: Ps
) -> None:
    """Set a packet's CE bit and count the mark."""
    pkt.ecn = int(pkt.ecn) | ECN_CE
    queue.ecn_marks += 1
    if TRACE:
        trace_packet(links, MARKED, port.number, pkt, now, queue.bytes)


def hold(links: LinkState, port: PortRecord, cls: int, size: Bytes, now: Ps) -> None:
    """Add ``size`` bytes to the bytes held in a class."""
    if HAS_SERIES:
        change(links, port.number, cls, int(size), now)
    queue = links.queues[queue_of(port.number, cls)]
    queue.bytes += size
    if queue.bytes > queue.max_bytes:
        queue.max_bytes = queue.bytes


def make_room(env: QueueEnv, port: PortRecord) -> None:
    """Make room for a packet in each class of a port, so that no packet moves during a handler."""
    for cls in range(N_CLASSES):
        queue = env.links.queues[queue_of(port.number, cls)]
        if queue.tail - queue.head >= queue.mask:
            lengthen_queue(env.links, env.switch.worker, queue)


def enqueue_packet(
    env: QueueEnv, port: PortRecord, cls: int, pkt: PacketRecord, origin: Origin, now: Ps
) -> None:
    """Append a copy of a packet, with an ECN mark if needed."""
    links = env.links
    queue = links.queues[queue_of(port.number, cls)]
    if queue.tail - queue.head >= queue.mask:
        lengthen_queue(links, env.switch.worker, queue)
    mark = False
    if ECN_ENQUEUE:
        if int(pkt.kind) == DATA and cls // N_LEVELS >= links.fabric[0].ecn_from_class:
            mark = ecn_marks(links, port, queue.bytes)
    slot = ring_slot(queue.off, queue.mask, queue.tail)
    links.pool[slot] = pkt
    if HAS_ON_DEPARTURE:
        links.origins[slot] = origin
    queue.tail += 1
    prefetch(links.pool, ring_slot(queue.off, queue.mask, queue.tail + 1))
    port.backlog |= 1 << cls
    hold(links, port, cls, Bytes(pkt.size_bytes), now)
    if mark:
        mark_packet(links, port, queue, links.pool[slot], now)


def count_drop(
    links: LinkState, port: PortRecord, queue: QueueRecord, pkt: PacketRecord, now: Ps
) -> None:
    """Count a packet dropped at a port."""
    queue.drops += 1
    queue.drop_bytes += int(pkt.size_bytes)
    if TRACE:
        trace_packet(links, DROPPED, port.number, pkt, now, queue.bytes)


VALUE_BITS = 31  # of a message's value in each of two fields
CLASS_BITS = (CLASSES - 1).bit_length()  # of an `Origin`


def tell_drop(env: QueueEnv, origin: Origin, size: Bytes, now: Ps) -> None:
    """Call `on_drop` for a packet that its ingress had accepted."""
    switch = env.switch
    switch.dropped = 1
    ingress = env.links.ports[switch.first_port + LocalPort(origin >> CLASS_BITS)]
    if PER_PORT_SIZES:
        env = queue_env_at(env, ingress)
    handler = switch.handler
    switch.handler = IN_ON_DROP
    on_drop(env, now, ingress, origin & (CLASSES - 1), size)
    switch.handler = handler


def close_gap(links: LinkState, queue: QueueRecord, index: int) -> None:
    """Remove index ``index`` from a queue's ring by moving the shorter part of the rest."""
    n = queue.tail - queue.head
    if 2 * index < n:
        for k in range(index, 0, -1):
            move_packet(links, queue, k - 1, k)
        queue.head += 1
    else:
        for k in range(index, n - 1):
            move_packet(links, queue, k + 1, k)
        queue.tail -= 1


def move_packet(links: LinkState, queue: QueueRecord, source: int, index: int) -> None:
    """Copy a packet within a queue's ring, from index ``source`` to ``index``."""
    here = ring_slot(queue.off, queue.mask, queue.head + source)
    there = ring_slot(queue.off, queue.mask, queue.head + index)
    links.pool[there] = links.pool[here]
    if HAS_ON_DEPARTURE:
        links.origins[there] = links.origins[here]


def note_empty_queues(links: LinkState, port: PortRecord) -> None:
    """Clear the backlog bits of classes without waiting packets."""
    for cls in range(N_CLASSES):
        queue = links.queues[queue_of(port.number, cls)]
        if queue.head == queue.tail:
            port.backlog &= ~(1 << cls)


# --- the port -------------------------------------------------------------------------------------


def set_paused_classes(links: LinkState, port: PortRecord, paused: int, now: Ps) -> None:
    """Set the mask of classes that a neighbor's PFC frame pauses, and add up paused times."""
    if HAS_SERIES:
        close_until(links, port.number, now)
    for cls in range(N_CLASSES):
        was = (port.paused >> cls) & 1
        becomes = (paused >> cls) & 1
        if was != becomes:
            queue = links.queues[queue_of(port.number, cls)]
            if becomes == 1:
                queue.paused_since = now
            else:
                queue.paused_ps += now - queue.paused_since
    port.paused = paused


def take_frame(env: QueueEnv, port: PortRecord, pkt: PacketRecord, now: Ps) -> bool:
    """Handle the arrival of a message or a PFC frame at a switch port, or the end of the frame's
    pauses; return False if they had ended before."""
    if HAS_ON_MESSAGE:
        if int(pkt.kind) == MESSAGE:
            env.switch.handler = IN_ON_MESSAGE
            take_message(env.links, port, pkt)
            return True
    classes = arriving_pauses(port, pkt)
    if classes < 0:
        return False
    if HAS_ON_PAUSE:
        if int(pkt.kind) == PFC:
            if PER_PORT_SIZES:
                env = queue_env_at(env, port)
            env.switch.handler = IN_ON_PAUSE
            classes = on_pause(env, now, port, classes) & ((1 << N_CLASSES) - 1)
    set_paused_classes(env.links, port, classes, now)
    return True


def take_message(links: LinkState, port: PortRecord, pkt: PacketRecord) -> None:
    """Handle the arrival of a message at a port of a switch or host."""
    queue = links.queues[queue_of(port.number, int(pkt.prio))]
    on_message(links.discipline[0], queue, int(pkt.dst) << VALUE_BITS | int(pkt.aux))


def arriving_pauses(port: PortRecord, pkt: PacketRecord) -> int:
    """Return the classes that a PFC frame pauses, 0 if its pauses end now, -1 if they ended
    before."""
    if PAUSES_END:
        if int(pkt.kind) == PAUSE_END:
            return 0 if port.frame_heard == int(pkt.seq) else -1
        port.frame_heard = int(pkt.seq)
    return int(pkt.aux)


def open_classes(links: LinkState, port: PortRecord) -> int:
    """Return the classes from which the port may send now, a bit mask."""
    classes = port.backlog & ~port.paused
    if HAS_CREDIT:
        for cls in range(N_CLASSES):
            if (classes >> cls) & 1 == 1:
                queue = links.queues[queue_of(port.number, cls)]
                head = links.pool[ring_slot(queue.off, queue.mask, queue.head)]
                if is_closed(links, port, cls, Bytes(head.size_bytes)):
                    classes &= ~(1 << cls)
    return classes


def is_closed(links: LinkState, port: PortRecord, cls: int, size: Bytes) -> bool:
    """Return whether a port may not send a packet of ``size`` in class ``cls`` now."""
    if (port.paused >> cls) & 1 == 1:
        return True
    if HAS_CREDIT:
        if links.readers[port.number].from_host == 0:
            return not has_credit(
                links.discipline[0], links.queues[queue_of(port.number, cls)], size
            )
    return False


def next_class(env: QueueEnv, port: PortRecord, now: Ps) -> int:
    """Return the class to serve next, or NO_CLASS."""
    classes = open_classes(env.links, port)
    if classes == 0:
        return NO_CLASS
    if IS_SHAPED:
        return discipline_class(env, port, now)
    if N_CLASSES == 1:
        return 0
    if WEIGHTED:
        if classes & (classes - 1) != 0:
            return weighted_class(env.links, port, classes)
    elif HAS_CHOOSE_CLASS:
        if classes & (classes - 1) != 0:
            return discipline_class(env, port, now)
    return lowest_bit(classes)


def discipline_class(env: QueueEnv, port: PortRecord, now: Ps) -> int:
    """Return the discipline's choice of class; an impossible one breaks a rule."""
    if IS_SHAPED:
        port.tx_class = 0
    if PER_PORT_SIZES:
        env = queue_env_at(env, port)
    env.switch.handler = IN_CHOOSE_CLASS
    cls: int = choose_class(env, now, port)
    classes = open_classes(env.links, port)
    if cls == NO_CLASS:
        if not IS_SHAPED and classes != 0:
            broken(env.switch, IDLE_PORT, lowest_bit(classes))
        return NO_CLASS
    if cls < 0 or cls >= N_CLASSES or (classes >> cls) & 1 == 0:
        broken(env.switch, NOT_OPEN, cls)
        return NO_CLASS
    return cls


def check_prio(env: QueueEnv, pkt: PacketRecord) -> None:
    """Check that a packet's class exists, after a handler could change it."""
    if int(pkt.prio) >= N_CLASSES:
        broken(env.switch, UNKNOWN_CLASS, int(pkt.prio))
        pkt.prio = 0


def add_classes(links: LinkState, port: PortRecord) -> None:
    """Sum bytes held and sent over a port's classes, for telemetry."""
    port.held_bytes = Bytes(0)
    port.sent_bytes = Bytes(0)
    for cls in range(N_CLASSES):
        queue = links.queues[queue_of(port.number, cls)]
        port.held_bytes += queue.bytes
        port.sent_bytes += queue.sent_bytes


def start_transmission(
    env: QueueEnv, port: PortRecord, cls: int, waiting: PacketRecord, origin: Origin, now: Ps
) -> None:
    """Start transmitting packet ``waiting`` of class ``cls``: copy it to the link."""
    links = env.links
    queue = links.queues[queue_of(port.number, cls)]
    slot = next_slot(links, env.switch.worker, port)
    links.pool[slot] = waiting
    pkt = links.pool[slot]
    size = Bytes(pkt.size_bytes)
    end = end_of_transmission(links, port, size, now)
    pkt.hops = int(pkt.hops) + 1
    if ECN_DEQUEUE:
        if int(pkt.kind) == DATA and cls // N_LEVELS >= links.fabric[0].ecn_from_class:
            if ecn_marks(links, port, queue.bytes):
                mark_packet(links, port, queue, pkt, now)
    if HAS_ON_SEND:
        if PER_PORT_SIZES:
            env = queue_env_at(env, port)
        env.switch.handler = IN_ON_SEND
        on_send(env, now, port, queue, pkt)
        check_prio(env, pkt)
    pkt.time = header_end(links, port, size, now, end) + port.delay_ps
    if TELEMETRY:
        if int(pkt.kind) == DATA:
            env.switch.handler = IN_ON_FORWARD
            add_classes(links, port)
            on_forward(now, pkt, port, queue)
    if HAS_ON_DEPART:
        departs(env, port.number, pkt, now)
    arrives = reaches_end(links, port, cls, slot, size, now, end)
    if TRACE:
        trace_packet(links, FORWARDED, port.number, pkt, now, queue.bytes)
    depart(links, port, queue, slot, size, now, end, arrives)
    prefetch(links.pool, slot + 2)  # two packets share a cache line
    port.tx_bytes = size
    port.tx_class = cls
    if HAS_ON_DEPARTURE:
        port.tx_origin = origin


def picked(env: QueueEnv, port: PortRecord, cls: int, now: Ps) -> int:
    """Return the index of the packet of class ``cls`` to send, or -1 if none is left."""
    queue = env.links.queues[queue_of(port.number, cls)]
    if PER_PORT_SIZES:
        env = queue_env_at(env, port)
    env.switch.handler = IN_CHOOSE_PACKET
    index: int = choose_packet(env, now, port, queue)
    if index < 0 or index >= queue.tail - queue.head:
        broken(env.switch, NO_SUCH_INDEX, index)
        return -1
    return index


def transmit(env: QueueEnv, port: PortRecord, cls: int, now: Ps) -> None:
    """Start transmitting a packet of class ``cls``, which leaves its queue."""
    links = env.links
    queue = links.queues[queue_of(port.number, cls)]
    index = 0
    if HAS_CHOOSE_PACKET:
        index = picked(env, port, cls, now)
        if index < 0:
            return
    waiting = ring_slot(queue.off, queue.mask, queue.head + index)
    origin = Origin(0)
    if HAS_ON_DEPARTURE:
        origin = Origin(links.origins[waiting])
    if not HAS_CHOOSE_PACKET:
        queue.head += 1
        if queue.head == queue.tail:
            port.backlog &= ~(1 << cls)
        prefetch(links.pool, ring_slot(queue.off, queue.mask, queue.head + 1))
    start_transmission(env, port, cls, links.pool[waiting], origin, now)
    if HAS_CHOOSE_PACKET:
        close_gap(links, queue, index)
        if queue.head == queue.tail:
            port.backlog &= ~(1 << cls)
    if WEIGHTED:
        charge(links, port, cls, Bytes(port.tx_bytes))


def send_pfc(env: QueueEnv, port: PortRecord, now: Ps) -> None:
    """Transmit a PFC frame with the pause state of all classes."""
    links = env.links
    end = end_of_transmission(links, port, Bytes(PFC_FRAME_BYTES), now)
    pkt = links.pool[next_slot(links, env.switch.worker, port)]
    pkt.flow = -1
    pkt.seq = 0
    pkt.dst = -1
    pkt.aux = port.pause_requested
    pkt.size_bytes = PFC_FRAME_BYTES
    pkt.entropy = 0
    pkt.kind = PFC
    pkt.prio = 0
    pkt.ecn = 0
    pkt.hops = 1
    pkt.time = end + port.delay_ps
    if LATE_PAUSES:
        pkt.time += port.response_ps
    if PAUSES_END:
        port.frames_sent += 1
        pkt.seq = port.frames_sent
    if TRACE:
        trace_packet(links, FORWARDED, port.number, pkt, now, 0)
    append(links, port, pkt.time)
    if PAUSES_END:
        if port.pause_ps > 0 and int(pkt.aux) != 0:
            following = links.pool[next_slot(links, env.switch.worker, port)]
            following.flow = following.dst = -1
            following.kind = PAUSE_END
            following.seq = int(pkt.seq)
            following.time = pkt.time + port.pause_ps
            append(links, port, following.time)
    port.free_at = end
    port.tx_bytes = Bytes(PFC_FRAME_BYTES)
    port.tx_class = NOT_QUEUED


def start_next(env: QueueEnv, port: PortRecord, now: Ps) -> None:
    """Start the next transmission of an idle port, if any; a PFC frame goes first."""
    if HAS_PFC:
        if port.pause_requested >= PFC_FRAME_PENDING:
            port.pause_requested &= ~PFC_FRAME_PENDING
            send_pfc(env, port, now)
            return
    if HAS_SERIES:
        # Otherwise arrivals and completions have started it.
        if HAS_PFC or PORT_WAKEUPS or HAS_ON_MESSAGE or N_PORT_TIMERS > 0:
            close_until(env.links, port.number, now)
    if CIRCUITS:
        if open_classes(env.links, port) == 0 or waits_for_circuit(env.links, port, now):
            return
    if LINK_RETRY:
        waiting = open_classes(env.links, port) != 0
        if retries(env.links, env.switch.worker, port, waiting, now):
            return
    cls = next_class(env, port, now)
    if cls >= 0:
        transmit(env, port, cls, now)
    elif LINK_RETRY:
        wait_for_answer(env.links, port, False)


def has_event(port: PortRecord) -> bool:
    """Return whether the port has a completion or wakeup at ``free_at``."""
    if PORT_WAKEUPS:
        return port.tx_bytes > 0 or port.tx_class == WAITS
    return port.tx_bytes > 0


def finish_transmission(env: QueueEnv, port: PortRecord) -> None:
    """Handle the end of the current transmission, whose bytes leave the port, or a wakeup."""
    if PORT_WAKEUPS and port.tx_bytes == 0:
        port.tx_class = 0
        return
    if (HAS_PFC or LINK_RETRY) and port.tx_class == NOT_QUEUED:
        port.tx_bytes = Bytes(0)
        return
    if HAS_SERIES:
        close_until(env.links, port.number, port.free_at)
        change(env.links, port.number, port.tx_class, -int(port.tx_bytes), port.free_at)
    env.links.queues[queue_of(port.number, port.tx_class)].bytes -= port.tx_bytes
    port.tx_bytes = Bytes(0)


def advance(env: QueueEnv, port: PortRecord, until: Ps) -> None:
    """Complete and start transmissions up to and including time ``until``."""
    while has_event(port) and port.free_at <= until:
        finish_transmission(env, port)
        start_next(env, port, port.free_at)


def admitted(env: QueueEnv, port: PortRecord, pkt: PacketRecord, now: Ps) -> int:
    """Return the class to queue an arriving packet in, or DROP."""
    switch = env.switch
    if PER_PORT_SIZES:
        env = queue_env_at(env, port)
    switch.handler = IN_ADMIT
    cls: int = admit(env, now, port, pkt)
    check_prio(env, pkt)
    if MOVES_PACKETS:
        if switch.holds_packet == 1:
            broken(switch, IN_HAND, 0)
        if cls >= 0 and (switch.enqueued_classes >> cls) & 1 == 1:
            broken(switch, ENQUEUED_TWICE, cls)
            cls = DROP
        switch.enqueued_classes = 0
        switch.holds_packet = 0
    if cls < DROP or cls >= N_CLASSES:
        broken(switch, UNKNOWN_CLASS, cls)
        cls = DROP
    return cls


def bypasses_queue(links: LinkState, port: PortRecord, cls: int, size: Bytes, now: Ps) -> bool:
    """Return whether an arriving packet of class ``cls`` can be sent at once, without handlers."""
    if HAS_CHOOSE_PACKET or IS_SHAPED:
        return False
    if CIRCUITS:
        if not may_start(links, port, now):
            return False
    if HAS_PFC:
        if port.pause_requested >= PFC_FRAME_PENDING or (port.paused >> cls) & 1 == 1:
            return False
    if HAS_CREDIT:
        if is_closed(links, port, cls, size):
            return False
    if LINK_RETRY and not has_room(links, port.number, now):
        return False
    return port.tx_bytes == 0 and not has_work(links, port)


def admit_arrival(env: QueueEnv, port: PortRecord, arrived: Slot, origin: Origin, now: Ps) -> bool:
    """Admit the packet in pool slot ``arrived``, which came in as ``origin`` says. Returns whether
    its transmission has started: a packet with nothing to wait for goes straight to the link."""
    links = env.links
    pkt = links.pool[arrived]
    if HAS_SERIES:
        if MOVES_PACKETS:
            look_at_port(links, port.number, now)
        else:
            close_until(links, port.number, now)
    if TRACE:
        held = links.queues[queue_of(port.number, int(pkt.prio))].bytes
        trace_packet(links, ARRIVED, port.number, pkt, now, held)
    if MOVES_PACKETS:
        make_room(env, port)
    cls = admitted(env, port, pkt, now)
    if MAKES_PACKETS:
        if env.switch.returned == 1:
            env.switch.returned = 0
            if HAS_ON_DROP:
                tell_drop(env, origin, Bytes(pkt.size_bytes), now)
            return False
    if cls == DROP:
        queue = links.queues[queue_of(port.number, int(pkt.prio))]
        count_drop(links, port, queue, pkt, now)
        if HAS_ON_DROP:
            tell_drop(env, origin, Bytes(pkt.size_bytes), now)
        return False
    if bypasses_queue(links, port, cls, Bytes(pkt.size_bytes), now):
        # An empty queue marks nothing at enqueue.
        hold(links, port, cls, Bytes(pkt.size_bytes), now)
        start_transmission(env, port, cls, pkt, origin, now)
        if WEIGHTED:
            charge(links, port, cls, Bytes(port.tx_bytes))
        return True
    enqueue_packet(env, port, cls, pkt, origin, now)
    return False


def arrive(env: QueueEnv, port: PortRecord, arrived: Slot, now: Ps) -> None:
    """Admit the packet in pool slot ``arrived``, and start the port if it is idle."""
    if not admit_arrival(env, port, arrived, Origin(0), now) and port.tx_bytes == 0:
        start_next(env, port, now)


# --- services -------------------------------------------------------------------------------------


def known_class(env: QueueEnv, cls: int) -> int:
    """Return ``cls`` if it exists; otherwise break a rule and return 0."""
    if 0 <= cls < N_CLASSES:
        return cls
    broken(env.switch, UNKNOWN_CLASS, cls)
    return 0


def class_of(env: QueueEnv, port: PortRecord, cls: int) -> Any:
    """Return class ``cls`` of a port: ``bytes`` held and the discipline's CLASS_STATE."""
    return env.links.queues[queue_of(port.number, known_class(env, cls))]


def n_ports(env: QueueEnv) -> int:
    """Return the number of the switch's ports."""
    node = env.net.port_node[env.switch.first_port]
    return int(env.net.first_port[node + 1] - env.net.first_port[node])


def port_at(env: QueueEnv, i: int) -> Any:
    """Return local port ``i`` of the switch, from 0. Requires COUPLED."""
    if i < 0 or i >= n_ports(env):
        broken(env.switch, NO_LOCAL_PORT, i)
        i = 0
    return env.links.ports[env.switch.first_port + LocalPort(i)]


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
    """Drop the waiting packet at ``index`` of a class; later packets move up."""
    if not _is_valid_index(env, queue, index):
        return
    pkt = env.links.pool[ring_slot(queue.off, queue.mask, queue.head + index)]
    size = Bytes(pkt.size_bytes)
    if HAS_SERIES:
        look_at_port(env.links, port.number, now)
    count_drop(env.links, port, queue, pkt, now)
    origin = Origin(0)
    if HAS_ON_DROP:
        origin = Origin(env.links.origins[ring_slot(queue.off, queue.mask, queue.head + index)])
    queue.bytes -= size
    close_gap(env.links, queue, index)
    if queue.head == queue.tail:
        note_empty_queues(env.links, port)
    if HAS_ON_DROP:
        tell_drop(env, origin, size, now)


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
    cls = known_class(env, cls)
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
    if HAS_ON_DROP:
        tell_drop(env, env.switch.held_packet_origin, Bytes(pkt.size_bytes), now)


def trim(env: QueueEnv, now: Ps, port: PortRecord, pkt: PacketRecord) -> None:
    """Trim an arriving or removed packet to its header; its class counts it."""
    _cut(env, now, port, pkt, env.par.control_bytes)


def trim_to(env: QueueEnv, now: Ps, port: PortRecord, pkt: PacketRecord, size: int) -> None:
    """Trim a packet to ``size`` bytes, if it is longer."""
    _cut(env, now, port, pkt, Bytes(min(size, int(pkt.size_bytes))))


def _cut(env: QueueEnv, now: Ps, port: PortRecord, pkt: PacketRecord, header: Bytes) -> None:
    if int(pkt.kind) >= FIRST_CONTROL:
        broken(env.switch, NO_PAYLOAD, int(pkt.kind))
        return
    queue = class_of(env, port, int(pkt.prio))
    queue.trims += 1
    queue.trim_bytes += int(pkt.size_bytes) - header
    if TRACE:
        trace_packet(env.links, TRIMS, port.number, pkt, now, queue.bytes)
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
    if not is_pausing(port, known_class(env, cls)):
        port.pause_requested |= 1 << cls | PFC_FRAME_PENDING
        class_of(env, port, cls).pfc_pauses += 1


def resume(env: QueueEnv, port: PortRecord, cls: int) -> None:
    """Resume class ``cls`` of the neighbor: the port owes it a PFC frame."""
    if is_pausing(port, known_class(env, cls)):
        port.pause_requested = port.pause_requested & ~(1 << cls) | PFC_FRAME_PENDING


def send_message(env: QueueEnv, now: Ps, port: PortRecord, cls: int, value: int) -> None:
    """Send a message of class ``cls`` to the neighbor at once, even during a transmission."""
    switch = env.switch
    if switch.handler == IN_ON_SEND or switch.handler == IN_ON_DROP:
        broken(switch, NOT_WHILE_SENDING, 0)
        return
    if value < 0 or value >> (2 * VALUE_BITS) != 0:
        broken(switch, NO_VALUE, value)
        return
    links = env.links
    pkt = links.pool[next_slot(links, switch.worker, port)]
    pkt.flow = -1
    pkt.seq = 0
    pkt.dst = value >> VALUE_BITS
    pkt.aux = value & ((1 << VALUE_BITS) - 1)
    pkt.size_bytes = MESSAGE_BYTES
    pkt.entropy = 0
    pkt.kind = MESSAGE
    pkt.prio = known_class(env, cls)
    pkt.ecn = 0
    pkt.hops = 1
    pkt.time = end_of_transmission(links, port, Bytes(MESSAGE_BYTES), now) + port.delay_ps
    append(links, port, pkt.time)
    include(links.busy, switch.first_word, port.number - switch.first_port)


def repeat_pauses(port: PortRecord) -> None:
    """Owe the neighbor another PFC frame with the same pauses."""
    port.pause_requested |= PFC_FRAME_PENDING


def set_paused(env: QueueEnv, now: Ps, port: PortRecord, classes: int) -> None:
    """Replace the classes that are paused at a port, a bit mask; only in `on_port_timer`."""
    if env.switch.handler != IN_ON_PORT_TIMER:
        broken(env.switch, ONLY_ON_TIMER, 0)
    elif classes < 0 or classes >> N_CLASSES != 0:
        broken(env.switch, UNKNOWN_CLASS, classes)
    else:
        set_paused_classes(env.links, port, classes, now)


def set_timer(env: QueueEnv, now: Ps, port: PortRecord, k: int, time: Ps) -> None:
    """Set timer ``k`` of the port to a later time, or clear it with a ``time`` of 0."""
    if k < 0 or k >= N_PORT_TIMERS:
        broken(env.switch, NO_PORT_TIMER, k)
    elif time != 0 and time <= now:
        broken(env.switch, NOT_LATER, now - time)
    else:
        port.timers_ps[k] = time
        if time != 0:
            env.switch.next_timer_ps = min(env.switch.next_timer_ps, time)


def timer_of(port: PortRecord, k: int) -> Ps:
    """Return the time to which timer ``k`` of the port is set, 0 if it is not."""
    return Ps(port.timers_ps[k])


def wait_until(env: QueueEnv, now: Ps, port: PortRecord, time: Ps) -> None:
    """Call `choose_class` again at ``time``, or earlier if something happens at the port."""
    if env.switch.handler != IN_CHOOSE_CLASS:
        broken(env.switch, ONLY_IN_CHOOSE_CLASS, 0)
    elif time <= now:
        broken(env.switch, NOT_LATER, now - time)
    else:
        port.free_at = time
        port.tx_class = WAITS
