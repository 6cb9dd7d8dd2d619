"""The loop over windows: find active nodes, step them, then publish what they sent.

Worker 0 runs all windows and the serial work between them. If a window is long enough, it deals a
list of active nodes to every worker. A worker takes nodes from the end of its own list, and then
from the start of others' lists; the rest of a list is one number, changed and read in one
instruction. A window ends when all its nodes are stepped. So a thread that the system does not run
delays others only by the nodes that it has taken, and no thread waits for a thread without nodes.

A reconfiguration of phase-driven circuit switches (`PHASE_DRIVEN`) is detected at the end of the
window with the phase's last delivery. It takes effect `control_delay_ps` later, so nothing in that
window depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from netsim.engine.kernels.fields import (
    NO_FLOW,
    NO_PORT,
    CircuitRecord,
    ClockRecord,
    FlowId,
    GlobalPort,
    HostId,
    HostRecord,
    NodeId,
    Numbers,
    PacketRecord,
    Ps,
    Records,
    RxRecord,
    SlotRecord,
    StageTimesRecord,
    TxRecord,
    span,
)
from netsim.engine.kernels.handlers import IN_SETUP, NOTHING, Env, env_of, setup
from netsim.engine.kernels.host import check_control, host_step, make_room_for_control
from netsim.engine.kernels.instructions import (
    read_clock_ns,
    read_shared,
    sleep_ns,
    take_tickets,
    write_shared,
)
from netsim.engine.kernels.layout import (
    BLOCK,
    DONE,
    IDLE,
    INF,
    NEEDS_GROWTH,
    NEEDS_THINNING,
    OK,
    ONE_PORT,
    RUNNING,
    TIME_LIMIT,
    UNFINISHED,
    WAITS,
    Clock,
    Crew,
    HostState,
    LinkState,
    Net,
    Scratch,
    empty,
    include,
    next_port,
    nic_of,
    nics_of,
    ports_of,
)
from netsim.engine.kernels.links import first_slot, next_slot, share_blocks, sort_new
from netsim.engine.kernels.specialization_constants import (
    HAS_SERIES,
    PHASE_DRIVEN,
    PLANE_BALANCING,
    PROFILE,
    PROGRAM,
    REORDERS,
    TASKS,
    TRACE,
    switch_step,
)
from netsim.engine.kernels.switch import prefetch_link
from netsim.engine.kernels.tasks import arm, start_timer
from netsim.engine.kernels.trace import half_full
from netsim.limits import HORIZON_PS
from netsim.model.circuits import END_PS

SHARED_NS = 30_000
"""A window that would take one worker at least this long is shared: handing nodes and their memory
to other cores takes about a third of it."""

ALONE_NS = 1 << 40  # likewise, in a call with one worker

OWN_BATCHES, OTHER_BATCHES = 32, 4
"""A worker takes one in this many of the nodes left in its own list, or in another's. It takes
several at once because neighbors in a list share cache lines."""

SHIFT = 32
LOW = (1 << SHIFT) - 1
"""The rest of a list: end << SHIFT | start. The list is empty if the end is not above the start."""

SPIN_NS = 20_000  # time that a worker waits on its core before it sleeps
LONGEST_SLEEP_NS = 1_000_000

WORKING, ENDING = range(2)  # values of ``Crew.ending``
NODES, NANOSECONDS = range(2)  # entries of ``Crew.pace``


def step(
    net: Net,
    links: LinkState,
    hosts: HostState,
    clock: Clock,
    scratch: Scratch,
    worker: int,
    node: NodeId,
) -> None:
    """Step a node unless it has completed this window already."""
    if clock.status[node] == OK:
        return
    if node < net.n_hosts:
        clock.status[node] = host_step(net, links, hosts, clock, worker, HostId(node))
    else:
        clock.status[node] = switch_step(net, links, clock, scratch, worker, node)


def step_all(
    net: Net,
    links: LinkState,
    hosts: HostState,
    clock: Clock,
    crew: Crew,
    scratch: Scratch,
    shared_ns: int,
) -> None:
    """Step all active nodes; all workers do if one would take ``shared_ns`` or more at the speed of
    the last window."""
    n_active = clock.clock[0].n_active
    pace = crew.pace
    began = read_clock_ns()
    too_short = pace[NANOSECONDS] * n_active < shared_ns * pace[NODES]
    if TRACE or too_short:
        for i in range(n_active - 1, -1, -1):
            step(net, links, hosts, clock, scratch, 0, clock.active[i])
        pace[NODES] = n_active
        pace[NANOSECONDS] = read_clock_ns() - began
        return
    before = crew.done[0][0]
    end = stepped(crew) + n_active
    deal(clock, crew)
    work(net, links, hosts, clock, crew, scratch, 0)
    pace[NODES] = crew.done[0][0] - before
    pace[NANOSECONDS] = read_clock_ns() - began
    since = read_clock_ns()
    while stepped(crew) < end and read_shared(crew.ending) == WORKING:
        rest(since)


def deal(clock: Clock, crew: Crew) -> None:
    """Give every worker a list of its active nodes."""
    n_workers = crew.left.shape[0]
    for worker in range(n_workers):
        crew.ends[worker] = crew.first[worker]
    for i in range(clock.clock[0].n_active):
        node = clock.active[i]
        worker = crew.owner[node]
        crew.nodes[crew.ends[worker]] = node
        crew.ends[worker] += 1
    for worker in range(n_workers):
        write_shared(crew.left[worker], (crew.ends[worker] - crew.first[worker]) << SHIFT)
    take_tickets(crew.dealt, 1)


def stepped(crew: Crew) -> int:
    """Return how many nodes all workers have stepped together."""
    total = 0
    for worker in range(crew.done.shape[0]):
        total += read_shared(crew.done[worker])
    return total


def take(crew: Crew, owner: int, worker: int) -> tuple[int, int]:
    """Take nodes of a list; return where they start and end in it. The list may be of a later
    window than the last one, but no other worker has these nodes."""
    left = read_shared(crew.left[owner])
    n_left = (left >> SHIFT) - (left & LOW)
    if n_left <= 0:
        return 0, 0
    if owner == worker:
        batch = 1 + n_left // OWN_BATCHES
        left = take_tickets(crew.left[owner], -(batch << SHIFT))
        return max(left & LOW, (left >> SHIFT) - batch), left >> SHIFT
    batch = 1 + n_left // OTHER_BATCHES
    left = take_tickets(crew.left[owner], batch)
    return left & LOW, min(left >> SHIFT, (left & LOW) + batch)


def work(
    net: Net,
    links: LinkState,
    hosts: HostState,
    clock: Clock,
    crew: Crew,
    scratch: Scratch,
    worker: int,
) -> None:
    """Step a worker's own nodes, then nodes of the others, until none is left. Start at the end of
    a list, with switches, since they take longest."""
    n_workers = crew.left.shape[0]
    owner, n_tried = worker, 0
    while n_tried < n_workers:
        start, end = take(crew, owner, worker)
        if end <= start:
            owner = (owner + 1) % n_workers
            n_tried += 1
            continue
        for i in range(end - 1, start - 1, -1):
            node = crew.nodes[crew.first[owner] + i]
            step(net, links, hosts, clock, scratch, worker, node)
        write_shared(crew.done[worker], crew.done[worker][0] + end - start)


def rest(since: int) -> None:
    """Wait a moment: on the core at first, then asleep for a part of the time since ``since``."""
    waited = read_clock_ns() - since
    if waited > SPIN_NS:
        sleep_ns(min(waited // 4, LONGEST_SLEEP_NS))


def assist(
    net: Net,
    links: LinkState,
    hosts: HostState,
    clock: Clock,
    crew: Crew,
    scratch: Scratch,
    worker: int,
) -> None:
    """Work in every shared window until the call ends."""
    seen = 0
    since = read_clock_ns()
    while read_shared(crew.ending) == WORKING:
        dealt = read_shared(crew.dealt)
        if dealt == seen:
            rest(since)
            continue
        seen = dealt
        work(net, links, hosts, clock, crew, scratch, worker)
        since = read_clock_ns()


# --- between windows: active nodes, phase-driven circuits -----------------------------------------


def find_active(clock: Clock) -> bool:
    """Open the next window: set its bounds and active nodes; return False if no event is left."""
    window = clock.clock[0]
    soonest = clock.soonest
    w0 = INF
    for block in range(soonest.shape[0]):
        w0 = min(w0, soonest[block])
    window.n_active = 0
    if w0 >= INF:
        return False
    window.w0 = w0
    window.w1 = w0 + window.window_ps
    w1 = window.w1
    k = 0
    for block in range(soonest.shape[0]):
        if soonest[block] < w1:
            for node in nodes_of_block(clock, block):
                if clock.next_event[node] < w1:
                    clock.active[k] = node
                    clock.status[node] = UNFINISHED
                    k += 1
    window.n_active = k
    return True


def nodes_of_block(clock: Clock, block: int) -> Iterable[NodeId]:
    """The nodes of a block, in ascending order."""
    end = min((block + 1) * BLOCK, clock.next_event.shape[0])
    return span(NodeId(block * BLOCK), NodeId(end))


def expect(clock: Clock, node: NodeId, time: Ps) -> None:
    """Record that ``node`` has an event at ``time``."""
    if time < clock.next_event[node]:
        clock.next_event[node] = time
        block = node // BLOCK
        clock.soonest[block] = min(clock.soonest[block], time)


def forget_event(clock: Clock, node: NodeId) -> None:
    """Leave the next event of another part's node to that part."""
    if clock.next_event[node] != INF:
        clock.next_event[node] = INF
        block = int(node) // BLOCK
        soonest = INF
        for each in nodes_of_block(clock, block):
            soonest = min(soonest, clock.next_event[each])
        clock.soonest[block] = soonest


