"""htsim's `.topo` files, read and written: fat trees of two and three tiers.

Each line is a word, in upper or lower case, and a whole number; `#` starts a comment. `Nodes`,
`Tiers` and `Podsize` (hosts per pod) are followed by a section for each tier, `Tier 0` at the
hosts:

    Downlink_speed_Gbps, Downlink_Latency_ns    of the cables toward the hosts
    Radix_Down, Radix_Up                        ports of a switch; none up in the top tier
    Bundle                                      parallel cables to each switch below, default 1
    Switch_Latency_ns
    Queue_Down, Queue_Up, Oversubscribed        ignored: the fabric defines queues, and the
                                                radices the oversubscription
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from pathlib import Path

from netsim.common.inputs import at_line, read_lines, whole
from netsim.errors import InputError
from netsim.limits import COUNT, DELAY_PS, RATE_BPS
from netsim.model.trees import Tree
from netsim.units import written


@dataclass(frozen=True)
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
    """Return the .topo file of a tree of two or three tiers, all cables of one rate.

    Raises InputError for a tree that such a file cannot describe.
    """
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
            lines += [
                f"Radix_Up {up}",
                f"Oversubscribed {_exact(down, up, 'oversubscription')}",
            ]
    return "\n".join(lines) + "\n"


def _exact(value: int, unit: int, key: str) -> int:
    """Return a value in a unit of the file, which has only whole numbers."""
    if value % unit:
        raise InputError("not a whole number in a .topo file", key=f"topology.{key}")
    return value // unit
