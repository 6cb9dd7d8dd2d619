"""Bytes that a workload will send between the switches with hosts, and their sum as matchings.

The demand between racks is a sparse table of integers: a row is a dict from column to bytes, all
positive. It can be stuffed to equal sums, given prediction errors, and decomposed into a sum of
matchings: exact, greedy, and perfect ones by weight.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.frozen import frozen
from netsim.model.columns import Ints, Rng, longest_chains
from netsim.model.fabric import PacketFormat, packet_counts
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.workload import RECEIVE, SEND, TaskTable, Workload


@frozen(eq=False)
class Demand:
    """The bytes of n flows between switches with hosts.

    These switches are numbered from 0 in the order of their ids; a host with several ports counts
    at the switch of its first port.
    """

    n_edges: int  # number of switches with hosts
    # src, dst: int64[n], source and destination switch of each flow
    src: Ints
    dst: Ints
    wire_bytes: Ints  # int64[n], bytes of its data packets, headers included
    packet_bytes: int  # size on the wire of the largest packet
    load: Workload  # the workload
    seed: int  # the experiment's seed

    @cached_property
    def level(self) -> Ints:
        """int64[n], phase of each flow: 0 if it waits for no flow, else 1 + the highest phase it
        waits for."""
        return levels(self.load.flows, self.load.tasks)

    def entries(self, these: NDArray[np.bool_] | None = None) -> list[tuple[int, int, int]]:
        """Return (source, destination, bytes) for pairs of different switches, in ascending
        order. All flows count, or `these` (bool[n]), such as `demand.level == 1`."""
        away = self.src != self.dst
        these = away if these is None else away & these
        key = self.src[these] * self.n_edges + self.dst[these]
        pairs, which = np.unique(key, return_inverse=True)
        sums = np.zeros(pairs.size, np.int64)
        np.add.at(sums, which.reshape(-1), self.wire_bytes[these])
        rows, columns = np.divmod(pairs, self.n_edges)
        return list(zip(rows.tolist(), columns.tolist(), sums.tolist(), strict=True))


def demand_of(network: Network, load: Workload, packets: PacketFormat, seed: int) -> Demand:
    flows = load.flows
    switch = network.port_node[network.port_peer[: network.n_host_ports]]
    edges = np.unique(switch)
    of_host = np.searchsorted(edges, switch[network.node_first_port[: network.n_hosts]])
    counts = packet_counts(flows.size_bytes, packets)
    return Demand(
        n_edges=edges.size,
        src=of_host[flows.src],
        dst=of_host[flows.dst],
        wire_bytes=flows.size_bytes + counts * packets.header_bytes,
        packet_bytes=max(packets.payload_bytes + packets.header_bytes, packets.control_bytes),
        load=load,
        seed=seed,
    )


def levels(flows: FlowTable, tasks: TaskTable | None) -> Ints:
    """Return int64[n_flows], the most flows on a dependency chain before each flow. Chains may
    pass through tasks. There must be no cycle."""
    n = len(flows)
    first, then = ([side] for side in flows.edges())
    size = n
    if tasks is not None:
        # Tasks are nodes after all flows.
        size += len(tasks)
        for before, after in (tasks.edges(), tasks.stream_edges()):
            first.append(n + before)
            then.append(n + after)
        sends = np.flatnonzero(tasks.kind == SEND)
        receives = np.flatnonzero(tasks.kind == RECEIVE)
        first += [n + sends, tasks.flow[receives]]
        then += [tasks.flow[sends], n + receives]
    before, after = np.concatenate(first), np.concatenate(then)
    return longest_chains(size, before, after, (before < n).astype(np.int64))[:n]


# --- matchings ------------------------------------------------------------------------------------

Table = list[dict[int, int]]


class Submatching(NamedTuple):
    """Part of a demand: `amount` bytes from each row to its column in `columns`; -1 if none."""

    columns: list[int]
    amount: int


def table_of(n: int, entries: Iterable[tuple[int, int, int]]) -> Table:
    """Return the table of n rows with these (row, column, bytes); duplicates add up."""
    table: Table = [{} for _ in range(n)]
    for row, column, amount in entries:
        if amount > 0:
            table[row][column] = table[row].get(column, 0) + amount
    return table


def sums(table: Table) -> tuple[list[int], list[int]]:
    columns = [0] * len(table)
    for entries in table:
        for column, amount in entries.items():
            columns[column] += amount
    return [sum(entries.values()) for entries in table], columns


def stuffed(table: Table) -> Table:
    """Return a copy with bytes added until every row and column sum is the largest.

    This is QuickStuff (H. Liu et al., Scheduling Techniques for Hybrid Circuit/Packet Networks,
    CoNEXT 2015): it increases existing entries first, so that few new ones are needed. New entries
    start with a row's entry to itself, which needs no circuit.
    """
    found = [dict(sorted(entries.items())) for entries in table]
    rows, columns = sums(found)
    full = max(chain(rows, columns), default=0)
    rows, columns = [full - one for one in rows], [full - one for one in columns]

    def add(row: int, column: int) -> None:
        amount = min(rows[row], columns[column])
        if amount:
            found[row][column] = found[row].get(column, 0) + amount
            rows[row] -= amount
            columns[column] -= amount

    for row, entries in enumerate(table):
        for column in sorted(entries):
            add(row, column)
    for row in range(len(table)):
        add(row, row)
    # The rest has equal sums in rows and columns: fill from one corner to the other.
    row = column = 0
    while row < len(table) and column < len(table):
        add(row, column)
        row, column = (row + 1, column) if not rows[row] else (row, column + 1)
    return found


def take(table: Table, columns: Sequence[int], amount: int) -> None:
    """Subtract `amount` from each row's entry in its column, removing entries that reach 0."""
    for row, column in enumerate(columns):
        left = table[row][column] - amount
        if left:
            table[row][column] = left
        else:
            del table[row][column]


