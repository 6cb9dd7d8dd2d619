"""Where the nodes of a network are drawn, by plots and by the report, from its links alone.

Hosts are below, switches above them by their distance from hosts, and switches of networks inside
racks below the hosts. Hosts of the same switches are drawn as one, as are neighbors in a row of
many, so planes and rails are side by side. Switches of a mesh are on a circle, hosts around it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netsim.common.documents import DAMAGED
from netsim.errors import InputError
from netsim.results.files import LINKS

if TYPE_CHECKING:
    import polars as pl

    from netsim.model.network import Network

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

ALL_HOSTS, MAX_IN_ROW, MAX_LINES = 64, 200, 20_000
"""Hosts drawn one by one; nodes drawn in a row; lines drawn."""


@dataclass(frozen=True)
class Links:
    """The links of a network.

    Attributes:
        names, is_host: of the nodes.
        number: int64[links], increasing.
        start, end: int64[links], nodes.
        texts: names of the ends of each link, if they say more than those of nodes.
        n_above: how many nodes, the last ones, are in a row above all others.
    """

    names: list[str]
    is_host: NDArray[np.bool_]
    number: Ints
    start: Ints
    end: Ints
    texts: tuple[list[str], list[str]] = field(default_factory=lambda: ([], []))
    n_above: int = 0


@dataclass(frozen=True)
class Graph:
    """A drawing of the network.

    Attributes:
        names, x, y: of the drawn nodes; x and y are between 0 and 1, hosts at the largest y.
        members: number of nodes that each stands for.
        group: int64[nodes], the drawn node that stands for each.
        is_host: whether it stands for hosts.
        is_round: whether it is a circle.
        ends: int64[lines, 2], the nodes of each line.
        line_of: int64[links], the half of a line that each link is: 2 * line, + 1 for links from
            its second end; -1 if it is inside a drawn node.
        link_names: "leaf0 -> spine3" by link.
    """

    names: list[str]
    x: Floats
    y: Floats
    members: Ints
    group: Ints
    is_host: NDArray[np.bool_]
    is_round: bool
    ends: Ints
    line_of: Ints
    link_names: list[str]

    def per_half(self, values: Floats, how: str = "max") -> Floats:
        """Return the largest (or the sum) of a link's value on each half of a line."""
        found = np.zeros(2 * len(self.ends))
        shown = self.line_of >= 0
        (np.maximum if how == "max" else np.add).at(found, self.line_of[shown], values[shown])
        return found


def per_link(links: pl.DataFrame, column: str) -> Floats:
    """Return the sum of a column over the classes of each link."""
    index = links["link"].to_numpy()
    values = links[column].fill_null(0).to_numpy().astype(float)
    found: Floats = np.bincount(index, values, int(index.max(initial=-1)) + 1).astype(float)
    return found


def failed_links(faults: pl.DataFrame | None) -> Ints:
    """Return the numbers of the links that faults of a result name."""
    if faults is None:
        return np.zeros(0, np.int64)
    links = faults.filter(faults["event"] != "reroute")["link"].drop_nulls()
    return np.unique(links.to_numpy()).astype(np.int64)


def links_of_table(links: pl.DataFrame) -> Links:
    """Return the links of a result's table: nothing is built and no plugin runs. Raises InputError
    for numbers of links or nodes that no network of this size has."""
    import polars as pl

    _check(links)
    one = links.unique("link", keep="first", maintain_order=True).sort("link")
    start, end = one["from_node"].to_numpy(), one["to_node"].to_numpy()
    n = int(max(start.max(initial=0), end.max(initial=0))) + 1
    texts = [one[f"{which}_name"].cast(pl.String).to_list() for which in ("from", "to")]
    names, hosts = _nodes(n, start, texts[0])
    return Links(names, hosts, one["link"].to_numpy(), start, end, (texts[0], texts[1]))


