"""The loop over windows: find and step active nodes, then publish what they sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from netsim.engine.kernels.crew import assist, step, step_all
from netsim.engine.kernels.env import Env, env_of
from netsim.engine.kernels.fields import (
    ClockRecord,
    HostRecord,
    RxRecord,
    StageTimesRecord,
    TxRecord,
)
from netsim.engine.kernels.handlers import IN_SETUP, NOTHING
from netsim.engine.kernels.ids import (
    NO_PORT,
    FlowId,
    GlobalPort,
    HostId,
    NodeId,
    Numbers,
    Ps,
    Records,
    span,
)
from netsim.engine.kernels.indexing import (
    empty,
    include,
    next_port,
    nic_of,
    nics_of,
    ports_of,
)
from netsim.engine.kernels.instructions import read_clock_ns
from netsim.engine.kernels.layout import (
    DONE,
    IDLE,
    INF,
    NEEDS_GROWTH,
    NEEDS_THINNING,
    OK,
    ONE_PORT,
    RUNNING,
    TIME_LIMIT,
    Clock,
    Crew,
    HostState,
    LinkState,
    Net,
    Scratch,
)
from netsim.engine.kernels.nic import check_control, make_room_for_control
from netsim.engine.kernels.rings import share_blocks
from netsim.engine.kernels.specialization_constants import (
    HAS_SERIES,
    PHASE_DRIVEN,
    PLANE_BALANCING,
    PROFILE,
    PROGRAM,
    TASKS,
    TRACE,
    setup,
)
from netsim.engine.kernels.timers import arm, start_timer
from netsim.engine.kernels.trace import half_full
from netsim.engine.kernels.windows import (
    expect,
    find_active,
    forget_event,
    note_delivery,
    note_next_events,
    start_reconfigurations,
)


@dataclass(frozen=True)
class WindowTimes:
    """Seconds per stage over all windows, and nodes stepped."""

    find_s: float
    """Find the next window and its active nodes."""
    switches_s: float
    hosts_s: float
    publish_s: float
    """Publish what was sent, count deliveries, release flows."""
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
    """What the clock has counted when all is done. With a program, `delivered` and `finished` are
    relative to the flows that have started."""

    delivered: int
    finished: int
    tasks_done: int


class Beyond(NamedTuple):
    """Other parts of the network (cut.py), if this is one."""

    nodes: Numbers[int, NodeId]  # int64[...]: their nodes at the ends of own links
    back_ps: Numbers[int, Ps]  # int64[...]: from an arrival there until what it causes arrives here
    tells: bool  # others may wait for deliveries


class Limits(NamedTuple):
    """Conditions that end a call."""

    n_windows: int
    until_ps: Ps  # windows start and end before it
    until_ns: int  # on the clock; but a call has at least one window
    shared_ns: int  # expected duration from which a window is shared (crew.py)
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
    """Publish what the active nodes sent."""
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
    reader.tail = tail
    to = net.port_node[peer]
    expect(clock, to, first)
    if to >= net.n_hosts:
        include(links.unread, net.first_word[to], peer - net.first_port[to])
    return sent


def collect(net: Net, hosts: HostState, clock: Clock) -> None:
    """Count what hosts delivered and finished, and start the flows that waited for it elsewhere.

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
        rx.next_done = clock.clock[0].last_delivered  # other parts may wait for it (cut.py)
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
    only what has started counts, and no timer of its own may be set."""
    started = 0
    if PROGRAM:
        if window.under_way > 0:
            return False
        started = window.expected
    if window.delivered < started + goal.delivered or window.finished < started + goal.finished:
        return False
    return window.tasks_done >= goal.tasks_done


def note_returns(clock: Clock, beyond: Beyond) -> None:
    """Note when other parts may answer what was sent to them, and leave it to them."""
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
    """Simulate windows, up to the limits. Other workers than the first assist.

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
    """Check the packets that a transport queued at port ``p`` before the run; make room for
    more."""
    check_control(env, p)
    make_room_for_control(env.links, env.host.worker, env.hosts.host_ports[p])


def check_set_up_ports(env: Env, tx: TxRecord) -> None:
    """Do so at all ports of a flow."""
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