Entry = tuple[int, int, int]


def mispredict(entries: Sequence[Entry], n: int, share: float, rng: Rng) -> list[Entry]:
    """Return entries (row, column, bytes) of n racks with prediction errors. A share of the
    bytes of each entry moves to a random pair of two other racks; the sum stays."""
    rows, columns, amounts = np.array(entries, np.int64).reshape(-1, 3).T
    moved = np.rint(amounts * share).astype(np.int64)
    pair = rng.integers(0, n * (n - 1), rows.size)
    to_row, to_column = np.divmod(pair, n - 1)
    to_column += to_column >= to_row
    found = np.concatenate(
        [np.stack([rows, columns, amounts - moved]), np.stack([to_row, to_column, moved])], axis=1
    )
    return [(row, column, amount) for row, column, amount in found.T.tolist() if amount]


def birkhoff(table: Table) -> list[Submatching]:
    """Return matchings that add up to the table; its row and column sums must all be equal.

    Each is an arbitrary perfect matching, used until its smallest entry is exhausted. By the
    Birkhoff-von Neumann theorem one exists until the table is empty, and n^2 - 2 n + 2 suffice for
    n rows. The number of matchings is not minimized, so many may be short.
    """
    left = [dict(entries) for entries in table]
    parts: list[Submatching] = []
    known: list[int] = []
    while any(left):
        known = perfect_matching(left, known=known)
        parts.append(_part(left, known))
    return parts


def solstice(table: Table) -> list[Submatching]:
    """Return fewer matchings than `birkhoff`: long ones first, with decreasing thresholds.

    The threshold starts as the largest power of two that does not exceed all entries, and is halved
    when no perfect matching has all entries at or above it (H. Liu et al., Scheduling Techniques
    for Hybrid Circuit/Packet Networks, CoNEXT 2015).
    """
    left = [dict(entries) for entries in table]
    parts: list[Submatching] = []
    most = max((amount for entries in left for amount in entries.values()), default=0)
    least = 1 << most.bit_length() >> 1
    known: list[int] = []
    while any(left):
        found = perfect_matching(left, least, known)
        if found:
            known = found
            parts.append(_part(left, found))
        else:
            least >>= 1
    return parts


def _part(left: Table, columns: list[int]) -> Submatching:
    """Subtract a matching from the table until its smallest entry is exhausted, and return it."""
    amount = min(left[row][column] for row, column in enumerate(columns))
    take(left, columns, amount)
    return Submatching(columns, amount)


GREEDY, MAX_WEIGHT, BVN, SOLSTICE = ALGORITHMS = ("greedy", "max_weight", "bvn", "solstice")


def permanent_matchings(table: Table, switches: int, *, bidirectional: bool) -> list[list[int]]:
    """Return the permanent matching of each switch by `greedy`."""
    found: list[list[int]] = greedy(table, switches, bidirectional=bidirectional).tolist()
    return found


