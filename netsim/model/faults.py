"""Link faults (random loss, bit errors, reduced rates, outages), and routes that follow failures.

"Links" in `netsim/engine/MODEL.md` has the rules.

When links go down or come back, the network's routing is computed again without the links that are
down. Every switch applies its new row after its own convergence delay. Unchanged rows are not
stored again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress, pairwise

import numpy as np

from netsim.common.memory import require_room
from netsim.errors import InputError
from netsim.frozen import frozen
from netsim.limits import INT64
from netsim.model.columns import Flags, Ints, distinct_columns, offsets, rows_of
from netsim.model.network import Network
from netsim.model.routing import NEVER, NO_ROUTE, RouteChanges, RoutingTable, TableWriter

MAX_SIZE_BYTES = 1 << 16
OUTAGE_BYTES = 60  # memory per outage of a link while all are collected
NOMINAL = 0  # rate that means the link's own rate


@frozen
class CarrierDelays:
    """Delays until a host notices a change of its own port, and of another host's port (`NEVER`:
    not at all)."""

    own_ps: int
    other_ps: int


@frozen(eq=False)
class LinkFaults:
    """Faults of every link, by the port that feeds it.

    Attributes:
        loss_table: int64[profiles, 2**16], probability in units of 2**-32 that a packet of this
            many bytes is lost; below about 1e-10 it is 0.
        interval_ptr: int64[n_ports + 1]. Port p has intervals interval_ptr[p] to interval_ptr[p +
            1], at least one; the first starts at 0, each ends at the next.
        interval_start_ps: int64[k], start of each interval, which applies to transmissions from
            then.
        interval_profile: int64[k], row of `loss_table`.
        interval_rate_bps: int64[k], rate, or NOMINAL.
        outage_ptr: int64[n_ports + 1]. The outages of port p are outage_ptr[p] to outage_ptr[p +
            1].
        outages_ps: int64[k, 2], start and end of each outage, in order for each link. A packet is
            lost if its link is down at any time from the start of its transmission to its arrival.
        routes: routes over time; None if they do not change.
        carrier: when hosts notice loss of carrier; None: never.
    """

    loss_table: np.ndarray
    interval_ptr: np.ndarray
    interval_start_ps: np.ndarray
    interval_profile: np.ndarray
    interval_rate_bps: np.ndarray
    outage_ptr: np.ndarray
    outages_ps: np.ndarray
    routes: RouteChanges | None = None
    carrier: CarrierDelays | None = None

    def fastest_bps(self, network: Network) -> np.ndarray:
        """Return int64[n_ports], the highest rate that each link ever has."""
        own = np.repeat(network.port_rate_bps, np.diff(self.interval_ptr))
        rates = np.where(self.interval_rate_bps == NOMINAL, own, self.interval_rate_bps)
        fastest: np.ndarray = np.maximum.reduceat(rates, self.interval_ptr[:-1])
        return fastest


@frozen
class LinkFault:
    """A fault of some links."""

    ports: np.ndarray  # ports that feed the links
    loss: float = 0.0  # probability that a packet is lost, regardless of its size
    bit_error_rate: float = 0.0  # probability of an error in a bit; packets with an error are lost
    outages_ps: tuple[tuple[int, int], ...] = ()  # (start, end) of outages
    rate_bps: int = NOMINAL  # rate of the links, or NOMINAL
    # at_ps, until_ps: interval in which transmissions are subject to `loss`, `bit_error_rate` and
    # `rate_bps`
    at_ps: int = 0
    until_ps: int = INT64

    @property
    def changes_links(self) -> bool:
        """Whether there are faults other than outages."""
        return self.loss > 0 or self.bit_error_rate > 0 or self.rate_bps != NOMINAL


def combine(
    faults: Sequence[LinkFault], n_ports: int, outages: np.ndarray | None = None
) -> LinkFaults:
    """Return the combined faults of all links.

    Simultaneous losses are independent, the lowest rate applies, and outages add up. Additional
    `outages` are int64[k, 3]: port, start, end. Raises InputError, without a file, if they do not
    fit into memory.
    """
    n_outages = sum(len(fault.outages_ps) * fault.ports.size for fault in faults)
    n_outages += 0 if outages is None else len(outages)
    require_room(n_outages * OUTAGE_BYTES, what=f"{n_outages:,} outages", key="faults")
    rows = [np.zeros((0, 3), np.int64) if outages is None else outages]
    for fault in faults:
        times = np.array(fault.outages_ps, np.int64).reshape(-1, 2)
        rows.append(outages_of(np.unique(fault.ports), times))
    table = np.concatenate(rows)
    table = table[np.lexsort((table[:, 2], table[:, 1], table[:, 0]))]
    changing = [fault for fault in faults if fault.changes_links]
    schedules, which = _schedules(changing, n_ports)
    intervals = [interval for one in schedules for interval in one]
    chances = np.array([(0.0, 0.0), *(row[1:3] for row in intervals)])
    kinds, profile = np.unique(chances, axis=0, return_inverse=True)
    profile = profile.reshape(-1)[1:].astype(np.int64)
    require_room(
        3 * len(kinds) * MAX_SIZE_BYTES * 8, what=f"{len(kinds):,} chances of loss", key="faults"
    )
    lengths = np.array([len(one) for one in schedules])
    begins = np.cumsum(lengths) - lengths
    interval_ptr = offsets(lengths[which])
    index = rows_of(begins[which], lengths[which])
    return LinkFaults(
        loss_table=np.stack([_chances(*kind) for kind in kinds.tolist()]),
        interval_ptr=interval_ptr,
        interval_start_ps=np.array([row[0] for row in intervals], np.int64)[index],
        interval_profile=profile[index],
        interval_rate_bps=np.array([row[3] for row in intervals], np.int64)[index],
        outage_ptr=np.searchsorted(table[:, 0], np.arange(n_ports + 1)).astype(np.int64),
        outages_ps=table[:, 1:].copy() if len(table) else np.zeros((1, 2), np.int64),
    )


def outages_of(ports: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return outages of all `ports` at `times`, int64[n, 2], as rows of (port, start, end)."""
    rows = np.empty((ports.size * len(times), 3), np.int64)
    rows[:, 0] = np.repeat(ports, len(times))
    rows[:, 1:] = np.tile(times, (ports.size, 1))
    return rows