def note_next_events(clock: Clock) -> None:
    """Record the next event of every node that was active."""
    done = -1
    for i in range(clock.clock[0].n_active):
        block = clock.active[i] // BLOCK
        if block != done:
            soonest = INF
            for node in nodes_of_block(clock, block):
                soonest = min(soonest, clock.next_event[node])
            clock.soonest[block] = soonest
            done = block


def note_delivery(hosts: HostState, clock: Clock, rx: RxRecord) -> None:
    """Count a delivered flow of a phase."""
    phase = hosts.phase[rx.flow]
    if phase >= 0:
        slot = clock.slots[phase]
        slot.waits_for -= 1
        slot.done_ps = max(slot.done_ps, rx.done_ps)


def start_reconfigurations(net: Net, links: LinkState, clock: Clock) -> None:
    """Set the start of slots whose preceding phase has ended."""
    window = clock.clock[0]
    while window.slot + 1 < clock.slots.shape[0]:
        slot = clock.slots[window.slot]
        if slot.waits_for > 0:
            return
        window.slot += 1
        after = clock.slots[window.slot]
        after.begin_ps = max(slot.up_ps, slot.done_ps) + after.control_delay_ps
        after.up_ps = after.begin_ps + after.night_ps
        apply_matching(net, links, clock, after)


