"""The workers of a window: each steps its own nodes, then what others have left.

Worker 0 runs all windows, and the serial part between them. If a window is long enough, it deals a
list of active nodes to every worker. A worker takes nodes from the end of its own list, and then
from the start of others' lists; what is left of a list is one number, lowered and read in one
instruction. A window ends when all its nodes are stepped. So a thread that the system does not run
delays others by the nodes it has taken only, and no thread waits for one that has taken none.
"""

from __future__ import annotations

from netsim.engine.kernels.host import host_step
from netsim.engine.kernels.ids import HostId, NodeId
from netsim.engine.kernels.instructions import (
    read_clock_ns,
    read_shared,
    sleep_ns,
    take_tickets,
    write_shared,
)
from netsim.engine.kernels.layout import OK, Clock, Crew, HostState, LinkState, Net, Scratch
from netsim.engine.kernels.specialization_constants import TRACE, switch_step

SHARED_NS = 30_000
"""Expected duration for one worker from which a window is shared: to hand nodes and their memory to
other cores takes about a third of it."""

ALONE_NS = 1 << 40  # likewise, in a call with one worker

OWN_BATCHES, OTHER_BATCHES = 32, 4
"""A worker takes one in so many of the nodes left, of its own list or another's. It takes several
at once because neighbors in a list share cache lines."""

SHIFT = 32
LOW = (1 << SHIFT) - 1
"""What is left of a list: end << SHIFT | start. Nothing is, if the end is not above the start."""

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
    window than the one before, but nobody else has them."""
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
