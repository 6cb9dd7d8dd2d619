"""Transmission on a link, by hosts and switches; faults (`FAULTS`) and circuits (`CIRCUITS`).

A port's transmissions start in time order, so its position in its intervals, outages and days
only moves forward.
"""

from __future__ import annotations

from netsim.engine.kernels.fields import PortRecord, QueueRecord
from netsim.engine.kernels.ids import Bytes, GlobalPort, Ps, Slot
from netsim.engine.kernels.indexing import WAITS, queue_of
from netsim.engine.kernels.layout import INF, LinkState
from netsim.engine.kernels.specialization_constants import CIRCUITS, FAULTS, PHASE_DRIVEN, TRACE
from netsim.engine.kernels.trace import LOST, trace_packet
from netsim.limits import HORIZON_PS
from netsim.model.arithmetic import PURPOSE_LOSS, rand32, send_time


def end_of_transmission(links: LinkState, port: PortRecord, size: Bytes, now: Ps) -> Ps:
    """Return when a transmission of ``size`` bytes ends that starts now."""
    if FAULTS:
        renew_link(links, port, port.number, now)
    return now + send_time(size, port.ps_per_byte_q20)


def depart(
    links: LinkState,
    port: PortRecord,
    queue: QueueRecord,
    cls: int,
    slot: Slot,
    size: Bytes,
    now: Ps,
    end: Ps,
) -> None:
    """Transmit the packet in ``slot``, past the end of the link, until ``end``: count it and append
    it to the link, unless it is lost."""
    arrives = True
    if CIRCUITS:
        arrives = not misses_circuit(links, port.number, cls, size, now, end)
    if FAULTS:
        if arrives:
            arrival = links.pool[slot].time
            arrives = not lost_on_wire(links, port.number, cls, size, now, arrival)
    if arrives:
        append(links, port, links.pool[slot].time)
    elif TRACE:
        trace_packet(links, LOST, port.number, slot, now, queue.bytes)
    port.free_at = end
    queue.sent_packets += 1
    queue.sent_bytes += size


def append(links: LinkState, port: PortRecord, arrival: Ps) -> None:
    """Append the packet in the next slot to a port's link, where it arrives at ``arrival``."""
    if links.first_new[port.number] == INF:
        links.first_new[port.number] = arrival
    port.tail += 1


def renew_link(links: LinkState, port: PortRecord, p: GlobalPort, now: Ps) -> None:
    """Update the rate and loss probability of port ``p``'s link to those in force at ``now``."""
    fault = links.faults[p]
    after = fault.interval + 1
    while after < fault.last_interval and links.fault_intervals[after].start_ps <= now:
        fault.interval = after
        interval = links.fault_intervals[after]
        after += 1
        fault.profile = interval.profile
        port.ps_per_byte_q20 = interval.ps_per_byte_q20


def lost_on_wire(
    links: LinkState, p: GlobalPort, cls: int, size: Bytes, begin: Ps, arrival: Ps
) -> bool:
    """Return whether the link of port ``p`` loses a packet; count the loss. It does if it is down
    between ``begin`` and ``arrival``; otherwise a random draw decides."""
    fault = links.faults[p]
    while fault.outage < fault.last_outage and links.outages[fault.outage, 1] <= begin:
        fault.outage += 1
    lost = fault.outage < fault.last_outage and links.outages[fault.outage, 0] < arrival
    chance = links.loss_table[fault.profile, size]
    if not lost and chance > 0:
        lost = rand32(links.fabric[0].seed, PURPOSE_LOSS, int(p), fault.draws) < chance
        fault.draws += 1
    if lost:
        loss = links.losses[queue_of(p, cls)]
        loss.packets += 1
        loss.bytes += size
    return lost


def next_day(links: LinkState, first: int, last: int, period: Ps, now: Ps) -> tuple[Ps, Ps]:
    """Return the day in rows ``first`` to ``last`` of `days` that first ends after ``now``. The
    rows repeat with ``period``; without rows both times are INF."""
    if first == last:
        return INF, INF
    row, past = first_ending(links, first, last, period, now)
    return links.days[row, 0] + past, links.days[row, 1] + past


def first_ending(links: LinkState, first: int, last: int, period: Ps, now: Ps) -> tuple[int, Ps]:
    """Return that row and the whole periods to add to its times."""
    days = links.days
    # First period whose last day ends after now, and the first such day in it.
    past = ((now - days[last - 1, 1]) // period + 1) * period
    lo = first
    hi = last - 1
    while lo < hi:
        middle = (lo + hi) >> 1
        if days[middle, 1] + past > now:
            hi = middle
        else:
            lo = middle + 1
    return lo, Ps(past)


def may_start(links: LinkState, port: PortRecord, now: Ps) -> bool:
    """Return whether a port's circuit lets it start; if not, ``opens_ps`` is when it will."""
    circuit = links.circuits[port.number]
    if now >= circuit.closes_ps:
        circuit.opens_ps, circuit.closes_ps = next_day(
            links, circuit.first_start, circuit.last_start, circuit.period_ps, now
        )
    return now >= circuit.opens_ps


def waits_for_circuit(links: LinkState, port: PortRecord, now: Ps) -> bool:
    """Return whether an idle port waits for its circuit; schedule its wakeup."""
    if port.backlog & ~port.paused == 0 or may_start(links, port, now):
        return False
    opens_ps = links.circuits[port.number].opens_ps
    port.tx_class = 0
    if opens_ps < HORIZON_PS:
        port.free_at = opens_ps
        port.tx_class = WAITS
    elif PHASE_DRIVEN:  # a day may still be added (windows.py)
        port.free_at = INF
        port.tx_class = WAITS
    return True


def misses_circuit(
    links: LinkState, p: GlobalPort, cls: int, size: Bytes, begin: Ps, end: Ps
) -> bool:
    """Return whether a packet sent from ``begin`` to ``end`` meets no circuit; count it."""
    circuit = links.circuits[p]
    if begin >= circuit.down_ps:
        circuit.up_ps, circuit.down_ps = next_day(
            links, circuit.first_up, circuit.last_up, circuit.period_ps, begin
        )
    if circuit.up_ps <= begin and end <= circuit.down_ps:
        return False
    loss = links.losses[queue_of(p, cls)]
    loss.packets += 1
    loss.bytes += size
    loss.no_circuit_packets += 1
    loss.no_circuit_bytes += size
    return True