Schedule = list[tuple[int, float, float, int]]  # intervals: begin, loss, bit error rate, rate


def _schedules(faults: Sequence[LinkFault], n_ports: int) -> tuple[list[Schedule], np.ndarray]:
    """Return the distinct schedules of links, and the index of each port's."""
    hit = np.zeros((len(faults), n_ports), bool)
    for row, fault in zip(hit, faults, strict=True):
        row[fault.ports] = True
    if not faults:
        return [_schedule([])], np.zeros(n_ports, np.int64)
    kinds, which = distinct_columns(hit)
    return [_schedule(list(compress(faults, kind))) for kind in kinds], which


def _schedule(faults: Sequence[LinkFault]) -> Schedule:
    """Return the intervals of a link with these faults."""
    times = {0} | {time for fault in faults for time in (fault.at_ps, fault.until_ps)}
    intervals: Schedule = []
    for begin in sorted(times - {INT64}):
        kept = np.ones(2)
        rates = []
        for fault in faults:
            if fault.at_ps <= begin < fault.until_ps:
                kept *= 1.0 - np.array([fault.loss, fault.bit_error_rate])
                rates += [fault.rate_bps] if fault.rate_bps != NOMINAL else []
        loss, bit_error_rate = (1.0 - kept).tolist()
        intervals.append((begin, loss, bit_error_rate, min(rates, default=NOMINAL)))
    return intervals


