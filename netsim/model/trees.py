"""Fat trees of any number of tiers: shape, construction, counts by formula, and `.topo` files.

A tree of n tiers is several trees of n - 1 tiers with additional switches above: two tiers are a
pod, pods and cores make three tiers, and so on. Every switch of a tier has the same number of
switches above it, in its own subtree only, with the same number of parallel cables to each. There
is one path down from a switch to each leaf below it, except for parallel cables; packets have a
choice on the way up only. (In the literature: extended generalized fat tree, XGFT(n; children; 1,
parents).)

The fully provisioned tree of n tiers of switches with k ports, half of them up except at the top,
has one host for each choice of ports on the way down:

    hosts = 2 (k/2)^n                                       k^2/2, k^3/4, k^4/8

Each host's share is two ports of a switch in every tier (one at the top), and one cable between
adjacent tiers. N hosts, even if the tree is not full, need

    switches = (2n - 1) N / k,    cables between switches = (n - 1) N,    and N cables to hosts

p planes divide a host's port into p ports of 1/p of its rate, and a switch chip then has p times as
many ports: fewer tiers suffice. Rails divide the hosts among separate networks. After "I've Got 99
Problems But FLOPS Ain't One" (HotNets 2024), section 6.1.

The `.topo` files of htsim describe fat trees of two and three tiers. Each line is a word, in upper
or lower case, and a whole number; `#` starts a comment. `Nodes`, `Tiers` and `Podsize` (hosts per
pod) are followed by a section for each tier, `Tier 0` at the hosts:

    Downlink_speed_Gbps, Downlink_Latency_ns    of the cables toward the hosts
    Radix_Down, Radix_Up                        ports of a switch; none up in the top tier
    Bundle                                      parallel cables to each switch below, default 1
    Switch_Latency_ns
    Queue_Down, Queue_Up, Oversubscribed        ignored: the fabric defines queues, and the
                                                radices the oversubscription
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from netsim.common.inputs import at_line, read_lines, whole
from netsim.errors import InputError
from netsim.frozen import frozen
from netsim.limits import COUNT, DELAY_PS, RATE_BPS
from netsim.model.builder import NetworkBuilder
from netsim.units import written

TIERS = ("leaf", "spine", "core", "supercore")  # switches of each tier, from the hosts up


@frozen
class Tree:
    """The settled shape of a tree. All tuples start at the leaves."""

    # n counts: hosts of a leaf, then subtrees below a switch of each further tier, in each of which
    # it is connected to one switch
    children: tuple[int, ...]
    parents: tuple[int, ...]  # n - 1 counts: switches above a switch that it is connected to
    # n - 1 counts: parallel cables between a switch and each of its parents
    bundles: tuple[int, ...]
    # rates_bps, delays_ps: n values: of the cables below each tier; the first are the cables to
    # hosts
    rates_bps: tuple[int, ...]
    delays_ps: tuple[int, ...]
    latencies_ps: tuple[int, ...]  # n values: of the switches of each tier

    @property
    def tiers(self) -> int:
        return len(self.children)

    @property
    def n_hosts(self) -> int:
        return prod(self.children)

    @property
    def switches(self) -> tuple[int, ...]:
        return tuple(
            prod(self.children[tier + 1 :]) * prod(self.parents[:tier])
            for tier in range(self.tiers)
        )

    @property
    def cables(self) -> tuple[int, ...]:
        """Number of cables below each tier, from the cables to hosts up."""
        above = zip(self.switches[:-1], self.uplinks, strict=True)
        return (self.n_hosts, *map(prod, above))

    @property
    def ports(self) -> tuple[int, ...]:
        return tuple(map(sum, zip(self.downlinks, (*self.uplinks, 0), strict=True)))

    @property
    def downlinks(self) -> tuple[int, ...]:
        return tuple(map(prod, zip(self.children, (1, *self.bundles), strict=True)))

    @property
    def uplinks(self) -> tuple[int, ...]:
        return tuple(map(prod, zip(self.parents, self.bundles, strict=True)))


def reserve_trees(builder: NetworkBuilder, tree: Tree, planes: int = 1) -> None:
    """Announce `planes` equal trees and their hosts to the builder. Raises InputError if they
    cannot be built or do not fit into memory."""
    builder.reserve(
        hosts=tree.n_hosts,
        switches=planes * sum(tree.switches),
        cables=planes * sum(tree.cables),
        ports=max(planes, *tree.ports),
    )


def add_tree(
    builder: NetworkBuilder, tree: Tree, hosts: NDArray[np.int64], prefix: str = "", nic: int = 0
) -> None:
    """Add the switches and cables of a tree above existing hosts, filling leaf after leaf.

    Switches are added tier by tier from the leaves up, each subtree's consecutively; cables
    from the hosts up, switch by switch, in the order of their upper ends. A switch thus has the
    ports to its children first, then the ports to its parents, both in order.

    Args:
        builder: gets the switches and cables.
        hosts: int64[tree.n_hosts], their ids.
        prefix: prepended to the name of each switch, such as "plane0.".
        nic: the NIC of each host that gets a port.
    """
    nodes = []
    for tier, count in enumerate(tree.switches):
        names = [f"{prefix}{TIERS[tier]}{i}" for i in range(count)]
        added = builder.add_switches(names, tier, tree.latencies_ps[tier])
        nodes.append(np.arange(added.start, added.stop))
    above = np.repeat(nodes[0], tree.children[0])
    builder.cables(hosts, above, tree.rates_bps[0], tree.delays_ps[0], nic=nic)
    for tier, (parents, bundle) in enumerate(zip(tree.parents, tree.bundles, strict=True)):
        width = prod(tree.parents[:tier])  # switches of this tier in a subtree
        subtree, index = np.divmod(np.arange(nodes[tier].size), width)
        first = subtree // tree.children[tier + 1] * (width * parents) + index * parents
        up = first[:, None] + np.repeat(np.arange(parents), bundle)
        builder.cables(
            np.repeat(nodes[tier], up.shape[1]),
            nodes[tier + 1][up.reshape(-1)],
            tree.rates_bps[tier + 1],
            tree.delays_ps[tier + 1],
        )


def most_hosts(tiers: int, radix: int) -> int:
    """Return the hosts of the largest fully provisioned tree of switches with even `radix`."""
    reached: int = 2 * (radix // 2) ** tiers
    return reached


def switches_needed(hosts: int, tiers: int, radix: int) -> Fraction:
    """Return the switches of a fully provisioned tree; a fraction if not evenly divisible."""
    return Fraction((2 * tiers - 1) * hosts, radix)


def fabric_cables_needed(hosts: int, tiers: int) -> int:
    """Return the cables between switches of a fully provisioned tree, each of a host's rate."""
    return (tiers - 1) * hosts


