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

BLOCK_BYTES = 1 << 24
"""Memory for a part of what is compared at a time."""

STARTS = 64
"""Links of a cycle through which a shorter one is searched."""

NAMED = 12
"""Links of a cycle that a message names."""


def waiting_cycle(network: Network, routes: RouteChanges | None = None) -> Ints:
    """Return the ports whose links form a cycle in which packets may wait for each other, each for
    the next and the last for the first; none if PFC cannot deadlock.

    `routes` are those while links are down (default: the network's own). Packets may follow any
    candidate of any row, to every group and by every table. Raises InputError if the routes do not
    fit into memory.
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
            cycle = _Links(network, switches, routes).cycle()
            if cycle.size:
                return cycle
    return np.zeros(0, np.int64)


def cycle_text(network: Network, ports: Ints) -> str:
    """Return a cycle of links as "s0:1 -> s1:1 -> s0:1", by the ports that they leave."""
    names = [network.port_name(port) for port in ports[:NAMED].tolist()]
    more = [f"({ports.size - NAMED} more)"] * (ports.size > NAMED)
    return " -> ".join([*names, *more, names[0]])


class _Links:
    """The links between some switches, of one network, and the destinations to which they lead.

    Attributes:
        port: int64[n], the port that each link leaves, ascending.
        source, target: int64[n], the switches at its ends, counted within the network.
        first: int64[n_switches + 1], the first link that leaves each switch.
        leads: uint8[n, ...], a bit for each destination (a group in one of the tables): whether
            packets to it may take the link.
    """

    def __init__(self, network: Network, switches: Ints, routes: RouteChanges) -> None:
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
        self.leads = self._leads(network, switches, routes)
        edges = np.isin(switches, network.edge_switch)
        if not edges.all():
            self._keep_reached(edges)

    def _leads(self, network: Network, switches: Ints, routes: RouteChanges) -> Bits:
        """Return `leads` by all rows of the switches' routes."""
        groups = network.first_group[network.switch_network[switches[0]] :][:2]
        length = network.n_tables * int(groups[1] - groups[0])
        what = f"the links of {switches.size:,} switches to {length:,} destinations"
        require_room(self.port.size * length // 8, what=what, key="topology")
        leads = np.zeros((self.port.size, -(-length // 8)), np.uint8)
        first_port = network.node_first_port[switches + network.n_hosts]
        # The links of a switch by its local ports; those to hosts are in no row.
        local = self.port - first_port[self.source]
        for begin, end in _blocks(np.diff(self.first) * length):
            rows = indices(routes.row_ptr, switches[begin:end])
            switch = np.repeat(np.arange(begin, end), np.diff(routes.row_ptr)[switches[begin:end]])
            one, last = self.first[begin], self.first[end]
            width = int(local[one:last].max(initial=0)) + 1
            link = np.full((end - begin, width), -1)
            link[self.source[one:last] - begin, local[one:last]] = np.arange(last - one)
            marked = np.zeros((last - one, length), bool)
            for row, of_row in zip(rows.tolist(), switch.tolist(), strict=True):
                entry = routes.route[routes.row_first[row] :][:length]
                group = np.flatnonzero(entry > 0)
                offset, count = entry[group] >> COUNT_BITS, entry[group] & COUNT_MASK
                k = 0
                while group.size:
                    marked[link[of_row - begin, routes.route_ports[offset + k]], group] = True
                    k += 1
                    more = count > k
                    group, offset, count = group[more], offset[more], count[more]
            leads[one:last] = np.packbits(marked, axis=1)
        return leads

    def _keep_reached(self, edges: NDArray[np.bool_]) -> None:
        """Clear the bits of destinations to which no packet comes to a link's switch: hosts send
        to all from the `edges`."""
        everywhere = np.where(edges[:, None], np.uint8(255), np.uint8(0))
        reached, leads = np.zeros_like(everywhere), self.leads
        while True:
            used = leads & (reached | everywhere)[self.source]
            before, reached = reached, np.zeros((edges.size, leads.shape[1]), np.uint8)
            np.bitwise_or.at(reached, self.target, used)
            if np.array_equal(before, reached):
                self.leads = used
                return

    def waits(self) -> tuple[Ints, Ints]:
        """Return pairs of links (a, b): a packet that came in by a may wait for b."""
        degree = np.diff(self.first)
        found = [np.zeros((2, 0), np.int64)]
        for begin, end in _blocks(degree * degree * self.leads.shape[1]):
            out = np.arange(self.first[begin], self.first[end])
            n = degree[self.source[out]]
            came = np.repeat(self.back[out], n)
            leaves = np.repeat(self.first[self.source[out]] - np.cumsum(n) + n, n)
            leaves += np.arange(leaves.size)
            both = (self.leads[came] & self.leads[leaves]).any(axis=1)
            found.append(np.stack([came[both], leaves[both]]))
        a, b = np.concatenate(found, axis=1)
        return a, b

    def cycle(self) -> Ints:
        """Return the ports of a cycle of links that may wait for each other, if there is one."""
        return self.port[short_cycle(self.port.size, *self.waits())]


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
