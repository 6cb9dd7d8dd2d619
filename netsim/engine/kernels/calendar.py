"""When a switch's ports act next: within a window, and after it.

A coupled switch keeps completions within a window in a calendar: an array of buckets by time, each
a list of ports in the order of (time, port), with at most one entry per port. Their times are kept
next to the lists, so that no comparison waits for a port's record.

With `PORT_WAKEUPS`, a port that waits for a time after the window is suspended: a rack with a
hundred circuits has packets for all, but few circuits are up. The switch keeps the earliest wakeup
of its suspended ports, and visits them only then.
"""

from __future__ import annotations

from typing import NamedTuple

from netsim.engine.kernels.fields import PortRecord, SwitchRecord
from netsim.engine.kernels.ids import NO_PORT, GlobalPort, LocalPort, NodeId, Numbers, Ps
from netsim.engine.kernels.indexing import WAITS, exclude, include, next_port
from netsim.engine.kernels.instructions import lowest_bit
from netsim.engine.kernels.layout import INF, N_BUCKETS, Clock, LinkState, Net, Scratch
from netsim.engine.kernels.ports import has_event

WORD = 32


class Step(NamedTuple):
    """Switch, window and calendar of one step."""

    node: NodeId
    first: GlobalPort  # the switch's first port
    first_word: int  # first word of its port sets
    w0: Ps
    w1: Ps
    shift: int  # (time - w0) >> shift is a bucket of the calendar
    heads: Numbers[int, LocalPort]  # int64[N_BUCKETS]: first port of each bucket
    next_in_bucket: Numbers[LocalPort, LocalPort]  # int64[ports]: the next port in the same bucket
    words: Numbers[int, int]  # int64[N_BUCKETS / 32]: a bit for each nonempty bucket
    due: Numbers[LocalPort, Ps]  # int64[ports]: when a port that is in a list completes


def open_step(net: Net, clock: Clock, scratch: Scratch, worker: int, node: NodeId) -> Step:
    """Return a step with an empty calendar."""
    w0 = clock.clock[0].w0
    w1 = clock.clock[0].w1
    shift = 0
    while ((w1 - w0) >> shift) >= N_BUCKETS:
        shift += 1
    words = scratch.words[worker]
    words[:] = 0
    heads = scratch.calendar[worker]
    return Step(
        node,
        net.first_port[node],
        net.first_word[node],
        w0,
        w1,
        shift,
        heads,
        scratch.next_in_bucket[worker],
        words,
        scratch.due[worker],
    )


def calendar_add(step: Step, out: LocalPort, at: Ps) -> None:
    """Add the completion of local port ``out`` in the order of (time, port)."""
    entry = (at - step.w0) >> step.shift
    heads = step.heads
    next_in_bucket = step.next_in_bucket
    words = step.words
    step.due[out] = at
    bit = 1 << (entry & (WORD - 1))
    if words[entry // WORD] & bit == 0:
        words[entry // WORD] |= bit
        heads[entry] = out
        next_in_bucket[out] = NO_PORT
        return
    before = NO_PORT
    other = heads[entry]
    while other >= 0 and is_before(step, other, out):
        before = other
        other = next_in_bucket[other]
    next_in_bucket[out] = other
    if before < 0:
        heads[entry] = out
    else:
        next_in_bucket[before] = out


def is_before(step: Step, one: LocalPort, other: LocalPort) -> bool:
    """Return whether port ``one`` completes before ``other``; at one time the lower does."""
    if step.due[one] == step.due[other]:
        return one < other
    return step.due[one] < step.due[other]


def earlier(step: Step, one: LocalPort, other: LocalPort) -> LocalPort:
    """Return the port that completes first; ``other`` may be NO_PORT."""
    if other < 0 or is_before(step, one, other):
        return one
    return other


def calendar_first(step: Step, now: Ps) -> LocalPort:
    """Return the port that completes first, or NO_PORT. None does before ``now``."""
    words = step.words
    word = ((now - step.w0) >> step.shift) // WORD
    while word < N_BUCKETS // WORD:
        bits = words[word]
        if bits != 0:
            return step.heads[word * WORD + lowest_bit(bits)]
        word += 1
    return NO_PORT


def calendar_remove(step: Step, out: LocalPort) -> None:
    """Remove the entry of local port ``out``."""
    entry = (step.due[out] - step.w0) >> step.shift
    following = step.next_in_bucket[out]
    before = step.heads[entry]
    if before == out:
        step.heads[entry] = following
        if following < 0:
            step.words[entry // WORD] &= ~(1 << (entry & (WORD - 1)))
        return
    while step.next_in_bucket[before] != out:
        before = step.next_in_bucket[before]
    step.next_in_bucket[before] = following


def note_event(links: LinkState, step: Step, out: LocalPort) -> bool:
    """Schedule the next event of local port ``out`` if it is in this window; return whether it
    is."""
    port = links.ports[step.first + out]
    include(links.busy, step.first_word, out)
    if has_event(port) and port.free_at < step.w1:
        calendar_add(step, out, port.free_at)
        return True
    return False


def cancel_wakeup(links: LinkState, step: Step, out: LocalPort) -> None:
    """Cancel the wakeup of local port ``out``, which is idle."""
    port = links.ports[step.first + out]
    if port.tx_class == WAITS:
        if port.free_at < step.w1:
            calendar_remove(step, out)
        port.tx_class = 0


def resume_ports(net: Net, links: LinkState, node: NodeId, w1: Ps) -> None:
    """Resume the ports of switch ``node`` whose wakeup is before ``w1``."""
    switch = links.switches[node - net.n_hosts]
    if switch.next_wakeup_ps >= w1:
        return
    first_word = net.first_word[node]
    earliest = INF
    out = next_port(net, links.waiting_ports, node, NO_PORT)
    while out >= 0:
        port = links.ports[net.first_port[node] + out]
        if port.tx_class != WAITS:  # active again, or nothing to wait for
            exclude(links.waiting_ports, first_word, out)
        elif port.free_at < w1:
            exclude(links.waiting_ports, first_word, out)
            include(links.busy, first_word, out)
        else:
            earliest = min(earliest, port.free_at)
        out = next_port(net, links.waiting_ports, node, out)
    switch.next_wakeup_ps = earliest


def suspend_port(
    links: LinkState, switch: SwitchRecord, port: PortRecord, out: LocalPort, w1: Ps
) -> bool:
    """Suspend port ``out`` if it waits for a time from ``w1`` on; return whether it was."""
    if port.tx_class != WAITS or port.free_at < w1:
        return False
    include(links.waiting_ports, switch.first_word, out)
    exclude(links.busy, switch.first_word, out)
    switch.next_wakeup_ps = min(switch.next_wakeup_ps, port.free_at)
    return True
