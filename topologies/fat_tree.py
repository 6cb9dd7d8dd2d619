"""Two-tier fat tree (leaf-spine), fully provisioned or oversubscribed.

Hosts are numbered leaf by leaf: leaf l holds hosts l*hosts_per_leaf and following. A leaf's
ports are its hosts, then its uplinks in the order of spines; a spine's ports are in the order
of leaves. A leaf may have several parallel cables to each spine.

Of `spines`, `uplinks` (cables from one leaf to all spines) and `oversubscription` it is
enough to give one; what is given must agree:

    uplinks * fabric_rate * oversubscription = hosts_per_leaf * host_rate

With only `spines`, a leaf has one cable to each. With none, the tree is fully provisioned.

With several `planes` there are as many trees of that shape side by side, and every host has a port
in each, of its share of `host_rate`; `fabric.planes` says how packets are spread over them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.inputs import at_line, read_lines, whole
from netsim.limits import COUNT, DELAY_PS, RATE_BPS
from netsim.network import Network, NetworkBuilder
from netsim.params import Param
from netsim.units import format_rate, written

PARAMS = [
    Param("hosts_per_leaf", "count", None, "hosts under each leaf", minimum=1, optional=True),
    Param("leaves", "count", None, "leaf switches", minimum=1, optional=True),
    Param("spines", "count", None, "spine switches", minimum=1, optional=True),
    Param("uplinks", "count", None, "cables from a leaf to the spines", minimum=1, optional=True),
    Param(
        "oversubscription",
        "ratio",
        None,
        "capacity of a leaf's hosts over that of its uplinks; 1 is fully provisioned",
        minimum=0.001,
        maximum=1000,
        optional=True,
    ),
    Param("host_rate", "rate", "800Gbps", "line rate of a host, of all its ports together"),
    Param("planes", "count", 1, "trees side by side, each with a port of every host", minimum=1),
    Param(
        "fabric_rate",
        "rate",
        None,
        "line rate between leaf and spine; that of a host's port by default",
        optional=True,
    ),
    Param("link_latency", "time", "1us", "propagation of a cable"),
    Param(
        "host_link_latency",
        "time",
        None,
        "propagation between host and leaf; link_latency by default",
        optional=True,
    ),
    Param("switch_latency", "time", "0ns", "from a packet's last bit in to its output queue"),
    Param(
        "topo_file",
        "file",
        None,
        "an htsim .topo file of two tiers, in place of all other parameters",
        optional=True,
    ),
]


@dataclass(frozen=True)
class Shape:
    """A two-tier tree with everything settled. `parallel` cables join each leaf and spine.

    There are `planes` of them; all else is of one.
    """

    hosts_per_leaf: int
    leaves: int
    spines: int
    parallel: int
    host_rate_bps: int
    fabric_rate_bps: int
    host_delay_ps: int
    fabric_delay_ps: int
    leaf_latency_ps: int
    spine_latency_ps: int
    planes: int = 1


def build(params: Mapping[str, Any]) -> Network:
    """The network of `params` (see PARAMS).

    Raises:
        InputError: numbers that contradict one another or leave something open.
    """
    if params["topo_file"] is not None:
        for name in ("hosts_per_leaf", "leaves", "spines", "uplinks", "oversubscription"):
            if params[name] is not None:
                raise InputError("cannot be given with topo_file", key=f"topology.{name}")
        if params["planes"] != 1:
            raise InputError("cannot be given with topo_file", key="topology.planes")
        return build_shape(read_topo(Path(params["topo_file"])))
    return build_shape(_shape(params))


def build_shape(shape: Shape) -> Network:
    """The network of a settled shape."""
    builder = NetworkBuilder()
    n_hosts = shape.hosts_per_leaf * shape.leaves
    uplinks_per_leaf = shape.spines * shape.parallel
    builder.expect(
        hosts=n_hosts,
        switches=shape.planes * (shape.leaves + shape.spines),
        cables=shape.planes * (n_hosts + shape.leaves * uplinks_per_leaf),
        edges=shape.leaves,
        ports=max(shape.hosts_per_leaf + uplinks_per_leaf, shape.leaves * shape.parallel),
    )
    hosts = _ids(builder.add_hosts(n_hosts))
    for plane in range(shape.planes):
        _add_plane(builder, shape, hosts, "" if shape.planes == 1 else f"plane{plane}.")
    return builder.build(f"fat_tree_{n_hosts}")


def _add_plane(
    builder: NetworkBuilder, shape: Shape, hosts: NDArray[np.int64], prefix: str
) -> None:
    """Add a tree, with a port of every host. Switches' names begin with ``prefix``."""
    names = [f"{prefix}leaf{i}" for i in range(shape.leaves)]
    leaves = _ids(builder.add_switches(names, 0, shape.leaf_latency_ps))
    names = [f"{prefix}spine{i}" for i in range(shape.spines)]
    spines = _ids(builder.add_switches(names, 1, shape.spine_latency_ps))
    builder.cables(
        hosts,
        np.repeat(leaves, shape.hosts_per_leaf),
        shape.host_rate_bps,
        shape.host_delay_ps,
    )
    uplinks = np.repeat(spines, shape.parallel)
    builder.cables(
        np.repeat(leaves, uplinks.size),
        np.tile(uplinks, shape.leaves),
        shape.fabric_rate_bps,
        shape.fabric_delay_ps,
    )


def _ids(nodes: range) -> NDArray[np.int64]:
    return np.arange(nodes.start, nodes.stop)


