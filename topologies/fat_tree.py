"""Fat tree of two (leaf-spine), three or four tiers, fully provisioned or oversubscribed.

Two tiers are leaves under spines. Three tiers are several of these, called pods, under cores; four
are several of those, called zones, under supercores. It is sized in one of three ways:

    tiers = 3, radix = 32              switches of 32 ports: 2 (radix/2)^tiers hosts, here 8,192
    hosts_per_leaf, leaves             the leaves of a pod;  tiers = 3: pods, tiers = 4: zones, too
    topo_file                          what an htsim .topo file of two or three tiers describes

What differs from tier to tier is one value for all of them or a table by the lower end of a cable,
`fabric_rate = {leaf = "400Gbps", spine = "1.6Tbps"}`. Of `spines`, `uplinks` (cables from one leaf
to all its spines) and `oversubscription` it is enough to give one, of `cores`, `uplinks` and
`oversubscription` of a spine, and of `supercores` and those of a core; what is given must agree:

    uplinks * fabric_rate * oversubscription = capacity of a switch's cables down

With `spines` alone a leaf has `bundle` cables to each, one by default; with none of them the tier
is fully provisioned. With `radix` a switch's ports are divided accordingly.

A leaf is joined to every spine of its pod. Every spine has cores of its own, the same ones in all
pods of its zone: spine j of a pod those from j * cores / spines on; and supercores likewise. So one
switch above leads to a leaf by one way but for the `bundle` of parallel cables.

Hosts are numbered leaf by leaf: leaf l holds hosts l*hosts_per_leaf and following. Switches are
leaf0, spine0, core0, supercore0 and so on, those of a pod or zone one after the other. A switch's
ports are those to what is below it, then its uplinks, both in the order of what they lead to.

With several `planes` there are as many trees of that shape side by side, and every host has a port
in each, of its share of `host_rate`; `fabric.plane_balancing` says how packets are spread over
them.

With `reduction` leaves add up: the hosts of a leaf have a reduction unit, which is as far behind it
as that says, for the algorithm in_network of collectives among them (`netsim/model/reduction.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from netsim.errors import InputError
from netsim.network import (
    TIERS,
    Network,
    NetworkBuilder,
    Tree,
    add_tree,
    read_topo,
    reserve_trees,
    with_reduction,
)
from netsim.params import Param
from netsim.units import format_rate

LOWER = TIERS[:-1]
"""Tiers that have another one above them."""

PARAMS = [
    Param("tiers", "count", 2, "tiers of switches", minimum=2, maximum=len(TIERS)),
    Param(
        "radix",
        "count",
        None,
        "ports of every switch; replaces the counts below",
        minimum=2,
        optional=True,
    ),
    Param("hosts_per_leaf", "count", None, "hosts per leaf", minimum=1, optional=True),
    Param("leaves", "count", None, "leaf switches per pod", minimum=1, optional=True),
    Param("spines", "count", None, "spine switches per pod", minimum=1, optional=True),
    Param(
        "pods", "count", None, "pods per zone, for three tiers or more", minimum=1, optional=True
    ),
    Param("cores", "count", None, "core switches per zone", minimum=1, optional=True),
    Param("zones", "count", None, "zones, for four tiers", minimum=1, optional=True),
    Param("supercores", "count", None, "switches above the zones", minimum=1, optional=True),
    Param("uplinks", "count", None, "uplinks per switch", minimum=1, optional=True, each=LOWER),
    Param(
        "oversubscription",
        "ratio",
        None,
        "downlink over uplink capacity of a switch; 1 is fully provisioned",
        minimum=0.001,
        maximum=1000,
        optional=True,
        each=LOWER,
    ),
    Param(
        "bundle",
        "count",
        None,
        "parallel cables between two switches; default: derived, or 1",
        minimum=1,
        optional=True,
        each=LOWER,
    ),
    Param("host_rate", "rate", "800Gbps", "line rate of a host, all ports together"),
    Param("planes", "count", 1, "separate trees, each with one port of every host", minimum=1),
    Param(
        "fabric_rate",
        "rate",
        None,
        "line rate of uplinks; default: that of a host port",
        optional=True,
        each=LOWER,
    ),
    Param(
        "link_latency", "time", "1us", "propagation delay of a cable, by its lower end", each=LOWER
    ),
    Param(
        "host_link_latency",
        "time",
        None,
        "propagation delay between host and leaf; default: that of a leaf's uplinks",
        optional=True,
    ),
    Param(
        "switch_latency",
        "time",
        "0ns",
        "delay from a packet's last bit to its output queue",
        each=TIERS,
    ),
    Param(
        "reduction_delay",
        "time",
        None,
        "delay from a leaf to its reduction unit, each way; default: no unit",
        minimum="1ps",
        optional=True,
    ),
    Param(
        "topo_file",
        "file",
        None,
        "an htsim .topo file; replaces all other parameters",
        optional=True,
    ),
]
BELOW = ("hosts_per_leaf", "leaves", "pods", "zones")
ABOVE = ("spines", "cores", "supercores")
"""The counts of what is below a switch of each tier, and above one of each."""


def build(params: Mapping[str, Any]) -> Network:
    """The network of `params` (see PARAMS).

    Raises:
        InputError: numbers that contradict one another or leave something open.
    """
    if params["topo_file"] is not None:
        _refuse_beside("topo_file", [one for one in PARAMS if one.name != "topo_file"], params)
        return build_tree(read_topo(Path(params["topo_file"])))
    network = build_tree(settle(params), params["planes"])
    if params["reduction_delay"] is None:
        return network
    return with_reduction(network, params["reduction_delay"])


def build_tree(tree: Tree, planes: int = 1) -> Network:
    """The network of several trees of one shape, with a port of every host in each."""
    builder = NetworkBuilder()
    reserve_trees(builder, tree, planes)
    hosts = np.array(builder.add_hosts(tree.n_hosts))
    for plane in range(planes):
        add_tree(builder, tree, hosts, "" if planes == 1 else f"plane{plane}.")
    return builder.build(f"fat_tree_{tree.n_hosts}")


def settle(params: Mapping[str, Any]) -> Tree:
    """The shape that `params` (see PARAMS, without `topo_file`) ask for, of one plane.

    Raises:
        InputError: numbers that contradict one another or leave something open.
    """
    tiers, planes = params["tiers"], params["planes"]
    _refuse_missing_tiers(params)
    if params["host_rate"] % planes:
        raise InputError(
            f"{format_rate(params['host_rate'])} cannot be divided evenly among {planes} planes",
            key="topology.planes",
            hint=f"a host_rate that is a multiple of {planes} bps",
        )
    host_rate = params["host_rate"] // planes
    lower = LOWER[: tiers - 1]
    rates = (host_rate, *(params["fabric_rate"][name] or host_rate for name in lower))
    sized = _by_counts if params["radix"] is None else _by_radix
    children, parents, bundles = sized(params, rates)
    delays = [params["link_latency"][name] for name in lower]
    host_delay = params["host_link_latency"]
    return Tree(
        children=children,
        parents=parents,
        bundles=bundles,
        rates_bps=rates,
        delays_ps=(delays[0] if host_delay is None else host_delay, *delays),
        latencies_ps=tuple(params["switch_latency"][name] for name in TIERS[:tiers]),
    )


Sizes = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Children, parents and bundles of a Tree."""