def apply_matching(net: Net, links: LinkState, clock: Clock, slot: SlotRecord) -> None:
    """Set the days that end and begin with a slot; wake ports that wait for them. Before, a day's
    start is relative to its slot's start, and its end is END_PS."""
    for i in range(slot.first_ending, slot.first_beginning):
        circuit = links.circuits[links.reconfiguring_ports[i]]
        links.days[circuit.last_up - 1, 1] += slot.begin_ps - END_PS
        links.days[circuit.last_start - 1, 1] += slot.begin_ps - END_PS
        forget_day(circuit)
    for i in range(slot.first_beginning, slot.behind):
        p = links.reconfiguring_ports[i]
        circuit = links.circuits[p]
        links.days[circuit.last_up, 0] += slot.begin_ps
        links.days[circuit.last_start, 0] += slot.begin_ps
        opens_ps = Ps(links.days[circuit.last_start, 0])
        circuit.last_up += 1
        circuit.last_start += 1
        forget_day(circuit)
        port = links.ports[p]
        if port.tx_bytes == 0 and port.tx_class == WAITS and port.free_at >= HORIZON_PS:
            port.free_at = opens_ps
            switch = links.switches[net.port_node[p] - net.n_hosts]
            switch.next_wakeup_ps = min(switch.next_wakeup_ps, opens_ps)
            expect(clock, net.port_node[p], opens_ps)