def _shape(params: Mapping[str, Any]) -> Shape:
    hosts_per_leaf, leaves = params["hosts_per_leaf"], params["leaves"]
    for name in ("hosts_per_leaf", "leaves"):
        if params[name] is None:
            raise InputError("missing", key=f"topology.{name}", hint=f"such as {name} = 16")
    planes = params["planes"]
    if params["host_rate"] % planes:
        raise InputError(
            f"{format_rate(params['host_rate'])} cannot be divided evenly among {planes} planes",
            key="topology.planes",
            hint=f"a host_rate that is a multiple of {planes} bps",
        )
    host_rate = params["host_rate"] // planes
    fabric_rate = params["fabric_rate"] or host_rate
    host_delay = params["host_link_latency"]
    uplinks = _uplinks(params, hosts_per_leaf * host_rate, fabric_rate)
    spines = params["spines"] or uplinks
    if uplinks % spines:
        raise InputError(
            f"{uplinks} uplinks of a leaf cannot be spread evenly over {spines} spines",
            key="topology.spines",
            hint=f"use a divisor of {uplinks}",
        )
    return Shape(
        hosts_per_leaf=hosts_per_leaf,
        leaves=leaves,
        spines=spines,
        parallel=uplinks // spines,
        host_rate_bps=host_rate,
        fabric_rate_bps=fabric_rate,
        host_delay_ps=params["link_latency"] if host_delay is None else host_delay,
        fabric_delay_ps=params["link_latency"],
        leaf_latency_ps=params["switch_latency"],
        spine_latency_ps=params["switch_latency"],
        planes=planes,
    )


def _uplinks(params: Mapping[str, Any], host_bps: int, fabric_rate_bps: int) -> int:
    """Uplinks of a leaf, whose hosts send host_bps altogether."""
    spines, uplinks, ratio = params["spines"], params["uplinks"], params["oversubscription"]
    if ratio is None:
        if uplinks is None and spines is None:
            ratio = 1.0
        else:
            return int(uplinks if uplinks is not None else spines)
    needed = Fraction(host_bps) / (fabric_rate_bps * Fraction(ratio).limit_denominator(10_000))
    if needed.denominator != 1:
        raise InputError(
            f"{ratio:g} would need {float(needed):g} uplinks of {fabric_rate_bps / 1e9:g} Gbps "
            f"for {host_bps / 1e9:g} Gbps of hosts under each leaf",
            key="topology.oversubscription",
            hint="the number of uplinks must be whole",
        )
    if uplinks is not None and uplinks != needed:
        raise InputError(
            f"an oversubscription of {ratio:g} needs {needed} uplinks, not {uplinks}",
            key="topology.uplinks",
            hint="give one of the two",
        )
    return int(needed)


@dataclass(frozen=True)
class _Tier:
    """One tier of a .topo file; the downlinks are the cables towards the hosts."""

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
# Queues belong to the fabric; oversubscription follows from the radices.
_IGNORED_KEYS = {"queue_down", "queue_up", "oversubscribed", "podsize"}


def read_topo(path: Path) -> Shape:
    """The shape that an htsim .topo file of two tiers describes.

    Raises:
        InputError: an unreadable file, an unknown word, missing or contradictory numbers; it
            names the file and the line.
    """
    totals: dict[str, int] = {}
    tiers: dict[int, _Tier] = {}
    current: int | None = None
    for number, line in read_lines(path):
        words = line.split()
        key = words[0].lower()
        try:
            value = whole(words[1]) if len(words) == 2 else -1
        except ValueError:
            value = -1
        if value < 0:
            message = f"expected a word and a whole number, not {written(line)}"
            raise at_line(path, number, message)
        if key == "tier":
            current = value
            tiers[current] = _Tier()
        elif key in ("nodes", "tiers"):
            totals[key] = value
        elif key in _TIER_KEYS and current is not None:
            name, scale = _TIER_KEYS[key]
            limit = _TIER_LIMITS.get(name, COUNT)
            if value * scale > limit:
                message = f"{words[0]} {value} is too large"
                raise at_line(path, number, message, f"at most {limit // scale}")
            tiers[current] = replace(tiers[current], **{name: value * scale})
        elif key not in _IGNORED_KEYS:
            raise at_line(path, number, f"{written(words[0])} is not known here")
    return _topo_shape(path, totals, tiers)


def _topo_shape(path: Path, totals: Mapping[str, int], tiers: Mapping[int, _Tier]) -> Shape:
    if totals.get("tiers") != 2 or set(tiers) != {0, 1} or not totals.get("nodes"):
        raise InputError("must give Nodes, Tiers 2, Tier 0 and Tier 1", file=str(path))
    leaf, spine = tiers[0], tiers[1]
    for number, tier in tiers.items():
        if not (tier.radix_down and tier.rate_bps and tier.bundle):
            raise InputError(
                f"tier {number} must give Downlink_speed_Gbps and Radix_Down", file=str(path)
            )
    leaves, rest = divmod(totals["nodes"], leaf.radix_down)
    spines, over = divmod(leaves * leaf.radix_up, spine.radix_down)
    uneven = rest or over or not spines or leaf.radix_up % spines
    if uneven or leaf.radix_up != spines * spine.bundle:
        raise InputError(
            f"{totals['nodes']} hosts with radices {leaf.radix_down} down, {leaf.radix_up} up, "
            f"{spine.radix_down} down do not make an even two-tier tree",
            file=str(path),
        )
    return Shape(
        hosts_per_leaf=leaf.radix_down,
        leaves=leaves,
        spines=spines,
        parallel=leaf.radix_up // spines,
        host_rate_bps=leaf.rate_bps,
        fabric_rate_bps=spine.rate_bps,
        host_delay_ps=leaf.delay_ps,
        fabric_delay_ps=spine.delay_ps,
        leaf_latency_ps=leaf.latency_ps,
        spine_latency_ps=spine.latency_ps,
    )