def _chances(loss: float, bit_error_rate: float) -> np.ndarray:
    """Return the loss probability by size in bytes, in units of 2**-32, rounded. Uses only
    products, which give the same result on every machine."""
    two_bits = (1.0 - bit_error_rate) * (1.0 - bit_error_rate)
    byte_kept = two_bits * two_bits * two_bits * two_bits
    factors = np.full(MAX_SIZE_BYTES, byte_kept)
    factors[0] = 1.0 - loss
    chances: np.ndarray = np.floor((1.0 - np.cumprod(factors)) * 2.0**32 + 0.5).astype(np.int64)
    return chances


def times_without_carrier(
    network: Network, outage_ptr: Ints, outages_ps: Ints
) -> tuple[Ints, Ints]:
    """Return when the ports of hosts have no carrier, as their link is down in either direction.

    Outages are as in `LinkFaults`. The result is int64[n_host_ports + 1], the first row of each
    port, and int64[k, 2], start and end, in order and without overlaps.
    """
    n = network.n_host_ports
    outages = outages_ps[: outage_ptr[-1]]
    feeding = np.repeat(np.arange(network.n_ports), np.diff(outage_ptr))
    rows = []
    for port in (feeding, network.port_peer[feeding]):
        at_host = port < n
        rows.append(np.column_stack([port[at_host], outages[at_host]]))
    table = np.concatenate(rows).astype(np.int64)
    table = table[np.lexsort((table[:, 2], table[:, 1], table[:, 0]))]
    first = np.searchsorted(table[:, 0], np.arange(n + 1))
    kept = np.ones(len(table), bool)
    for port in np.unique(table[:, 0]).tolist():
        of_port = table[first[port] : first[port + 1]]
        until = np.maximum.accumulate(of_port[:, 2])
        begins = np.append(True, of_port[1:, 1] > until[:-1])
        at = np.flatnonzero(begins)
        of_port[at, 2] = until[np.append(at[1:], len(of_port)) - 1]
        kept[first[port] : first[port + 1]] = begins
    table = table[kept]
    first = np.searchsorted(table[:, 0], np.arange(n + 1)).astype(np.int64)
    return first, np.ascontiguousarray(table[:, 1:])


MAX_CHANGES = 20_000  # most link changes, each with new routes: 20 ms for 8,192 hosts


class RowWriter:
    """Collects the rows of all switches with the times from which they apply."""

    def __init__(self, network: Network) -> None:
        self._wiring, self._n_tables = network.wiring(), network.n_tables
        self._writer = TableWriter()
        self._rows: list[list[tuple[int, Ints]]] = [[] for _ in range(network.n_switches)]
        self._n_bytes = 0
        self.add(network.table, np.zeros(network.n_switches, np.int64))

    def add(self, table: RoutingTable, from_ps: Ints) -> None:
        """Add a table that each switch applies from its own time on, int64[n_switches].

        A switch's times must increase; `NEVER` or later adds nothing. Raises InputError if the rows
        do not fit into memory.
        """
        route = self._writer.translated(table.route, table.route_ports)
        first, lengths = table.row_first(self._wiring), self._n_tables * self._wiring.row_lengths
        for switch in np.flatnonzero(from_ps < NEVER).tolist():
            row = route[first[switch] :][: lengths[switch]]
            rows = self._rows[switch]
            if not rows or not np.array_equal(rows[-1][1], row):
                rows.append((int(from_ps[switch]), row.copy()))
                self._n_bytes += 2 * row.nbytes  # here, and in the finished table
        require_room(self._n_bytes, what="the routes while links are down", key="routing")

    def changes(self, cut_off: Ints) -> RouteChanges:
        rows = [row for of_switch in self._rows for _, row in of_switch]
        times = [time for of_switch in self._rows for time, _ in of_switch]
        lengths = np.array([len(row) for row in rows], np.int64)
        table = self._writer.table(np.concatenate(rows))
        return RouteChanges(
            row_ptr=np.cumsum([0, *map(len, self._rows)]).astype(np.int64),
            row_from_ps=np.array(times, np.int64),
            row_first=np.cumsum(lengths) - lengths,
            route=table.route,
            route_ports=table.route_ports,
            cut_off=cut_off,
        )