def forget_day(circuit: CircuitRecord) -> None:
    """Force a new lookup of the circuit's day."""
    circuit.down_ps = circuit.closes_ps = Ps(-INF)


# --- the loop -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WindowTimes:
    """Seconds per stage over all windows, and nodes stepped."""

    find_s: float
    """Find the next window and its active nodes."""
    switches_s: float
    hosts_s: float
    publish_s: float
    """Publish sent packets, count deliveries, release flows."""
    switch_steps: int
    host_steps: int


def lap(parts: StageTimesRecord) -> int:
    """Return the nanoseconds since the last call; restart the clock."""
    now = read_clock_ns()
    passed = now - parts.since_ns
    parts.since_ns = now
    return passed


def window_times(parts: Records[int, StageTimesRecord]) -> WindowTimes:
    """Return the times in a clock's record."""
    return WindowTimes(
        find_s=float(parts["find_ns"][0]) / 1e9,
        switches_s=float(parts["switches_ns"][0]) / 1e9,
        hosts_s=float(parts["hosts_ns"][0]) / 1e9,
        publish_s=float(parts["publish_ns"][0]) / 1e9,
        switch_steps=int(parts["switch_steps"][0]),
        host_steps=int(parts["host_steps"][0]),
    )


class Goal(NamedTuple):
    """The clock's counts when all is done. With a program, `delivered` and `finished` are
    relative to the flows that have started."""

    delivered: int
    finished: int
    tasks_done: int


class Beyond(NamedTuple):
    """Other parts of the network (`Cut`), if this process simulates one part."""

    nodes: Numbers[int, NodeId]  # int64[...]: their nodes at the ends of own links
    back_ps: Numbers[int, Ps]  # int64[...]: from an arrival there to its earliest effect here
    tells: bool  # others may wait for deliveries


class Limits(NamedTuple):
    """Conditions that end a call."""

    n_windows: int
    until_ps: Ps  # windows start and end before it
    until_ns: int  # on the clock; but a call has at least one window
    shared_ns: int  # expected duration from which a window is shared
    stop_when_done: bool  # a little after all is done: ending_ps
    goal: Goal
    beyond: Beyond


def step_apart(
    net: Net, links: LinkState, hosts: HostState, clock: Clock, scratch: Scratch
) -> None:
    """Step all active nodes with one worker, for a profile: switches, then hosts."""
    window = clock.clock[0]
    parts = clock.parts[0]
    parts.find_ns += lap(parts)
    i = window.n_active
    while i > 0 and clock.active[i - 1] >= net.n_hosts:
        i -= 1
        step(net, links, hosts, clock, scratch, 0, clock.active[i])
    if window.resume == 0:
        parts.switch_steps += window.n_active - i
        parts.host_steps += i
    parts.switches_ns += lap(parts)
    while i > 0:
        i -= 1
        step(net, links, hosts, clock, scratch, 0, clock.active[i])
    parts.hosts_ns += lap(parts)


def publish(net: Net, links: LinkState, clock: Clock) -> None:
    """Publish the active nodes' packets."""
    share_blocks(links)
    window = clock.clock[0]
    sent = 0
    for i in range(window.n_active):
        node = clock.active[i]
        if node < net.n_hosts:
            for p in ports_of(net, node):
                sent += publish_port(net, links, clock, p)
        else:
            out = next_port(net, links.dirty_ports, node, NO_PORT)
            while out >= 0:
                sent += publish_port(net, links, clock, net.first_port[node] + out)
                out = next_port(net, links.dirty_ports, node, out)
            empty(net, links.dirty_ports, node)
    window.hops += sent


def publish_port(net: Net, links: LinkState, clock: Clock, p: GlobalPort) -> int:
    """Publish what port ``p`` sent; return the number of packets."""
    first = links.first_new[p]
    if first == INF:
        return 0
    links.first_new[p] = INF
    peer = net.port_peer[p]
    reader = links.readers[peer]
    tail = links.ports[p].tail
    sent = tail - reader.tail
    if REORDERS:
        sent -= sort_new(links, reader, tail)
    reader.tail = tail
    to = net.port_node[peer]
    expect(clock, to, first)
    if to >= net.n_hosts:
        include(links.unread, net.first_word[to], peer - net.first_port[to])
    return sent