def links_of(network: Network) -> Links:
    """Return the links of a network. One over a circuit is two, to and from the circuit switch; its
    number is that of the port, plus the number of ports for the second."""
    n, ports = network.n_nodes, np.arange(network.n_ports)
    names = [network.node_name(node) for node in range(n)]
    start = network.port_node.astype(np.int64)
    end = start[network.port_peer]
    if network.circuits is not None:
        over = network.circuits.of_port.astype(np.int64)
        names += [str(name) for name in network.circuits.names]
        by = np.flatnonzero(over >= 0)
        start, end, ports = (
            np.concatenate(pair)
            for pair in (
                (start, n + over[by]),
                (np.where(over >= 0, n + over, end), end[by]),
                (ports, network.n_ports + by),
            )
        )
    is_host = np.arange(len(names)) < network.n_hosts
    return Links(names, is_host, ports, start, end, n_above=len(names) - n)


def graph_of(links: Links, in_row: int = MAX_IN_ROW) -> Graph:
    """Return the drawing of a network with at most `in_row` switches in a row (of a circle: 200)
    and as many hosts, or ALL_HOSTS."""
    names, start, end = links.names, links.start, links.end
    tier = _tiers(len(names), start, end, links.is_host)
    tier[len(names) - links.n_above :] = tier.max() + 1
    switches = (tier > 0).sum()
    is_meshed = bool((tier[start] == tier[end]).any()) and switches == (tier == 1).sum()
    is_round = is_meshed and switches > 3
    group = _host_groups(len(names), start, end, links.is_host)
    group = _few(group, tier, names, MAX_IN_ROW if is_round else in_row)
    kept, group = np.unique(group, return_inverse=True)
    drawn_tier = tier[kept]
    members = np.bincount(group)
    titles = [_title(names, np.flatnonzero(group == g)) for g in range(len(kept))]
    x, y = (_circle if is_round else _rows)(start, end, group, drawn_tier, titles)
    ends, line_of = _lines(group[start], group[end])
    all_links = np.full(int(links.number.max(initial=-1)) + 1, -1)
    all_links[links.number] = line_of
    named = [""] * len(all_links)
    for link, a, b in zip(links.number.tolist(), *links.texts, strict=False):
        named[link] = f"{a} → {b}"
    is_host = drawn_tier == 0
    return Graph(titles, x, y, members, group, is_host, is_round, ends, all_links, named)


def _check(links: pl.DataFrame) -> None:
    """Raise InputError for numbers of links or nodes that no network of this size has."""
    for column, most in (
        ("link", len(links)),
        ("from_node", 2 * len(links)),
        ("to_node", 2 * len(links)),
    ):
        known = links[column].null_count() == 0 and links[column].dtype.is_integer()
        if not known or not links[column].is_between(0, most - 1).all():
            raise InputError("out of range", file=LINKS, key=column, hint=DAMAGED)


def _nodes(n: int, start: Ints, texts: list[str]) -> tuple[list[str], NDArray[np.bool_]]:
    """Return the name of each node, and which are hosts (named after their number)."""
    names = [f"node {k}" for k in range(n)]
    hosts = np.zeros(n, bool)
    for node, text in zip(start.tolist(), texts, strict=True):
        plain = text.partition(":")[0]
        hosts[node] = plain == f"h{node}"
        names[node] = plain if hosts[node] else text
    return names, hosts


def _tiers(n: int, start: Ints, end: Ints, hosts: NDArray[np.bool_]) -> Ints:
    """Return the distance of each node from the hosts; -1 for switches of hosts that have no
    switch above, if others do (networks inside racks)."""
    tier = np.where(hosts, 0, n)
    while True:
        nearest = np.full(n, n)
        np.minimum.at(nearest, end, tier[start] + 1)
        closer = nearest < tier
        if not closer.any():
            break
        tier[closer] = nearest[closer]
    tier[tier == n] = 1
    above = np.zeros(n, bool)
    np.logical_or.at(above, start, (tier[end] > tier[start]) & (tier[start] > 0))
    first = tier == 1
    if (first & above).any() and (first & ~above).any():
        tier[first & ~above] = -1
    return tier


def _host_groups(n: int, start: Ints, end: Ints, hosts: NDArray[np.bool_]) -> Ints:
    """Return the first node of each node's group: hosts of the same switches are one group."""
    group = np.arange(n)
    if hosts.sum() <= ALL_HOSTS:
        return group
    order = np.lexsort((end, start))
    first: dict[tuple[int, ...], int] = {}
    bounds = np.searchsorted(start[order], np.arange(n + 1))
    for host in np.flatnonzero(hosts).tolist():
        key = tuple(end[order[bounds[host] : bounds[host + 1]]].tolist())
        group[host] = first.setdefault(key, host)
    return group


