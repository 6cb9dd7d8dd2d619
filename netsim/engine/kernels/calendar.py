"""One step of a coupled switch, and the calendar of the completions in it.

The calendar is an array of time slots. A port has at most one entry; the ports of a slot
are a list in the order of (time, port).
"""

from __future__ import annotations

from typing import NamedTuple

from netsim.engine.kernels.ids import NO_PORT, GlobalPort, LocalPort, NodeId, Numbers, Ps
from netsim.engine.kernels.indexing import WAITS, include
from netsim.engine.kernels.instructions import lowest_bit
from netsim.engine.kernels.layout import N_BUCKETS, Clock, LinkState, Net, Scratch
from netsim.engine.kernels.ports import has_event

WORD = 32


class Step(NamedTuple):
    """The switch and the window of one step, and the calendar of completions in it."""

    node: NodeId
    first: GlobalPort  # the switch's first port
    first_word: int  # of its sets of ports
    w0: Ps
    w1: Ps
    shift: int  # (time - w0) >> shift is a slot of the calendar
    heads: Numbers[int, LocalPort]  # int64[N_BUCKETS]: first port of each slot
    next_in_bucket: Numbers[
        LocalPort, LocalPort
    ]  # int64[ports]: the port behind a port in its slot
    words: Numbers[int, int]  # int64[N_BUCKETS / 32]: a bit for each slot that is not empty


def open_step(net: Net, clock: Clock, scratch: Scratch, worker: int, node: NodeId) -> Step:
    """A step with an empty calendar, in the worker's scratch."""
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
    )


def calendar_add(links: LinkState, step: Step, out: LocalPort) -> None:
    """Enter the completion of local port ``out``, in the order of (time, port)."""
    at = links.ports[step.first + out].free_at
    entry = (at - step.w0) >> step.shift
    heads = step.heads
    next_in_bucket = step.next_in_bucket
    words = step.words
    bit = 1 << (entry & (WORD - 1))
    if words[entry // WORD] & bit == 0:
        words[entry // WORD] |= bit
        heads[entry] = out
        next_in_bucket[out] = NO_PORT
        return
    before = NO_PORT
    other = heads[entry]
    while other >= 0:
        time = links.ports[step.first + other].free_at
        if time > at or (time == at and other > out):
            break
        before = other
        other = next_in_bucket[other]
    next_in_bucket[out] = other
    if before < 0:
        heads[entry] = out
    else:
        next_in_bucket[before] = out


def calendar_first(step: Step, word: int) -> int:
    """The earliest time slot with an entry, looking from ``word`` on, or -1."""
    words = step.words
    while word < N_BUCKETS // WORD:
        bits = words[word]
        if bits != 0:
            return word * WORD + lowest_bit(bits)
        word += 1
    return -1


def calendar_take(step: Step, entry: int) -> LocalPort:
    """Remove the first port of time slot ``entry``."""
    heads = step.heads
    out = heads[entry]
    following = step.next_in_bucket[out]
    heads[entry] = following
    if following < 0:
        step.words[entry // WORD] &= ~(1 << (entry & (WORD - 1)))
    return out


def calendar_remove(links: LinkState, step: Step, out: LocalPort) -> None:
    """Remove local port ``out``, which has an entry, from wherever it is."""
    entry = (links.ports[step.first + out].free_at - step.w0) >> step.shift
    if step.heads[entry] == out:
        calendar_take(step, entry)
        return
    before = step.heads[entry]
    while step.next_in_bucket[before] != out:
        before = step.next_in_bucket[before]
    step.next_in_bucket[before] = step.next_in_bucket[out]


def note_event(links: LinkState, step: Step, out: LocalPort) -> None:
    """Note that something is to happen at local port ``out``, if it is; in this window, when."""
    port = links.ports[step.first + out]
    include(links.busy, step.first_word, out)
    if has_event(port) and port.free_at < step.w1:
        calendar_add(links, step, out)


def cancel_wakeup(links: LinkState, step: Step, out: LocalPort) -> None:
    """Local port ``out``, which is idle, is not looked at again."""
    port = links.ports[step.first + out]
    if port.tx_class == WAITS:
        if port.free_at < step.w1:
            calendar_remove(links, step, out)
        port.tx_class = 0