def collect(net: Net, hosts: HostState, clock: Clock) -> None:
    """Count what hosts delivered and finished, and start the flows elsewhere that waited for it.

    A released flow starts one lookahead (plus its own delay) after the last delivery
    that it waited for: never inside the window that has just been simulated.
    """
    window = clock.clock[0]
    for i in range(window.n_active):
        node = clock.active[i]
        if node >= net.n_hosts:
            continue
        for nic in nics_of(hosts, HostId(node)):
            host = hosts.nics[nic]
            window.delivered += host.delivered
            window.finished += host.finished
            window.payload_bytes += host.payload_bytes - host.counted_bytes
            host.delivered = 0
            host.finished = 0
            host.counted_bytes = host.payload_bytes
            window.last_done_ps = max(window.last_done_ps, host.last_done_ps)
            if TASKS:
                window.tasks_done += host.tasks_done
                host.tasks_done = 0
            if PROGRAM:
                own = hosts.program_hosts[host.host]
                window.under_way += own.under_way
                window.expected += own.begun_flows
                own.under_way = 0
                own.begun_flows = 0
            release(hosts, clock, host)


def release(hosts: HostState, clock: Clock, host: HostRecord) -> None:
    """Start the flows for which a NIC delivered the last flow they waited for."""
    while host.done_head >= 0:
        rx = hosts.rx[host.done_head]
        host.done_head = rx.next_done
        rx.next_done = clock.clock[0].last_delivered  # other parts may wait for it (`Cut`)
        clock.clock[0].last_delivered = rx.flow
        if PHASE_DRIVEN:
            note_delivery(hosts, clock, rx)
        release_followers(hosts, clock, rx)


def release_followers(hosts: HostState, clock: Clock, rx: RxRecord) -> None:
    """Start the flows for which a delivered flow is the last that they waited for."""
    for j in range(hosts.next_flow[rx.flow], hosts.next_flow[FlowId(rx.flow + 1)]):
        tx = hosts.tx[hosts.next_flows[j]]
        tx.waits_for -= 1
        tx.ready_from = max(tx.ready_from, rx.done_ps)
        if tx.waits_for == 0:
            tx.start_ps += tx.ready_from + clock.clock[0].lookahead_ps
            source = hosts.nics[nic_of(hosts, tx)]
            arm(hosts.timers, hosts.heap, source, start_timer(tx), tx.start_ps)
            expect(clock, tx.host, tx.start_ps)


def all_done(window: ClockRecord, goal: Goal) -> bool:
    """Return whether every flow is delivered and finished, and every task done. With a program,
    only started flows and tasks count, and none of its timers may be set."""
    started = 0
    if PROGRAM:
        if window.under_way > 0:
            return False
        started = window.expected
    if window.delivered < started + goal.delivered or window.finished < started + goal.finished:
        return False
    return window.tasks_done >= goal.tasks_done


def note_returns(clock: Clock, beyond: Beyond) -> None:
    """Note when other parts may answer the packets sent to them, and hand the packets over."""
    window = clock.clock[0]
    for k in range(beyond.nodes.shape[0]):
        node = beyond.nodes[k]
        arrival = clock.next_event[node]
        if arrival < INF:
            window.returns_ps = min(window.returns_ps, arrival + beyond.back_ps[k])
            forget_event(clock, node)