def constant_routes(network: Network) -> RouteChanges:
    """Return the rows of every switch without changes."""
    return RouteChanges(
        row_ptr=np.arange(network.n_switches + 1),
        row_from_ps=np.zeros(network.n_switches, np.int64),
        row_first=network.route_first,
        route=network.route,
        route_ports=network.route_ports,
        cut_off=np.zeros(0, np.int64),
    )


def follow_failures(
    network: Network, faults: LinkFaults, convergence_delay_ps: Ints
) -> RouteChanges:
    """Return how the routing table of every switch changes as links fail and recover.

    `convergence_delay_ps` (int64[n_switches]) is the time from a change to a switch's new row. A
    link that is down in one direction is not used in that direction. Links to hosts are in no
    table. Raises InputError for too many changes, time-slotted routes, or rows that do not fit into
    memory.
    """
    if network.time_slots is not None:
        message = "time-slotted routes cannot follow failures"
        raise InputError(message, key="routing.convergence_delay", hint='"never"')
    writer = RowWriter(network)
    alone = np.zeros(network.n_hosts, bool)
    for time, down in _states(network, faults):
        table = network.routing(network.wiring(~down))
        writer.add(table, np.minimum(time + convergence_delay_ps, NEVER))
        alone |= cut_off(network, table, down)
    return writer.changes(np.flatnonzero(alone & ~never_joined(network)))


def _states(network: Network, faults: LinkFaults) -> Iterator[tuple[int, Flags]]:
    """Yield when links go down or come back, and which links are then down, bool[n_ports]."""
    port = np.repeat(np.arange(network.n_ports), np.diff(faults.outage_ptr))
    if not port.size:
        return
    times = faults.outages_ps[: port.size]
    at = np.concatenate([times[:, 0], times[:, 1]])
    step = np.repeat([1, -1], port.size)
    both = np.concatenate([port, port])
    order = np.argsort(at, kind="stable")
    at, step, both = at[order], step[order], both[order]
    depth = np.zeros(network.n_ports, np.int64)
    begins = np.flatnonzero(np.diff(at, prepend=-1))
    if begins.size > MAX_CHANGES:
        message = f"routes would change {begins.size:,} times"
        hint = f"at most {MAX_CHANGES:,} link changes"
        raise InputError(message, key="routing.convergence_delay", hint=hint)
    for begin, end in zip(begins, np.append(begins[1:], at.size), strict=True):
        if at[begin] >= NEVER:
            return
        before = depth > 0
        np.add.at(depth, both[begin:end], step[begin:end])
        down = depth > 0
        if not np.array_equal(down, before):
            yield int(at[begin]), down


def never_joined(network: Network) -> Flags:
    """Return bool[n_hosts], hosts that are `cut_off` without failures."""
    if network.reaches_all:
        return np.zeros(network.n_hosts, bool)
    return cut_off(network, network.table, np.zeros(network.n_ports, bool))


def cut_off(network: Network, table: RoutingTable, down: Flags) -> Flags:
    """Return bool[n_hosts], hosts not connected to the largest part of any of their networks.
    Connected means in both directions, by any routing table."""
    uplink, wiring = np.arange(network.n_host_ports), network.wiring()
    lone: Flags = down[uplink] | down[network.port_peer[uplink]]
    for number, (begin, end) in enumerate(pairwise(network.first_group.tolist())):
        first = table.row_first(wiring)[network.edge_switch[begin:end]]
        joined = np.zeros((end - begin, end - begin), bool)
        for which in range(network.n_tables):
            at = which * (end - begin) + np.arange(end - begin)
            joined |= table.route[first[:, None] + at] != NO_ROUTE
        joined &= joined.T
        part = joined[int(joined.sum(axis=1).argmax())]
        here = network.port_network == number
        lone[here] |= ~part[network.port_group[here]]
    of_host: Flags = np.logical_and.reduceat(lone, network.node_first_port[: network.n_hosts])
    return of_host
