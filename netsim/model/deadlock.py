"""Whether PFC can deadlock a network: cycles of links whose packets wait for each other.

A packet waits at a switch for the link by which it leaves. With PFC it may then also stop the link
by which it came in. If links cannot wait for each other in a cycle, some link always moves, and
every packet arrives (Dally and Seitz, "Deadlock-Free Message Routing in Multiprocessor
Interconnection Networks", IEEE Transactions on Computers C-36(5), 1987). A switch chooses a
packet's port when it arrives, so an escape path for waiting packets would not help.

Links to and from hosts are in no cycle, since hosts accept every packet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.common.memory import require_room
from netsim.frozen import frozen
from netsim.model.columns import Ints, find_cycle, indices
from netsim.model.faults import constant_routes
from netsim.model.network import Network
from netsim.model.routing import COUNT_BITS, COUNT_MASK, RouteChanges, shortest_paths, tree_of

Bits = NDArray[np.uint8]

BLOCK_BYTES = 1 << 21  # memory of the part that is compared at a time
STARTS = 64  # links of a cycle through which a shorter one is searched
NAMED = 12  # links of a cycle that a message names


class Cycle(NamedTuple):
    """Links that wait for each other, each for the next and the last for the first; none if PFC
    cannot deadlock."""

    ports: Ints  # int64[k], the ports that the links leave
    levels: Ints  # int64[k], the levels of the packets on them


NO_CYCLE = Cycle(np.zeros(0, np.int64), np.zeros(0, np.int64))


@frozen
class Choices:
    """What a routing algorithm may do with packets, besides taking any candidate."""

    n_levels: int = 1  # number of levels. PFC pauses each level of a class alone.
    via: bool = False  # packets may go via any group; hosts' switches choose it
    anywhere: bool = False  # all switches may choose or change it
    # returns the level of packets from the ports at which they come in and leave, their level
    # before (int64[n] each), and whether they have a via; it must not depend on a packet's source
    # host. None: all are at level 0.
    next_level: Callable[[Ints, Ints, Ints, bool], Ints] | None = None

    def levels(self, came_by: Ints, level: Ints, leaves_by: Ints, via: int) -> Ints:
        """Return the next levels."""
        if self.next_level is None:
            return np.zeros(level.size, np.int64)
        return self.next_level(came_by, level, leaves_by, bool(via))


ANY_CANDIDATE = Choices()


def waiting_cycle(
    network: Network, routes: RouteChanges | None = None, choices: Choices = ANY_CANDIDATE
) -> Cycle:
    """Return a cycle of links whose packets may wait for each other, if any.

    Packets may go to every group, by every table, on any candidate port. `routes` (default: the
    network's own) may change; the cycle exists with the routes at some point in time. Packets still
    on older routes are not considered. Raises InputError if that does not fit into memory.
    """
    routes = constant_routes(network) if routes is None else routes
    changed = np.diff(routes.row_ptr) > 1
    wiring = network.wiring()
    by_hops = network.routing is shortest_paths and wiring.usable is None and not choices.via
    by_hops &= wiring.weight is None and wiring.dimension is None
    for number in range(wiring.n_networks):
        switches = wiring.switches_of(number)
        # In a tree packets go up, and then down.
        if changed[switches].any() or not by_hops or tree_of(wiring, number) is None:
            cycle = _Links(network, switches).cycle(routes, choices)
            if cycle.ports.size:
                return cycle
    return NO_CYCLE


def pfc_text(network: Network, cycle: Cycle) -> str:
    """Describe the deadlock that PFC can cause in a network with a `waiting_cycle`."""
    if not cycle.ports.size:
        return "deadlock-free"
    names = link_names(network, cycle.ports[:NAMED]).tolist()
    if cycle.levels.any():
        names = [f"{name} level {v}" for name, v in zip(names, cycle.levels.tolist(), strict=False)]
    names += [f"({cycle.ports.size - NAMED} more)"] * (cycle.ports.size > NAMED) + names[:1]
    return f"can deadlock: packets on each link may wait for the next, {' -> '.join(names)}"


def link_names(network: Network, ports: Ints) -> NDArray[np.str_]:
    """Return the names of the ports that links leave."""
    return np.array([network.port_name(port) for port in ports.tolist()])


class _Links:
    """The links between the switches of one network, and the packets that may be on them.

    Attributes:
        port: int64[n], the port that each link leaves, ascending.
        came_by: int64[n], the port at which each link comes in.
        source, target: int64[n], the switches at its ends, counted within the network.
        first: int64[n_switches + 1], the first link that leaves each switch.
        is_edge, host_port: bool and int64[n_switches], whether a switch has hosts, and its port to
            one of them.
        leads: uint8[n, ...], a bit for each destination (a group in one of the tables): whether the
            current routes lead to it by the link.
    """

    def __init__(self, network: Network, switches: Ints) -> None:
        self.network, self.switches = network, switches
        place = np.full(network.n_switches, -1)
        place[switches] = np.arange(switches.size)
        own = indices(network.node_first_port, switches + network.n_hosts)
        peer = network.port_node[network.port_peer[own]].astype(np.int64) - network.n_hosts
        self.port = own[peer >= 0]
        self.target = place[peer[peer >= 0]]
        self.came_by = network.port_peer[self.port].astype(np.int64)
        self.source = place[network.port_node[self.port] - network.n_hosts]
        self.first = np.searchsorted(self.source, np.arange(switches.size + 1))
        groups = network.first_group[network.switch_network[switches[0]] :][:2]
        self.length = network.n_tables * int(groups[1] - groups[0])
        what = f"the links of {switches.size:,} switches to {self.length:,} destinations"
        require_room(self.port.size * self.length // 8, what=what, key="topology")
        self.leads = np.zeros((self.port.size, -(-self.length // 8)), np.uint8)
        self.is_edge = np.isin(switches, network.edge_switch)
        uplink = np.arange(network.n_host_ports)
        self.host_port = np.full(switches.size, -1)
        at = place[network.next_switch(uplink)]
        self.host_port[at[at >= 0]] = network.port_peer[uplink[at >= 0]]

    def cycle(self, routes: RouteChanges, choices: Choices) -> Cycle:
        """Return a cycle of links that may wait for each other, if there is one."""
        rows = indices(routes.row_ptr, self.switches)
        of_row = np.repeat(np.arange(self.switches.size), np.diff(routes.row_ptr)[self.switches])
        from_ps, seen = routes.row_from_ps[rows], set()
        for time in np.unique(from_ps).tolist() if self.port.size else ():
            new = from_ps == time
            self._set_leads(of_row[new], rows[new], routes)
            digest = blake2b(self.leads.tobytes(), digest_size=16).digest()
            if digest not in seen:
                seen.add(digest)
                waiter, after = _Search(self, choices).waits()
                found = short_cycle(self.port.size * choices.n_levels, waiter, after)
                if found.size:
                    link, level = np.divmod(found, choices.n_levels)
                    return Cycle(self.port[link], level)
        return NO_CYCLE

    def _set_leads(self, switches: Ints, rows: Ints, routes: RouteChanges) -> None:
        """Set `leads` for switches (counted within the network) that apply new rows."""
        local = self.port - self.network.node_first_port[self.network.port_node[self.port]]
        degree = np.diff(self.first)[switches]
        for begin, end in _blocks(degree * self.length):
            links = indices(self.first, switches[begin:end])
            own = np.repeat(np.arange(end - begin), degree[begin:end])
            of_port = np.full((end - begin, int(local[links].max(initial=0)) + 1), -1)
            of_port[own, local[links]] = np.arange(links.size)
            leads = np.zeros((links.size, self.length), bool)
            first = routes.row_first[rows[begin:end]]
            entry = routes.route[first[:, None] + np.arange(self.length)]
            switch, group = np.nonzero(entry > 0)
            entry = entry[switch, group]
            offset, count = entry >> COUNT_BITS, entry & COUNT_MASK
            candidate = 0
            while group.size:
                leads[of_port[switch, routes.route_ports[offset + candidate]], group] = True
                candidate += 1
                more = count > candidate
                switch, group, offset, count = switch[more], group[more], offset[more], count[more]
            self.leads[links] = np.packbits(leads, axis=1)


class _Search:
    """Ports that packets may wait for, followed from the hosts on. A packet on link a at level v is
    in channel a * n_levels + v, and in state 2 * channel + 1 with a via, 2 * channel without.

    Attributes:
        used: uint8[states, ...], a bit for each target: packets that may be there.
        known: int8[pairs * n_levels * 2], the next level, by pairs of links (a, b): packets that
            came by a leave by b; -1: not computed yet.
        taken: bool, likewise: whether packets do that.
        first_pair: int64[n], the first pair of each link a.
        leads: uint8[n_switches, ...], with vias: whether any link of a switch leads to a group.
    """

    def __init__(self, links: _Links, choices: Choices) -> None:
        self.links, self.choices = links, choices
        degree = np.diff(links.first)[links.target]
        self.first_pair = np.cumsum(degree) - degree
        self.known = np.full(int(degree.sum()) * choices.n_levels * 2, -1, np.int8)
        self.taken = np.zeros(self.known.size, bool)
        self.n_channels, width = links.port.size * choices.n_levels, links.leads.shape[1]
        room = 2 * self.n_channels * width if choices.via else self.n_channels * width
        require_room(room, what=f"{self.n_channels:,} links and levels", key="topology")
        self.used = np.zeros((2 * self.n_channels, width), np.uint8)
        if choices.via:
            self.leads = np.bitwise_or.reduceat(links.leads, links.first[:-1])

    def waits(self) -> tuple[Ints, Ints]:
        """Return pairs of channels: a packet in the first may wait for the second."""
        n_levels, changed = self.choices.n_levels, self._from_hosts()
        while changed.size:
            degree = np.diff(self.links.first)[self.links.target[changed // (2 * n_levels)]]
            before, changed = changed, np.zeros(0, np.int64)
            for begin, end in _blocks(degree * self.used.shape[1]):
                for after, bits in self._steps(before[begin:end]):
                    changed = np.union1d(changed, self._add(after, bits))
        key = np.flatnonzero(self.taken)
        pair, level = np.divmod(key // 2, n_levels)
        came = np.searchsorted(self.first_pair, pair, side="right") - 1
        leaves = self.links.first[self.links.target[came]] + pair - self.first_pair[came]
        return came * n_levels + level, leaves * n_levels + self.known[key]

    def _from_hosts(self) -> Ints:
        """Let hosts send to all destinations; return the states that packets are then in."""
        links = self.links
        own = np.flatnonzero(links.is_edge[links.source] & links.leads.any(axis=1))
        came_by = links.host_port[links.source[own]]
        found = []
        for via in range(1 + self.choices.via):
            level = self.choices.levels(came_by, 0 * own, links.port[own], via)
            states = (own * self.choices.n_levels + level) * 2 + via
            self.used[states] = links.leads[own]
            found.append(states)
        return np.unique(np.concatenate(found))

    def _steps(self, states: Ints) -> Iterator[tuple[Ints, Bits]]:
        """Yield states that may follow some states, and the targets of packets that get there."""
        links, choices = self.links, self.choices
        switch = links.target[states // (2 * choices.n_levels)]
        leaves = indices(links.first, switch)
        states = np.repeat(states, np.diff(links.first)[switch])
        targets, via = self.used[states], states % 2
        yield self._step(states, leaves, via, targets & links.leads[leaves])
        if choices.via:
            # No link leads on to a via that is here, and then all destinations are possible.
            there = (targets & ~self.leads[links.source[leaves]]).any(axis=1)
            new = np.flatnonzero((via == 1) & there | choices.anywhere)
            bits = links.leads[leaves[new]]
            yield self._step(states[new], leaves[new], 0 * new, bits)
            if choices.anywhere:
                yield self._step(states[new], leaves[new], 0 * new + 1, bits)

    def _step(self, states: Ints, leaves: Ints, via: Ints, bits: Bits) -> tuple[Ints, Bits]:
        """Return the steps of packets that leave by links, with or without a via, if any."""
        some = np.flatnonzero(bits.any(axis=1))
        states, leaves, via = states[some], leaves[some], via[some]
        came, level = np.divmod(states // 2, self.choices.n_levels)
        pair = self.first_pair[came] + leaves - self.links.first[self.links.target[came]]
        key = (pair * self.choices.n_levels + level) * 2 + via
        for flag in range(2):
            ask = np.flatnonzero((self.known[key] < 0) & (via == flag))
            came_by = self.links.came_by[came[ask]]
            args = came_by, level[ask], self.links.port[leaves[ask]]
            self.known[key[ask]] = self.choices.levels(*args, flag)
        after = (leaves * self.choices.n_levels + self.known[key]) * 2 + via
        self.taken[key] = True
        return after, bits[some]

    def _add(self, states: Ints, bits: Bits) -> Ints:
        """Add targets to states; return the states for which they are new."""
        new = np.flatnonzero((bits & ~self.used[states]).any(axis=1))
        order = new[np.argsort(states[new], kind="stable")]
        changed, first = np.unique(states[order], return_index=True)
        if changed.size:
            self.used[changed] |= np.bitwise_or.reduceat(bits[order], first)
        return changed


def _blocks(sizes: Ints) -> Iterator[tuple[int, int]]:
    """Yield the start and end of runs of items whose sizes add up to about BLOCK_BYTES."""
    block = np.cumsum(sizes) // BLOCK_BYTES
    ends = np.flatnonzero(np.diff(block, append=-1)) + 1
    begins = np.concatenate([[0], ends[:-1]])
    yield from zip(begins.tolist(), ends.tolist(), strict=True)


def short_cycle(n: int, waiter: Ints, after: Ints) -> Ints:
    """Return a short cycle among n items where `waiter[i]` waits for `after[i]`, empty if there is
    none: the shortest through one of the first items of some cycle."""
    best = np.array(find_cycle(n, waiter, after), np.int64)
    order = np.argsort(waiter, kind="stable")
    follower = after[order]
    first = np.searchsorted(waiter[order], np.arange(n + 1))
    for start in best[:STARTS].tolist():
        came_from = np.full(n, -1)
        reached = np.array([start])
        for _ in range(best.size - 1):
            to = follower[indices(first, reached)]
            by = np.repeat(reached, first[reached + 1] - first[reached])
            new = came_from[to] < 0
            came_from[to[new]] = by[new]
            if came_from[start] >= 0:
                best = _walk_back(came_from, start)
                break
            reached = np.unique(to[new])
    return best


def _walk_back(came_from: Ints, start: int) -> Ints:
    """Return the items on the path from `start` back to it."""
    found = [int(came_from[start])]
    while found[-1] != start:
        found.append(int(came_from[found[-1]]))
    return np.array(found[::-1])