def run_windows(
    net: Net,
    links: LinkState,
    hosts: HostState,
    clock: Clock,
    crew: Crew,
    scratch: Scratch,
    limits: Limits,
    worker: int,
) -> int:
    """Simulate windows, up to the limits. Workers other than the first assist.

    Return RUNNING, DONE (`all_done`), IDLE (no events left), TIME_LIMIT, or what to do before the
    next call: NEEDS_GROWTH (a node's status is not OK, or the pool is full) or NEEDS_THINNING
    (series have no room for the next window).
    """
    if worker > 0:
        assist(net, links, hosts, clock, crew, scratch, worker)
        return RUNNING
    window = clock.clock[0]
    if PROFILE:
        lap(clock.parts[0])
    if PHASE_DRIVEN:
        if window.windows == 0:
            start_reconfigurations(net, links, clock)  # for phases without flows
    for _ in range(limits.n_windows):
        if window.resume == 0:
            until = min(limits.until_ps, window.returns_ps)
            is_done = limits.stop_when_done and all_done(window, limits.goal)
            if is_done:
                until = min(until, window.last_done_ps + window.ending_ps)
            if not find_active(clock):
                if not is_done:
                    return IDLE
                window.w0 = until
                window.w1 = until
            window.w1 = min(window.w1, until)
            if HAS_SERIES:
                if window.w1 > links.series_clock[0].end_ps:
                    return NEEDS_THINNING
            if window.w0 >= until:
                return DONE if is_done else TIME_LIMIT
        if PROFILE:
            step_apart(net, links, hosts, clock, scratch)
        else:
            step_all(net, links, hosts, clock, crew, scratch, limits.shared_ns)
        window.resume = 0
        for i in range(window.n_active):
            if clock.status[clock.active[i]] != OK:
                window.resume = 1
        if window.resume == 1 or links.pool_full[0] == 1:
            return NEEDS_GROWTH
        publish(net, links, clock)
        collect(net, hosts, clock)
        if PHASE_DRIVEN:
            start_reconfigurations(net, links, clock)
        note_next_events(clock)
        window.windows += 1
        if limits.beyond.nodes.shape[0] > 0:
            note_returns(clock, limits.beyond)
        if PROFILE:
            parts = clock.parts[0]
            parts.publish_ns += lap(parts)
        if limits.beyond.tells and window.last_delivered >= 0:
            return RUNNING
        if TRACE:
            if half_full(links.trace):
                return RUNNING
        if read_clock_ns() >= limits.until_ns:
            return RUNNING
    return RUNNING


def check_set_up(env: Env, p: GlobalPort) -> None:
    """Check packets that a transport queued at port ``p`` before the run; make room for more."""
    check_control(env, p)
    make_room_for_control(env.links, env.host.worker, env.hosts.host_ports[p])


def check_set_up_ports(env: Env, tx: TxRecord) -> None:
    """Call `check_set_up` for all ports of a flow."""
    if PLANE_BALANCING == ONE_PORT:
        check_set_up(env, env.host.port)
    else:
        port_choice = env.hosts.port_choices[tx.port_choice]
        for port_pair in range(
            port_choice.first_pair, port_choice.first_pair + port_choice.n_pairs
        ):
            check_set_up(env, GlobalPort(env.hosts.port_pairs[port_pair, 0]))


def set_up_flow(hosts: HostState, links: LinkState, flow: FlowId) -> bool:
    """Let the transport initialize both sides of a flow; False if it breaks a rule."""
    tx = hosts.tx[flow]
    host = hosts.nics[nic_of(hosts, tx)]
    env = env_of(host, hosts.pars[0].transport0, hosts, links)
    check_set_up_ports(env, tx)
    host.handler = IN_SETUP
    setup(env, tx, hosts.rx[flow])
    check_set_up_ports(env, tx)
    if host.rule_broken != 0:
        return False
    host.handler = NOTHING
    return True


def set_up_flows(hosts: HostState, links: LinkState, clock: Clock) -> None:
    """Set up every flow before the run, up to the first that breaks a rule."""
    for flow in span(FlowId(0), FlowId(hosts.tx.shape[0])):
        clock.status[NodeId(0)] = flow  # for the watchdog
        if hosts.tx[flow].ps_per_byte_q20 == 0:  # set up in another part
            continue
        if not set_up_flow(hosts, links, flow):
            return


# --- packets between parts of the network in different processes ----------------------------------


class Cut(NamedTuple):
    """The links between a part and others, part by part in the order of ports.

    Every part has arrays for the whole network. It steps its own nodes only: others have no next
    event. A link that enters or leaves the part has two chains of packets: the sender's part
    empties its own when it hands the packets over, and the receiver's part appends them to the
    other.
    """

    own: Numbers[NodeId, int]  # int64[n_nodes]: 1 if the node belongs to this part
    outgoing: Numbers[int, GlobalPort]  # int64[...]: own ports ...
    sent: Numbers[int, int]  # int64[...]: ... and packets that they sent
    incoming: Numbers[int, GlobalPort]  # int64[...]: other parts' ports ...
    received: Numbers[int, int]  # int64[...]: ... and packets that they sent
    outbox: Records[int, PacketRecord]  # packets sent, link after link ...
    inbox: Records[int, PacketRecord]  # ... and received
    flows: Numbers[int, FlowId]  # int64[...]: flows delivered, for others