def decompose_demand(table: Table, algorithm: str, most: int) -> list[Submatching]:
    """Return one-way matchings for as long as the demand needs them, by `bvn` or `solstice`.

    Beyond `most`, matchings with the fewest bytes are omitted. Racks without demand are
    not joined.
    """
    whole = stuffed(table)
    parts = birkhoff(whole) if algorithm == BVN else solstice(whole)
    longest = sorted(range(len(parts)), key=lambda place: -parts[place].amount)[:most]
    return [_needed(parts[place], table) for place in sorted(longest)]


def _needed(part: Submatching, table: Table) -> Submatching:
    columns = [column if column in table[row] else FREE for row, column in enumerate(part.columns)]
    return part._replace(columns=columns)


def greedy(table: Table, switches: int, *, bidirectional: bool) -> Ints:
    """Return the permanent matchings of circuit switches: int64[switches, n], each row's column, or
    -1.

    The next circuit goes to the pair with the most bytes per circuit, including the new one, while
    both have a free uplink; two racks may thus have several. With `bidirectional`, circuits join
    both directions, and the direction with more bytes counts.

    A rack has one uplink to each circuit switch, so assigning circuits to switches is edge
    coloring: if two racks have no free uplink at the same switch, two switches are swapped along a
    chain of circuits. One-way circuits always allow this (D. König, 1916); bidirectional ones may
    not, and the pair then gets no circuit.
    """
    n = len(table)
    ends = 0 if bidirectional else n  # columns are the rows, or separate ends
    joined = np.full((n + ends, switches), FREE, np.int64)
    worth: dict[tuple[int, int], int] = {}
    for row, entries in enumerate(table):
        for column, amount in entries.items():
            if row != column:
                pair = (min(row, column), max(row, column)) if bidirectional else (row, column)
                worth[pair] = max(worth.get(pair, 0), amount)
    heap = [(-float(amount), pair, 1) for pair, amount in worth.items()]
    heapq.heapify(heap)
    while heap:
        _, pair, count = heapq.heappop(heap)
        if _join(joined, pair[0], ends + pair[1]):
            heapq.heappush(heap, (-worth[pair] / (count + 1), pair, count + 1))
    matchings: Ints = joined[:n].T.copy()
    matchings[matchings != FREE] -= ends
    return matchings


def _join(joined: Ints, one: int, other: int) -> bool:
    """Join two ends by a switch if both have a free uplink, modifying `joined`."""
    here = np.flatnonzero(joined[one] == FREE).tolist()
    there = np.flatnonzero(joined[other] == FREE).tolist()
    switch = next((switch for switch in here if switch in there), None)
    if switch is None:
        ways = ((first, second) for first in here for second in there)
        switch = next((way[0] for way in ways if _change(joined, other, way, one)), None)
    if switch is not None:
        joined[one, switch], joined[other, switch] = other, one
    return switch is not None


def _change(joined: Ints, start: int, way: tuple[int, int], avoid: int) -> bool:
    """Swap two switches along the chain of circuits from `start` on; return whether it was done.

    `start` uses the first switch and not the second. Nothing is done if the chain ends at `avoid`,
    whose free uplink it would take.
    """
    chain, turn = [start], 0
    while (following := int(joined[chain[-1], way[turn]])) != FREE:
        chain.append(following)
        turn = 1 - turn
    if chain[-1] == avoid:
        return False
    for end in chain:
        joined[end, list(way)] = joined[end, list(way[::-1])]
    return True


FREE = -1


def perfect_matching(table: Table, least: int = 1, known: list[int] | None = None) -> list[int]:
    """Return a different column for each row, with entries of at least `least`; [] if impossible.

    Hopcroft-Karp, starting with the entries of `known` that are still in the table, so that a
    matching that has lost few entries is repaired quickly.
    """
    n = len(table)
    column_of = [FREE] * n
    row_of = [FREE] * n
    for row, column in enumerate(known or []):
        if table[row].get(column, 0) >= least:
            column_of[row], row_of[column] = column, row
    while FREE in column_of:
        roots = [row for row, column in enumerate(column_of) if column == FREE]
        level = _levels(table, least, row_of, roots)
        if level is None:
            return []
        entries = [iter(one.items()) for one in table]
        for root in roots:
            _augment(entries, least, column_of, row_of, (level, root))
    return column_of


