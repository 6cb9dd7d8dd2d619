"""Time series of queues, hosts and flows (`HAS_SERIES`).

A queue is sampled before its bytes (`change`) or counters (`close_until`) change, a host before the
first event of an interval (`look_at_host`), so past intervals need no separate events. Samples
are counters at an interval's end, and the largest queue within it, so that intervals can be merged
by dropping every second one.
"""

from __future__ import annotations

from netsim.engine.kernels.fields import Bytes, FlowId, GlobalPort, HostId, LevelRecord, NicId, Ps
from netsim.engine.kernels.instructions import bit_length, word_of
from netsim.engine.kernels.layout import HostState, LinkState, queue_of
from netsim.engine.kernels.specialization_constants import HISTOGRAM, N_CLASSES

AREA_BITS = 24
AREA_MASK = (1 << AREA_BITS) - 1  # integral of bytes over ps: ``area_high << AREA_BITS | area_low``
MAX_PS = 1 << 33  # longest time that, times 2**30 bytes, fits an int64

EXACT_BITS = 5
STEP_BITS = 4
BINS = 512
"""Levels below 2**EXACT_BITS bytes have a bin each; above, 2**STEP_BITS bins share each power of
two, and the last bin has all larger levels."""

BINS_APART = BINS + 8  # bins from one queue to the next; no power of two: no shared cache lines
NIC, SENDER, RECEIVER = range(3)  # kinds of watched records: a host's NICs, and both sides of flows


def bin_of(held: int) -> int:
    """Return the bin of a level of ``held`` bytes."""
    if held < 1 << EXACT_BITS:
        return held
    power = bit_length(held) - 1
    step = (held >> (power - STEP_BITS)) - (1 << STEP_BITS)
    return min(BINS - 1, (1 << EXACT_BITS) + ((power - EXACT_BITS) << STEP_BITS) + step)


def fold(links: LinkState, level: LevelRecord, held: Bytes, now: Ps) -> None:
    """Update a queue's integral to now; it held ``held`` bytes until now."""
    duration = now - level.since_ps
    area = level.area_low + held * (duration & AREA_MASK) - level.moment
    level.area_high += held * (duration >> AREA_BITS) + (area >> AREA_BITS)
    level.area_low = area & AREA_MASK
    if HISTOGRAM:
        links.level_times[level.first_bin + bin_of(held)] += duration
    level.since_ps = now
    level.moment = 0


def close_interval(links: LinkState, level: LevelRecord, p: GlobalPort, cls: int) -> None:
    """Write a queue's sample for the interval that ends at ``due_ps`` and begin the next."""
    clock = links.series_clock[0]
    queue = links.queues[queue_of(p, cls)]
    at = level.due_ps
    fold(links, level, queue.bytes, at)
    sample = links.samples[level.row]
    sample.area_high = level.area_high
    sample.area_low = level.area_low
    sample.max_bytes = level.peak_bytes
    sample.sent_bytes = queue.sent_bytes
    sample.drops = queue.drops
    sample.trims = queue.trims
    sample.ecn_marks = queue.ecn_marks
    sample.paused_ps = paused_until(links, p, cls, at)
    level.peak_bytes = queue.bytes
    level.row += clock.n_rows
    level.due_ps = at + clock.interval_ps


def paused_until(links: LinkState, p: GlobalPort, cls: int, at: Ps) -> Ps:
    """Return how long a class was paused up to ``at``, if it has not changed since then."""
    queue = links.queues[queue_of(p, cls)]
    if (links.ports[p].paused >> cls) & 1 == 1:
        return queue.paused_ps + (at - queue.paused_since)
    return queue.paused_ps


def close_until(links: LinkState, p: GlobalPort, now: Ps) -> None:
    """Write samples of port ``p``'s queues for past intervals, before a counter changes. The
    intervals of all its classes end together."""
    first = links.level_of[p]
    if first >= 0 and links.levels[first].due_ps <= now:
        for cls in range(N_CLASSES):
            level = links.levels[first + cls]
            while level.due_ps <= now:
                close_interval(links, level, p, cls)


def change(links: LinkState, p: GlobalPort, cls: int, size: int, now: Ps) -> None:
    """Record that class ``cls`` of port ``p`` holds ``size`` bytes more from now on (see
    `close_until`).

    Bytes count from their arrival and until their departure, so nothing is integrated at each
    change.
    """
    first = links.level_of[p]
    if first < 0:
        return
    level = links.levels[first + cls]
    held = links.queues[queue_of(p, cls)].bytes
    if HISTOGRAM or now - level.since_ps > MAX_PS:
        fold(links, level, held, now)
    level.moment += size * (now - level.since_ps)
    level.peak_bytes = max(level.peak_bytes, Bytes(held + size))


def look_at_port(links: LinkState, p: GlobalPort, now: Ps) -> None:
    """Write samples of all classes of port ``p``, which a discipline may change without notice."""
    close_until(links, p, now)
    first = links.level_of[p]
    if first >= 0:
        for cls in range(N_CLASSES):
            fold(links, links.levels[first + cls], links.queues[queue_of(p, cls)].bytes, now)


def look_at_host(links: LinkState, hosts: HostState, host: HostId, now: Ps) -> None:
    """Write a host's samples for past intervals, before its next event."""
    while links.series_due[host] <= now:
        copy_watched(links, hosts, host)
        links.series_due[host] += links.series_clock[0].interval_ps


def copy_watched(links: LinkState, hosts: HostState, host: HostId) -> None:
    """Copy the chosen words of every watched record of a host."""
    clock = links.series_clock[0]
    interval = links.series_due[host] // clock.interval_ps - 1
    for entry in range(links.first_watched[host], links.first_watched[HostId(host + 1)]):
        kind = links.watched[entry, 0]
        index = links.watched[entry, 1]
        row = interval * clock.n_watched + entry
        for k in range(links.watched_words.shape[1]):
            word = links.watched_words[kind, k]
            if word >= 0:
                value = 0
                if kind == NIC:
                    value = word_of(hosts.nics, NicId(index), word)
                elif kind == SENDER:
                    value = word_of(hosts.tx, FlowId(index), word)
                else:
                    value = word_of(hosts.rx, FlowId(index), word)
                links.copies[row, k] = value
