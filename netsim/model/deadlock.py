"""Whether PFC can deadlock a network: cycles of links whose packets wait for each other.

A packet that came in by one link waits at a switch for the link by which it leaves. With PFC it
thereby also stops the link by which it came. If no cycle of links can wait for each other so, some
link always moves, and every packet arrives (Dally and Seitz, "Deadlock-Free Message Routing in
Multiprocessor Interconnection Networks", IEEE Transactions on Computers C-36(5), 1987). A switch
chooses a packet's port when it arrives, so an escape for packets that wait is no help.

Links to and from hosts are in no cycle: hosts take all that arrives.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from netsim.memory import require_room
from netsim.model.columns import find_cycle, indices
from netsim.model.network import Network
from netsim.model.reroute import constant_routes
from netsim.model.routing import COUNT_BITS, COUNT_MASK, RouteChanges
from netsim.model.shortest_paths import shortest_paths
from netsim.model.up_down import tree_of

Ints = NDArray[np.int64]
Bits = NDArray[np.uint8]

BLOCK_BYTES = 1 << 21
"""Memory for a part of what is compared at a time."""

STARTS = 64
"""Links of a cycle through which a shorter one is searched."""

NAMED = 12
"""Links of a cycle that a message names."""


def waiting_cycle(network: Network, routes: RouteChanges | None = None) -> Ints:
    """Return the ports whose links form a cycle in which packets may wait for each other, each for
    the next and the last for the first; none if PFC cannot deadlock.

    Packets may go to every group by every table, and take any candidate port. `routes` (default:
    the network's own) may change; the cycle is one of the routes of some moment. Packets that had
    older routes before are not considered. Raises InputError if that does not fit into memory.
    """
    routes = constant_routes(network) if routes is None else routes
    changed = np.diff(routes.row_ptr) > 1
    wiring = network.wiring()
    by_hops = network.routing is shortest_paths and wiring.usable is None
    by_hops &= wiring.weight is None and wiring.dimension is None
    for number in range(wiring.n_networks):
        switches = wiring.switches_of(number)
        # In a tree packets go up, and then down.
        if changed[switches].any() or not by_hops or tree_of(wiring, number) is None:
            cycle = _Links(network, switches).cycle(routes)
            if cycle.size:
                return cycle
    return np.zeros(0, np.int64)


def pfc_text(network: Network, cycle: Ints) -> str:
    """Return what PFC can do to a network with a `waiting_cycle`, which is named by the ports that
    its links leave."""
    if not cycle.size:
        return "deadlock-free"
    names = link_names(network, cycle[:NAMED]).tolist()
    names += [f"({cycle.size - NAMED} more)"] * (cycle.size > NAMED) + names[:1]
    return f"can deadlock: packets on each link may wait for the next, {' -> '.join(names)}"


def link_names(network: Network, ports: Ints) -> NDArray[np.str_]:
    """Return the names of the ports that links leave."""
    return np.array([network.port_name(port) for port in ports.tolist()])


class _Links:
    """The links between the switches of one network, and the packets that may be on them.

    Attributes:
        port: int64[n], the port that each link leaves, ascending.
        source, target: int64[n], the switches at its ends, counted within the network.
        first: int64[n_switches + 1], the first link that leaves each switch.
        back: int64[n], the link in the other direction.
        leads: uint8[n, ...], a bit for each destination (a group in one of the tables): whether the
            routes of a moment lead to it by the link.
    """

    def __init__(self, network: Network, switches: Ints) -> None:
        self.network, self.switches = network, switches
        place = np.full(network.n_switches, -1)
        place[switches] = np.arange(switches.size)
        own = indices(network.node_first_port, switches + network.n_hosts)
        peer = network.port_node[network.port_peer[own]].astype(np.int64) - network.n_hosts
        self.port = own[peer >= 0]
        self.target = place[peer[peer >= 0]]
        self.source = place[network.port_node[self.port] - network.n_hosts]
        self.first = np.searchsorted(self.source, np.arange(switches.size + 1))
        index = np.full(network.n_ports, -1)
        index[self.port] = np.arange(self.port.size)
        self.back = index[network.port_peer[self.port]]
        groups = network.first_group[network.switch_network[switches[0]] :][:2]
        self.length = network.n_tables * int(groups[1] - groups[0])
        what = f"the links of {switches.size:,} switches to {self.length:,} destinations"
        require_room(self.port.size * self.length // 2, what=what, key="topology")
        self.leads = np.zeros((self.port.size, -(-self.length // 8)), np.uint8)
        edges = np.isin(switches, network.edge_switch)
        self.sent = np.where(edges, np.uint8(255), np.uint8(0))[:, None]  # hosts send to all

    def cycle(self, routes: RouteChanges) -> Ints:
        """Return the ports of a cycle of links that may wait for each other, if there is one."""
        if not self.port.size:
            return self.port
        rows = indices(routes.row_ptr, self.switches)
        of_row = np.repeat(np.arange(self.switches.size), np.diff(routes.row_ptr)[self.switches])
        from_ps, seen = routes.row_from_ps[rows], set()
        for time in np.unique(from_ps).tolist():
            new = from_ps == time
            self._set_leads(of_row[new], rows[new], routes)
            digest = blake2b(self.leads.tobytes(), digest_size=16).digest()
            if digest not in seen:
                seen.add(digest)
                cycle = short_cycle(self.port.size, *self._waits())
                if cycle.size:
                    return self.port[cycle]
        return np.zeros(0, np.int64)

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

    def _used(self) -> Bits:
        """Return `leads` of only those packets that come to a link's switch."""
        if self.sent.all():
            return self.leads
        used = self.leads & self.sent[self.source]
        while True:
            there = np.bitwise_or.reduceat(used[self.back], self.first[:-1]) | self.sent
            before, used = used, self.leads & there[self.source]
            if np.array_equal(before, used):
                return used

    def _waits(self) -> tuple[Ints, Ints]:
        """Return pairs of links (a, b): a packet that came by a may wait for b."""
        degree, used = np.diff(self.first), self._used()
        found = [np.zeros((2, 0), np.int64)]
        for begin, end in _blocks(degree * degree * used.shape[1]):
            out = np.arange(self.first[begin], self.first[end])
            n = degree[self.source[out]]
            came = np.repeat(self.back[out], n)
            leaves = np.repeat(self.first[self.source[out]] - np.cumsum(n) + n, n)
            leaves += np.arange(leaves.size)
            both = (used[came] & used[leaves]).any(axis=1)
            found.append(np.stack([came[both], leaves[both]]))
        came, leaves = np.concatenate(found, axis=1)
        return came, leaves


def _blocks(sizes: Ints) -> Iterator[tuple[int, int]]:
    """Yield the begin and end of runs of items whose sizes add up to BLOCK_BYTES or a little
    more."""
    block = np.cumsum(sizes) // BLOCK_BYTES
    ends = np.flatnonzero(np.diff(block, append=-1)) + 1
    begins = np.concatenate([[0], ends[:-1]])
    yield from zip(begins.tolist(), ends.tolist(), strict=True)


def short_cycle(n: int, waiter: Ints, after: Ints) -> Ints:
    """Return a cycle among n items where `waiter[i]` waits for `after[i]`, none if there is none:
    the shortest through some items of one that is found first."""
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
    """Return the items from `start` on to itself."""
    found = [int(came_from[start])]
    while found[-1] != start:
        found.append(int(came_from[found[-1]]))
    return np.array(found[::-1])
