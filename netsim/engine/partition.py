"""One part of a network in a separate process: the rows of the state that it owns.

Every part has arrays for the whole network, but writes few rows other than its own (`Share`). A
complete state, with the rows of all parts, equals the state of one process: any number of parts can
resume from its snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from netsim.engine import snapshot
from netsim.engine.compiling.declarations import Protocol
from netsim.engine.host_state import bitmap_words
from netsim.engine.kernels import layout
from netsim.engine.kernels.fields import NO_FLOW, Array
from netsim.engine.kernels.loop import Beyond, Cut, Goal
from netsim.engine.kernels.series import BINS_APART
from netsim.engine.pool import lay_out
from netsim.engine.records import aligned_zeros
from netsim.engine.simulation import Simulation
from netsim.engine.state import State
from netsim.model.columns import rows_of

FEW = 1024  # packets for which there is room at first

PACKETS = (
    ("links.readers", "head", "tail"),
    ("links.queues", "head", "tail"),
    ("hosts.host_ports", "ctrl_head", "ctrl_tail"),
)
"""Owners of the packets in a snapshot, in order, with the fields of their positions."""

FIBERS = ("first_fiber", "last_fiber")  # range of a switch's fibers
LOGGED = ("hosts.program_hosts", "first_row", "next_row")  # likewise for rows of a program's log

TOTALS = (
    *("hops", "delivered", "finished", "tasks_done", "under_way", "expected", "payload_bytes"),
)
"""Fields of the clock that each part counts for itself since the last snapshot."""


class Partition:
    """The rows that part ``part`` of ``n_parts`` owns of a state that was built for it."""

    def __init__(
        self, state: State, simulation: Simulation, protocol: Protocol, part: int, n_parts: int
    ) -> None:
        assert state.share.of_node is not None
        self._state, self._of_node = state, state.share.of_node
        self._simulation, self._protocol = simulation, protocol
        self.part, self.n_parts = part, n_parts

    @cached_property
    def paths(self) -> list[str]:
        """The arrays that several parts change; the log, with other parts' rows, is the last."""
        groups = {name: getattr(self._state, name) for name in ("links", "hosts", "clock")}
        found = [
            f"{group}.{name}"
            for name, (n_rows, _) in self._owned.items()
            for group, arrays in groups.items()
            # An array of a feature that the run does not use has one row.
            if hasattr(arrays, name) and getattr(arrays, name).shape[0] == n_rows
        ]
        return [*found, snapshot.LOG] if LOGGED[0] in found else found

    def rows(self, path: str) -> Array:
        """Return the rows of an array that this part owns, int64[...]."""
        if path == snapshot.LOG:
            hosts, first, following = LOGGED
            records = array_at(self._state, hosts)[self.rows(hosts)]
            return rows_of(records[first], records[following] - records[first])
        return self._owned[path.split(".")[1]][1]()

    @cached_property
    def _owned(self) -> Mapping[str, tuple[int, Callable[[], Array]]]:
        """For each array that several parts change, by name: its number of rows, and a function
        that finds own rows. Other arrays are the same in all parts."""
        net, links = self._state.net, self._state.links
        share: Any = self._state.share
        ports, hosts, sent, received = share.ports, share.hosts, share.sent, share.received
        first_timer = self._state.first_timer
        own = np.flatnonzero(self._of_node == self.part)
        switches = own[own >= net.n_hosts]
        n_ports, n_flows = net.port_node.shape[0], len(self._simulation.flows)
        classes, levels = links.queues.shape[0] // n_ports, links.levels.shape[0]
        buffer = int(links.retries["mask"][0]) + 1  # packets
        n_rows = int(links.series_clock["n_rows"][0])
        words, tasks = bitmap_words(self._simulation, self._protocol), self._state.hosts.tasks
        n_tx_bits, n_rx_bits = int(words.tx.sum()), int(words.rx.sum())
        n_watched = links.watched.shape[0]
        n_host_ports = self._simulation.network.n_host_ports
        per_switch = getattr(self._simulation.fabric.routing.module, "COUPLED", False)
        n_tables = self._of_node.size - net.n_hosts if per_switch else n_ports - n_host_ports
        n_flow_rows = links.flow_rows.shape[0] // n_tables

        def cut_from(first: Array, at: Array) -> Array:
            """Return the rows of some owners; each owner's rows begin at ``first``."""
            return rows_of(first[at], first[at + 1] - first[at])

        def bits() -> Array:
            sides = (0, words.tx, sent), (n_tx_bits, words.rx, received)
            return np.concatenate(
                [at + cut_from(np.append(0, np.cumsum(n)), side) for at, n, side in sides]
            )

        def flow_rows() -> Array:
            own = switches - net.n_hosts
            if not per_switch:
                own = ports[ports >= n_host_ports] - n_host_ports
            return rows_of(own * n_flow_rows, n_flow_rows)

        def own_levels() -> Array:
            first = np.asarray(links.level_of)[ports]
            return rows_of(first[first >= 0], classes)

        def samples() -> Array:
            records = np.asarray(links.levels)[own_levels()]
            columns: Array = records["row"][records["due_ps"] < layout.INF] % n_rows
            return np.add.outer(np.arange(0, links.samples.shape[0], n_rows), columns).reshape(-1)

        def copies() -> Array:
            columns = cut_from(links.first_watched, hosts)
            begins = np.arange(0, links.copies.shape[0], n_watched)
            return np.add.outer(begins, columns).reshape(-1)

        def fibers() -> Array:
            first, last = (links.switches[name][switches - net.n_hosts] for name in FIBERS)
            return rows_of(first, last - first)

        n_fibers = int((links.switches["last_fiber"] - links.switches["first_fiber"]).sum())
        n_timers = int(first_timer[-1])
        hosts_and_timers = first_timer + np.arange(first_timer.size)
        task_host = np.asarray(tasks)["host"]
        rows_by_names: tuple[tuple[str, int, Callable[[], Array]], ...] = (
            ("ports readers routing_ports faults circuits", n_ports, lambda: ports),
            ("first_new nic_busy retries", n_ports, lambda: ports),
            ("kept", n_ports * buffer, lambda: rows_of(ports * buffer, buffer)),
            (
                "queues losses class_weights",
                n_ports * classes,
                lambda: rows_of(ports * classes, classes),
            ),
            (
                "unread busy dirty_ports waiting_ports indirect_ready",
                int(np.asarray(net.first_word)[-1]),
                lambda: cut_from(net.first_word, switches),
            ),
            ("switches routers", self._of_node.size - net.n_hosts, lambda: switches - net.n_hosts),
            ("flow_rows", n_tables * n_flow_rows, flow_rows),
            ("fibers", n_fibers, fibers),
            ("levels", levels, own_levels),
            (
                "level_times",
                levels * BINS_APART,
                lambda: rows_of(own_levels() * BINS_APART, BINS_APART),
            ),
            ("samples", links.samples.shape[0] if n_rows else 0, samples),
            ("series_due program_hosts", net.n_hosts, lambda: hosts),
            ("copies", links.copies.shape[0] if n_watched else 0, copies),
            ("nics", self._state.hosts.nics.shape[0], lambda: share.nics),
            ("host_ports", n_host_ports, lambda: share.host_ports),
            ("port_choices", 2 * n_flows, lambda: np.concatenate([sent, n_flows + received])),
            ("tx send_task", n_flows, lambda: sent),
            ("rx", n_flows, lambda: received),
            ("bits", n_tx_bits + n_rx_bits, bits),
            ("timers", n_timers + layout.TIMER_RX, lambda: cut_from(first_timer, hosts)),
            ("heap", n_timers + net.n_hosts, lambda: cut_from(hosts_and_timers, hosts)),
            (
                "tasks",
                tasks.shape[0],
                lambda: np.flatnonzero(self._of_node[task_host] == self.part),
            ),
            ("next_event", self._of_node.size, lambda: own),
        )
        return {name: (n, rows) for names, n, rows in rows_by_names for name in names.split()}

    @cached_property
    def _outgoing(self) -> tuple[Array, Array]:
        """Return own ports with a cable to another part, part by part, and these parts."""
        net, ports = self._state.net, self.rows("links.ports")
        there = self._of_node[net.port_node[net.port_peer[ports]]]
        leaves = there != self.part
        order = np.argsort(there[leaves], kind="stable")
        return ports[leaves][order], there[leaves][order]

    def neighbors(self, *, has_news: bool) -> list[tuple[int, slice]]:
        """Return the parts with which this one shares cables, each with its range of links in
        `cut`; with ``has_news`` all others."""
        ends = np.searchsorted(self._outgoing[1], np.arange(self.n_parts + 1)).tolist()
        ranges = [(i, slice(*ends[i : i + 2])) for i in range(self.n_parts) if i != self.part]
        return [(i, links) for i, links in ranges if has_news or links.stop > links.start]

    def goal(self) -> Goal | None:
        """Return the clock's counts when all is done in this part; None if a program makes them
        unknown."""
        hosts, clock, sent = self._state.hosts, self._state.clock.clock[0], self.rows("hosts.tx")
        if self._simulation.program is not None:
            begun = np.count_nonzero(hosts.send_task[sent] < 0)
            at_once = Goal(-layout.INF, int(begun - clock["expected"]), 0)
            return at_once if clock["w1"] == 0 else None
        n_tasks = 0
        if self._simulation.feature_set.tasks:
            end_ps = np.asarray(hosts.tasks)["end_ps"][self.rows("hosts.tasks")]
            n_tasks = int(clock["tasks_done"] + np.count_nonzero(end_ps < 0))
        left = np.asarray(hosts.rx)["done_ps"][self.rows("hosts.rx")] < 0
        unfinished = np.asarray(hosts.tx)["finished"][sent] == 0
        delivered = int(clock["delivered"] + np.count_nonzero(left))
        return Goal(delivered, int(clock["finished"] + np.count_nonzero(unfinished)), n_tasks)

    def delays(self, told_ps: int) -> Array:
        """Return `shortest_delays` between the parts, int64[n_parts, n_parts]. Every part learns of
        deliveries elsewhere after ``told_ps``."""
        net = self._state.net
        here, there = self._of_node[net.port_node], self._of_node[net.port_node[net.port_peer]]
        direct = np.full((self.n_parts, self.n_parts), told_ps)
        np.minimum.at(direct, (here, there), self._simulation.network.port_delay_ps)
        return shortest_delays(direct)

    def beyond(self, delays: Array, *, tells: bool) -> Beyond:
        """Return other parts' nodes at the ends of own links."""
        net, (outgoing, _) = self._state.net, self._outgoing
        nodes = np.unique(net.port_node[net.port_peer[outgoing]]).astype(np.int64)
        back_ps = np.ascontiguousarray(delays[self._of_node[nodes], self.part])
        return layout.grouped(Beyond, nodes=nodes, back_ps=back_ps, tells=tells)

    def cut(self) -> Cut:
        """Return the links between this part and others."""
        net, packet = self._state.net, self._state.links.pool.dtype
        outgoing, there = self._outgoing
        incoming = net.port_peer[outgoing].astype(np.int64)
        return layout.grouped(
            Cut,
            own=(self._of_node == self.part).astype(np.int64),
            outgoing=outgoing,
            sent=np.zeros(outgoing.size, np.int64),
            incoming=incoming[np.lexsort((incoming, there))],
            received=np.zeros(outgoing.size, np.int64),
            outbox=aligned_zeros(FEW, packet),
            inbox=aligned_zeros(FEW, packet),
            flows=np.zeros(self._state.hosts.rx.shape[0], np.int64),
        )

    def begin(self) -> None:
        """Forget the events of other parts. The first part has the totals until now."""
        state, other = self._state, self._of_node != self.part
        next_event = state.clock.next_event
        next_event[other] = layout.INF
        set_soonest(state)
        np.asarray(state.clock.clock)["last_delivered"] = NO_FLOW
        if self.part:
            self.forget_totals()

    def forget_totals(self) -> None:
        """Count from 0; rank 0 has the earlier counts."""
        for name in TOTALS:
            np.asarray(self._state.clock.clock)[name] = 0

    def hide(self) -> None:
        """Forget the events, packets and log of other parts, which a complete state has."""
        state = self._state
        self.begin()
        packets = self.packets()
        for path, first, end in PACKETS:
            records, theirs = array_at(state, path), self._others(path)
            records[first][theirs] = records[end][theirs]
        if LOGGED[0] in self.paths:
            records, theirs = array_at(state, LOGGED[0]), self._others(LOGGED[0])
            records[LOGGED[2]][theirs] = records[LOGGED[1]][theirs]
        lay_out(state.net, state.links, state.hosts)
        self.set_packets(packets)

    def _others(self, path: str) -> Array:
        theirs = np.ones(array_at(self._state, path).shape[0], bool)
        theirs[self.rows(path)] = False
        return theirs

    def packets(self) -> list[Array]:
        """Return the packets of this part with their records in the pool, as uint8[n, ...]."""
        own = snapshot.occupied(self._state, self._state.share)
        return [snapshot.entries_of(pool)[own] for pool in snapshot.pools(self._state)]

    def set_packets(self, packets: Sequence[Array]) -> None:
        """Put this part's packets back once the memory of packets has a new layout."""
        own = snapshot.occupied(self._state, self._state.share)
        for pool, entries in zip(snapshot.pools(self._state), packets, strict=True):
            snapshot.entries_of(pool)[own] = entries

    def slots_of_parts(self) -> list[Array]:
        """Return the slots of the packets of each part, in the order of `packets`, in a complete
        state."""
        slots, of_ports = snapshot.occupied(self._state), self._of_node[self._state.net.port_node]
        of_packets = []
        for path, head, tail in PACKETS:
            records = array_at(self._state, path)
            of_rows = np.repeat(of_ports, max(1, records.size // of_ports.size))[: records.size]
            of_packets.append(np.repeat(of_rows, records[tail] - records[head]))
        part = np.concatenate(of_packets)
        return [slots[part == i] for i in range(self.n_parts)]

    def forget_sent(self) -> None:
        """Empty the links to other parts, once own rows and the rows of other parts' ports at own
        cables are set."""
        links, peer = self._state.links, self._state.net.port_peer
        readers, at = np.asarray(links.readers), peer[self._outgoing[0]]
        for name in ("head", "tail"):
            readers[name][at] = np.asarray(links.ports)["tail"][self._outgoing[0]]


def array_at(state: State, path: str) -> Array:
    """Return an array of the state by its path, such as "links.ports"."""
    group, name = path.split(".")
    return np.asarray(getattr(getattr(state, group), name))


def set_soonest(state: State) -> None:
    """Set the earliest event of each block of nodes."""
    blocks = np.arange(0, state.clock.next_event.size, layout.BLOCK)
    state.clock.soonest[:] = np.minimum.reduceat(state.clock.next_event, blocks)


NEVER = layout.INF // 2  # delay to a part that is never affected

SHORT_S, LONG_S = 0.02, 0.1
"""Seconds that the slowest part should simulate between exchanges: few, so that all parts can soon
stop at the same time."""

FIRST_SPAN = 64  # windows that a part may be ahead of the last one at first


def shortest_delays(direct: Array) -> Array:
    """Return the shortest time in which an event in one part can cause an event in another,
    int64[n, n]. ``direct`` has that time for neighbors, and NEVER for others."""
    delays = direct.copy()
    for over in range(len(delays)):
        np.minimum(delays, delays[:, over, None] + delays[over], out=delays)
    return np.minimum(delays, NEVER)


class Horizons:
    """The horizon of part ``part``: the time before which no other part can affect it. ``delays``
    are from `shortest_delays`."""

    def __init__(self, delays: Array, part: int, window_ps: int) -> None:
        others = np.arange(len(delays)) != part
        self.delays, self.window_ps = delays, window_ps
        self._to_here = np.where(others, delays[:, part], NEVER)
        self._span_ps = FIRST_SPAN * window_ps

    def horizon_ps(self, next_ps: Array) -> int:
        """Return the horizon, given the time of each part's next event, int64[n]. No part gets far
        ahead of the others, since all must be able to stop soon at the same time."""
        soonest_ps = np.minimum(next_ps, NEVER)
        return int(min((soonest_ps + self._to_here).min(), soonest_ps.min() + self._span_ps))

    def learn(self, seconds: float) -> None:
        """Set how far ahead a part may be from the time that the slowest took."""
        if seconds > LONG_S:
            self._span_ps = max(self._span_ps // 2, self.window_ps)
        elif seconds < SHORT_S:
            self._span_ps = min(2 * self._span_ps, NEVER)