def hand_over(net: Net, links: LinkState, cut: Cut) -> int:
    """Move the packets of outgoing links to the outbox. Return their number, negated if the outbox
    has too little room."""
    n = 0
    for k in range(cut.outgoing.shape[0]):
        reader = links.readers[net.port_peer[cut.outgoing[k]]]
        cut.sent[k] = reader.tail - reader.head
        n += cut.sent[k]
    if n > cut.outbox.shape[0]:
        return -n
    n = 0
    for k in range(cut.outgoing.shape[0]):
        if k + 1 < cut.outgoing.shape[0]:
            prefetch_link(links, links.readers[net.port_peer[cut.outgoing[k + 1]]])
        reader = links.readers[net.port_peer[cut.outgoing[k]]]
        while reader.head < reader.tail:
            slot = first_slot(links, 0, reader)
            some = min(reader.tail, reader.block_end) - reader.head
            for i in range(some):
                cut.outbox[n + i] = links.pool[slot + i]
            reader.head += some
            n += some
    return n


def take_over(net: Net, links: LinkState, clock: Clock, cut: Cut) -> None:
    """Append the packets of the inbox to incoming links, and publish them."""
    n = 0
    for k in range(cut.incoming.shape[0]):
        if cut.received[k] == 0:
            continue
        port = links.ports[cut.incoming[k]]
        peer = net.port_peer[cut.incoming[k]]
        to = net.port_node[peer]
        expect(clock, to, cut.inbox[n].time)
        last = n + cut.received[k]
        while n < last:
            slot = next_slot(links, 0, port)
            some = min(last - n, port.block_end - port.tail)
            for i in range(some):
                links.pool[slot + i] = cut.inbox[n + i]
            port.tail += some
            n += some
        links.readers[peer].tail = port.tail
        if to >= net.n_hosts:
            include(links.unread, net.first_word[to], peer - net.first_port[to])


def list_delivered(hosts: HostState, clock: Clock, cut: Cut) -> int:
    """List delivered flows that other parts may wait for; return their number."""
    window = clock.clock[0]
    n = 0
    flow = window.last_delivered
    window.last_delivered = NO_FLOW
    while flow >= 0:
        rx = hosts.rx[flow]
        waits = False
        if PHASE_DRIVEN:
            waits = hosts.phase[flow] >= 0
        for j in range(hosts.next_flow[flow], hosts.next_flow[FlowId(flow + 1)]):
            host = hosts.tx[hosts.next_flows[j]].host
            if cut.own[host] == 0:
                waits = True
                forget_event(clock, host)
        if waits:
            cut.flows[n] = flow
            n += 1
        flow = rx.next_done
    return n


def note_delivered(
    net: Net,
    links: LinkState,
    hosts: HostState,
    clock: Clock,
    cut: Cut,
    delivered: Numbers[tuple[int, int], int],
) -> None:
    """Start own flows that waited for flows delivered elsewhere. ``delivered`` has the number of
    each flow and its time of delivery."""
    for i in range(delivered.shape[0]):
        rx = hosts.rx[FlowId(delivered[i, 0])]
        rx.done_ps = Ps(delivered[i, 1])
        if PHASE_DRIVEN:
            note_delivery(hosts, clock, rx)
        release_followers(hosts, clock, rx)
        for j in range(hosts.next_flow[rx.flow], hosts.next_flow[FlowId(rx.flow + 1)]):
            host = hosts.tx[hosts.next_flows[j]].host
            if cut.own[host] == 0:
                forget_event(clock, host)
    if PHASE_DRIVEN:
        start_reconfigurations(net, links, clock)
        for node in span(NodeId(0), NodeId(cut.own.shape[0])):
            if cut.own[node] == 0:
                forget_event(clock, node)


ENTRY_POINTS = (
    *(run_windows, set_up_flows),
    *(hand_over, take_over, list_delivered, note_delivered),
)