def _levels(table: Table, least: int, row_of: list[int], roots: list[int]) -> list[int] | None:
    """Return the rows before each row on its shortest alternating path; None if no path ends."""
    level = [FREE] * len(table)
    for root in roots:
        level[root] = 0
    reached, ends = list(roots), False
    for row in reached:
        for column, amount in table[row].items():
            if amount < least:
                continue
            other = row_of[column]
            if other == FREE:
                ends = True
            elif level[other] == FREE:
                level[other] = level[row] + 1
                reached.append(other)
    return level if ends else None


def _augment(
    entries: list[Iterator[tuple[int, int]]],
    least: int,
    column_of: list[int],
    row_of: list[int],
    start: tuple[list[int], int],
) -> None:
    """Match the root by an alternating path from level to level, if one is left. `entries` are the
    entries that no path has tried; `start` has the levels and the root."""
    level, root = start
    rows, columns = [root], [FREE]
    while rows:
        row = rows[-1]
        for column, amount in entries[row]:
            if amount < least:
                continue
            other = row_of[column]
            if other == FREE:
                columns.append(column)
                for one, into in zip(rows, columns[1:], strict=True):
                    column_of[one], row_of[into] = into, one
                return
            if level[other] == level[row] + 1:
                rows.append(other)
                columns.append(column)
                break
        else:
            rows.pop()
            columns.pop()


def slot_by_slot(
    table: Table, capacity: int, most: int, *, bidirectional: bool
) -> list[Submatching]:
    """Return the best matching for a slot of `capacity` bytes, then for the rest, and so on.

    Stops after `most` matchings or when nothing remains. With `bidirectional`, matchings are
    symmetric.
    """
    left = [dict(entries) for entries in table]
    parts: list[Submatching] = []
    while any(left) and len(parts) < most:
        worth = [
            {column: min(amount, capacity) for column, amount in entries.items()}
            for entries in left
        ]
        columns = heaviest_pairs(worth) if bidirectional else heaviest(worth)
        for row, column in enumerate(columns):
            if column in left[row]:
                left[row][column] -= capacity
                if left[row][column] <= 0:
                    del left[row][column]
        parts.append(Submatching(columns, capacity))
    return parts


def heaviest(table: Table) -> list[int]:
    """Return each row's column, or -1, all different, with the largest sum of entries.

    Rows join one by one, each by the cheapest alternating path (H. W. Kuhn's method, with
    Dijkstra's algorithm on reduced weights). A row whose price falls to 0 stays unmatched.
    """
    n = len(table)
    price_of_row = [max(entries.values(), default=0) for entries in table]
    price_of_column = [0] * n
    column_of, row_of = [FREE] * n, [FREE] * n
    for root in range(n):
        came_from: dict[int, int] = {}  # previous row of a column
        rows, columns = {root: 0}, {}  # cost of reached columns
        heap: list[tuple[int, int, int]] = []
        row, cost = root, 0
        while True:
            heapq.heappush(heap, (cost + price_of_row[row], FREE, row))
            for column, weight in table[row].items():
                if column not in columns:
                    reached = cost + price_of_row[row] + price_of_column[column] - weight
                    heapq.heappush(heap, (reached, column, row))
            cost, end, row = heapq.heappop(heap)
            while end in columns:
                cost, end, row = heapq.heappop(heap)
            if end == FREE:
                break
            came_from[end], columns[end] = row, cost
            if row_of[end] == FREE:
                break
            row = row_of[end]
            rows[row] = cost
        for one, reached in rows.items():
            price_of_row[one] -= cost - reached
        for one, reached in columns.items():
            price_of_column[one] += cost - reached
        if end == FREE:  # `row` stays out, and the previous row may take its column
            end = column_of[row]
            column_of[row] = FREE
        while end != FREE:
            one = came_from[end]
            row_of[end] = one
            column_of[one], end = end, column_of[one]
    return column_of


def heaviest_pairs(table: Table) -> list[int]:
    """Like `heaviest`, but the matching is symmetric: if i has column j, j has column i."""
    import networkx as nx

    graph: nx.Graph[int] = nx.Graph()
    for row, entries in enumerate(table):
        for column, amount in entries.items():
            if row != column:
                back = table[column].get(row, 0)
                graph.add_edge(row, column, weight=amount + back)
    columns = [FREE] * len(table)
    for one, other in nx.max_weight_matching(graph):
        columns[one], columns[other] = other, one
    return columns