@frozen
class _Tier:
    """A tier of a .topo file; downlinks are the cables toward the hosts."""

    rate_bps: int = 0
    radix_down: int = 0
    radix_up: int = 0
    bundle: int = 1
    delay_ps: int = 0
    latency_ps: int = 0


_TIER_KEYS = {
    "downlink_speed_gbps": ("rate_bps", 10**9),
    "radix_down": ("radix_down", 1),
    "radix_up": ("radix_up", 1),
    "bundle": ("bundle", 1),
    "downlink_latency_ns": ("delay_ps", 1000),
    "switch_latency_ns": ("latency_ps", 1000),
}
_TIER_LIMITS = {"rate_bps": RATE_BPS, "delay_ps": DELAY_PS, "latency_ps": DELAY_PS}
_TOTALS = ("nodes", "tiers", "podsize")
_IGNORED_KEYS = ("queue_down", "queue_up", "oversubscribed")


def read_topo(path: Path) -> Tree:
    """Return the tree that an htsim .topo file describes.

    Raises InputError, naming the file and line, for an unreadable file, an unknown or repeated
    word, and missing or contradictory numbers.
    """
    totals: dict[str, int] = {}
    tiers: dict[int, _Tier] = {}
    current: int | None = None
    seen: set[tuple[int | None, str]] = set()
    for number, line in read_lines(path):
        words = line.split()
        key = words[0].lower()
        try:
            value = whole(words[1]) if len(words) == 2 else -1
        except ValueError:
            value = -1
        if value < 0:
            raise at_line(path, number, f"{written(line)} is not a word and a whole number")
        place = None if key in _TOTALS else value if key == "tier" else current
        if (place, key) in seen:
            what = f"tier {value}" if key == "tier" else words[0]
            raise at_line(path, number, f"duplicate {what}")
        seen.add((place, key))
        if key == "tier":
            current = value
            tiers[current] = _Tier()
        elif key in _TOTALS:
            totals[key] = value
        elif key in _TIER_KEYS and current is not None:
            name, scale = _TIER_KEYS[key]
            limit = _TIER_LIMITS.get(name, COUNT)
            if value * scale > limit:
                message = f"{words[0]} {value} is too large"
                raise at_line(path, number, message, f"at most {limit // scale}")
            tiers[current] = replace(tiers[current], **{name: value * scale})
        elif key not in _IGNORED_KEYS:
            raise at_line(path, number, f"unknown word {written(words[0])}")
    return _tree(path, totals, tiers)