def _by_counts(params: Mapping[str, Any], rates: tuple[int, ...]) -> Sizes:
    """Sizes from the counts of each tier; `rates` are those of the cables below each."""
    for name in BELOW[: len(rates)]:
        if params[name] is None:
            hint = f"such as {name} = 16"
            raise InputError("missing", key=f"topology.{name}", hint=hint, code="missing")
    children = tuple(params[name] for name in BELOW[: len(rates)])
    parents: list[int] = []
    bundles = [1]
    for tier, (below_bps, rate_bps) in enumerate(pairwise(rates)):
        down_bps = children[tier] * bundles[-1] * below_bps
        above, bundle = params[ABOVE[tier]], params["bundle"][TIERS[tier]]
        if above is not None:
            above = _shared(above, prod(parents), tier)
        uplinks = _uplinks(params, tier, down_bps, rate_bps, above)
        _check_division(uplinks, above, bundle, tier)
        parents.append(above or uplinks // (bundle or 1))
        bundles.append(uplinks // parents[-1])
    return children, tuple(parents), tuple(bundles[1:])


def _shared(above: int, below: int, tier: int) -> int:
    """How many of the switches above are joined to each of those of a subtree."""
    if above % below:
        raise InputError(
            f"{above} {ABOVE[tier]} cannot be shared out evenly among {below} {ABOVE[tier - 1]}",
            key=f"topology.{ABOVE[tier]}",
            hint=f"a multiple of {below}",
        )
    return above // below


def _uplinks(
    params: Mapping[str, Any], tier: int, down_bps: int, rate_bps: int, above: int | None
) -> int:
    """Uplinks of a switch whose cables down carry `down_bps`; `above` of them lead elsewhere."""
    name = TIERS[tier]
    uplinks, ratio = params["uplinks"][name], params["oversubscription"][name]
    if ratio is None:
        if uplinks is not None:
            return int(uplinks)
        if above is not None:
            return int(above * (params["bundle"][name] or 1))
        ratio = 1.0
    needed = Fraction(down_bps) / (rate_bps * _exact(ratio))
    if needed.denominator != 1:
        below = "hosts under each leaf" if tier == 0 else f"cables down from each {name}"
        raise InputError(
            f"{ratio:g} would need {float(needed):g} uplinks of {rate_bps / 1e9:g} Gbps "
            f"for {down_bps / 1e9:g} Gbps of {below}",
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


def _check_division(uplinks: int, above: int | None, bundle: int | None, tier: int) -> None:
    """Refuse uplinks that cannot be spread over the switches above, or not in such bundles."""
    name = TIERS[tier]
    if above is not None and uplinks % above:
        raise InputError(
            f"{uplinks} uplinks of a {name} cannot be spread evenly over {above} {ABOVE[tier]}",
            key=f"topology.{ABOVE[tier]}",
            hint=f"use a divisor of {uplinks}",
        )
    if bundle is None:
        return
    if uplinks % bundle or (above is not None and uplinks != above * bundle):
        over = "bundles" if above is None else f"{above} bundles"
        raise InputError(
            f"{uplinks} uplinks of a {name} do not make {over} of {bundle} cables",
            key="topology.bundle",
            hint="leave it out, and it follows" if above else f"use a divisor of {uplinks}",
        )


def _by_radix(params: Mapping[str, Any], rates: tuple[int, ...]) -> Sizes:
    """Sizes of the largest tree of switches with a number of ports; `rates` as in `_by_counts`."""
    radix = params["radix"]
    taken = (*BELOW, *ABOVE, "uplinks")
    _refuse_beside("radix", [one for one in PARAMS if one.name in taken], params)
    lower = TIERS[: len(rates) - 1]
    bundles = [params["bundle"][name] or 1 for name in lower]
    up: list[int] = []
    for name, (below_bps, rate_bps) in zip(lower, pairwise(rates), strict=True):
        ratio = params["oversubscription"][name]
        up_bps = rate_bps * _exact(1.0 if ratio is None else ratio)
        wanted = radix * below_bps / (up_bps + below_bps)
        if wanted.denominator != 1:
            raise InputError(
                f"of {radix} ports of a {name} {float(wanted):g} would lead up",
                key="topology.radix",
                hint="the number of uplinks must be whole; see oversubscription and fabric_rate",
            )
        up.append(int(wanted))
    down = [radix - one for one in (*up, 0)]
    for name, ports, bundle in (
        *zip(lower, up, bundles, strict=True),
        *zip(TIERS[1:], down[1:], bundles, strict=False),
    ):
        if ports % bundle:
            raise InputError(
                f"{ports} ports of a {name} do not make bundles of {bundle} cables",
                key="topology.bundle",
                hint=f"use a divisor of {ports}",
            )
    children = (down[0], *(ports // one for ports, one in zip(down[1:], bundles, strict=True)))
    parents = tuple(ports // one for ports, one in zip(up, bundles, strict=True))
    return children, parents, tuple(bundles)


def _exact(ratio: float) -> Fraction:
    """A ratio as a person means it: 1.6 is 8/5."""
    return Fraction(ratio).limit_denominator(10_000)


def _refuse_beside(name: str, others: Sequence[Param], params: Mapping[str, Any]) -> None:
    """Refuse what a given parameter decides alone, unless it has its default."""
    for other in others:
        if params[other.name] != other.convert(other.default):
            raise InputError(f"cannot be given with {name}", key=f"topology.{other.name}")


def _refuse_missing_tiers(params: Mapping[str, Any]) -> None:
    """Refuse what is said of tiers that the tree has not got."""
    tiers = params["tiers"]
    for names, least in ((BELOW, 1), (ABOVE, 2)):
        for needed, name in enumerate(names, least):
            if params[name] is not None and tiers < needed:
                raise InputError(
                    f"there are none in {tiers} tiers",
                    key=f"topology.{name}",
                    hint=f"tiers = {needed}",
                )
    for param in PARAMS:
        values = params[param.name] if param.each else {}
        default = param.convert(param.default) if param.each else {}
        for part in param.each[tiers - (param.each == LOWER) :]:
            if values[part] != default[part] and len(set(values.values())) > 1:
                what = "" if param.each == TIERS else "uplinks of a "
                raise InputError(
                    f"{tiers} tiers have no {what}{part}",
                    key=f"topology.{param.name}.{part}",
                    hint=f"tiers = {TIERS.index(part) + 1 + (param.each == LOWER)}",
                )