def _few(group: Ints, tier: Ints, names: list[str], in_row: int) -> Ints:
    """Join neighbors in rows with too many nodes."""
    for row in np.unique(tier).tolist():
        heads = sorted(np.unique(group[tier == row]).tolist(), key=lambda k: natural(names[k]))
        most = in_row if row else max(in_row, ALL_HOSTS)
        if len(heads) > most:
            each = -(-len(heads) // most)
            joined = {head: heads[k // each * each] for k, head in enumerate(heads)}
            its = tier == row
            group[its] = [joined[head] for head in group[its].tolist()]
    return group


def natural(name: str) -> list[Any]:
    """Return a key that sorts leaf2 before leaf10."""
    return [(0, int(part[:18]), "") if part.isdecimal() else (1, 0, part)
            for part in re.split(r"(\d+)", name)]  # fmt: skip


def _title(names: list[str], nodes: Ints) -> str:
    if len(nodes) == 1:
        return str(names[nodes[0]])
    return f"{names[nodes[0]]} to {names[nodes[-1]]} ({len(nodes):,})"


def _lines(a: Ints, b: Ints) -> tuple[Ints, Ints]:
    """Return the lines between drawn nodes, and the half of a line that each link is."""
    low, high = np.minimum(a, b), np.maximum(a, b)
    outside = low != high
    pairs, line = np.unique(np.stack([low, high], 1)[outside], axis=0, return_inverse=True)
    half = np.full(len(a), -1)
    half[outside] = 2 * line.ravel() + (a > b)[outside]
    half[half >= 2 * MAX_LINES] = -1
    return pairs[:MAX_LINES], half


def _rows(
    start: Ints, end: Ints, group: Ints, tier: Ints, names: list[str]
) -> tuple[Floats, Floats]:
    """Return x and y of the drawn nodes in rows, between 0 and 1."""
    n = len(tier)
    x, y = np.zeros(n), np.zeros(n)
    rows = np.unique(tier).tolist()
    above = _neighbor(start, end, group, tier)
    for height, row in enumerate(rows):
        its = np.flatnonzero(tier == row).tolist()
        if row == 0:  # below their switches
            its.sort(key=lambda k: (natural(names[above[k]]) if above[k] >= 0 else [], k))
        else:
            its.sort(key=lambda k: natural(names[k]))
        x[its] = (np.arange(len(its)) + 0.5) / len(its)
        y[its] = 0.95 - 0.9 * (height + 0.5 * (len(rows) == 1)) / max(len(rows) - 1, 1)
    return x, y


def _neighbor(start: Ints, end: Ints, group: Ints, tier: Ints) -> Ints:
    """Return a switch of tier 1 next to each drawn node, -1 without one."""
    found = np.full(len(tier), -1)
    a, b = group[start], group[end]
    upward = tier[b] == 1
    found[a[upward]] = b[upward]
    return found


def _circle(
    start: Ints, end: Ints, group: Ints, tier: Ints, names: list[str]
) -> tuple[Floats, Floats]:
    """Place switches on a circle and hosts outside."""
    switches = sorted(np.flatnonzero(tier != 0).tolist(), key=lambda k: natural(names[k]))
    angle = np.zeros(len(tier))
    angle[switches] = 2 * np.pi * np.arange(len(switches)) / len(switches)
    above = _neighbor(start, end, group, tier)
    hosts = np.flatnonzero(tier == 0)
    step = 2 * np.pi / len(switches)
    of: dict[int, list[int]] = {}
    for host in hosts.tolist():
        of.setdefault(int(above[host]), []).append(host)
    for switch, its in of.items():
        spread = (np.arange(len(its)) - (len(its) - 1) / 2) / max(len(its), 1)
        angle[its] = angle[switch] + 0.8 * step * spread
    radius = np.where(tier == 0, 0.48, 0.4)
    return 0.5 + radius * np.sin(angle), 0.5 - radius * np.cos(angle)