def _tree(path: Path, totals: Mapping[str, int], by_number: Mapping[int, _Tier]) -> Tree:
    count, nodes = totals.get("tiers", 0), totals.get("nodes", 0)
    if count not in (2, 3) or set(by_number) != set(range(count)) or not nodes:
        message = "must have Nodes, Tiers 2, Tier 0 and Tier 1, or Tiers 3 and also Tier 2"
        raise InputError(message, file=str(path))
    tiers = [by_number[number] for number in range(count)]
    for number, tier in enumerate(tiers):
        if not (tier.radix_down and tier.rate_bps and tier.bundle):
            message = f"tier {number} must have Downlink_speed_Gbps and Radix_Down"
            raise InputError(message, file=str(path))
    if tiers[0].bundle != 1:
        raise InputError("Bundle of tier 0 must be 1: a host has one cable", file=str(path))
    pod = totals.get("podsize", 0)
    if count == 3 and not pod:
        raise InputError("missing Podsize, the hosts per pod", file=str(path), code="missing")
    # From the hosts up: hosts of a subtree, subtrees below a switch, switches above it.
    sizes = [tiers[0].radix_down, *([pod] if count == 3 else []), nodes]
    children = [sizes[0], *(larger // size for size, larger in pairwise(sizes))]
    parents = [low.radix_up // high.bundle for low, high in pairwise(tiers)]
    bundles = [high.bundle for high in tiers[1:]]
    even = all(larger % size == 0 for size, larger in pairwise(sizes)) and all(
        low.radix_up and low.radix_up % high.bundle == 0 and high.radix_down == below * high.bundle
        for below, (low, high) in zip(children[1:], pairwise(tiers), strict=True)
    )
    if not even:
        radices = ", ".join(f"{one.radix_down} down and {one.radix_up} up" for one in tiers[:-1])
        raise InputError(
            f"{nodes} hosts with radices {radices}, {tiers[-1].radix_down} down do not form a "
            f"regular {'two' if count == 2 else 'three'}-tier tree",
            file=str(path),
        )
    if count == 2 and pod not in (0, nodes):
        message = f"Podsize {pod} conflicts with Tiers 2, which is one pod"
        raise InputError(message, file=str(path), hint=f"Podsize {nodes}, or Tiers 3")
    return Tree(
        children=tuple(children),
        parents=tuple(parents),
        bundles=tuple(bundles),
        rates_bps=tuple(tier.rate_bps for tier in tiers),
        delays_ps=tuple(tier.delay_ps for tier in tiers),
        latencies_ps=tuple(tier.latency_ps for tier in tiers),
    )


def format_topo(tree: Tree) -> str:
    """Return the .topo file of a tree of two or three tiers, all cables of one rate. Raises
    InputError for a tree that such a file cannot describe."""
    if tree.tiers > 3:
        raise InputError("more than three tiers", key="topology.tiers")
    if len(set(tree.rates_bps)) > 1:
        raise InputError("differs from the hosts' rate", key="topology.fabric_rate")
    pod = prod(tree.children[:2])
    lines = [f"Nodes {tree.n_hosts}", f"Tiers {tree.tiers}", f"Podsize {pod}"]
    columns = (tree.downlinks, tree.rates_bps, tree.delays_ps, tree.latencies_ps)
    for tier, (down, rate_bps, delay_ps, latency_ps) in enumerate(zip(*columns, strict=True)):
        lines += [
            f"Tier {tier}",
            f"Downlink_speed_Gbps {_exact(rate_bps, 10**9, 'host_rate')}",
            f"Downlink_Latency_ns {_exact(delay_ps, 1000, 'link_latency')}",
            f"Switch_Latency_ns {_exact(latency_ps, 1000, 'switch_latency')}",
            f"Radix_Down {down}",
        ]
        if tier > 0:
            lines.append(f"Bundle {tree.bundles[tier - 1]}")
        if tier < tree.tiers - 1:
            up = tree.uplinks[tier]
            lines += [f"Radix_Up {up}", f"Oversubscribed {_exact(down, up, 'oversubscription')}"]
    return "\n".join(lines) + "\n"


def _exact(value: int, unit: int, key: str) -> int:
    """Return a value in a unit of the file, which has only whole numbers."""
    if value % unit:
        raise InputError("not a whole number in a .topo file", key=f"topology.{key}")
    return value // unit
