"""Fat tree of two (leaf-spine), three or four tiers, fully provisioned or oversubscribed.

Two tiers are leaves and spines; three are several of these, called pods, under cores; four are
several of those, called zones, under supercores. There are four ways to size it:

    hosts = 64                         64 hosts; switches with the fewest ports that fit, or `radix`
    tiers = 3, radix = 32              switches of 32 ports: 2 (radix/2)^tiers hosts, here 8,192
    hosts_per_leaf, leaves             leaves per pod;  tiers = 3: also pods, tiers = 4: also zones
    topo_file                          an htsim .topo file of two or three tiers

Parameters that differ by tier are a single value, or a table by the lower end of a cable:
`fabric_rate = {leaf = "400Gbps", spine = "1.6Tbps"}`. For leaves, give one of `spines`, `uplinks`
(cables from one leaf to all its spines) and `oversubscription`; for spines one of `cores`,
`uplinks` and `oversubscription`, and for cores one with `supercores`. If more are given, they must
agree:

    uplinks * fabric_rate * oversubscription = capacity of a switch's cables down

With `spines` alone a leaf has `bundle` cables to each, one by default; with none of them the tier
is fully provisioned. With `radix`, a switch's ports are divided accordingly.

A leaf is connected to every spine of its pod. Each spine has separate cores, the same in all pods
of its zone: spine j of a pod connects to cores from j * cores / spines on. Supercores likewise. So
a switch above reaches a leaf by one path, except for `bundle` parallel cables.

Hosts are numbered leaf by leaf: leaf l's first host is l * hosts_per_leaf. Switches are leaf0,
spine0, core0, supercore0 and so on, consecutive in each pod or zone. A switch's ports are its
downlinks, then its uplinks, both in the order of the nodes they lead to.

`planes`: that many trees of this shape; every host has a port in each, with its share of
`host_rate`. `fabric.plane_balancing` distributes packets over them.

`reduction_delay`: leaves reduce. The hosts of a leaf have a reduction unit at this delay from it,
for the collective algorithm in_network (`netsim/model/builder.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import prod
from pathlib import Path

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
from netsim.params import Param, Params
from netsim.units import format_rate

LOWER = TIERS[:-1]  # tiers with another one above

PARAMS = [
    Param("tiers", "count", 2, "tiers of switches", minimum=2, maximum=len(TIERS)),
    Param("hosts", "count", None, "hosts in all; replaces the counts below", minimum=1),
    Param("radix", "count", None, "ports of every switch; replaces the counts below", minimum=2),
    Param("hosts_per_leaf", "count", None, "hosts per leaf", minimum=1),
    Param("leaves", "count", None, "leaf switches per pod", minimum=1),
    Param("spines", "count", None, "spine switches per pod", minimum=1),
    Param("pods", "count", None, "pods per zone, for three tiers or more", minimum=1),
    Param("cores", "count", None, "core switches per zone", minimum=1),
    Param("zones", "count", None, "zones, for four tiers", minimum=1),
    Param("supercores", "count", None, "switches above the zones", minimum=1),
    Param("uplinks", "count", None, "uplinks per switch", minimum=1, each=LOWER),
    Param(
        "oversubscription", "ratio", None, "downlink over uplink capacity of a switch; 1: full",
        minimum=0.001, maximum=1000, each=LOWER,
    ),
    Param(
        "bundle", "count", None, "parallel cables between two switches; default: derived, or 1",
        minimum=1, each=LOWER,
    ),
    Param("host_rate", "rate", "800Gbps", "line rate of a host, all ports together"),
    Param("planes", "count", 1, "separate trees, each with one port of every host", minimum=1),
    Param("fabric_rate", "rate", None, "rate of uplinks; default: a host port's rate", each=LOWER),
    Param("link_latency", "time", "1us", "propagation delay, by a cable's lower end", each=LOWER),
    Param("host_link_latency", "time", None, "propagation, host to leaf; default: as uplinks"),
    Param("switch_latency", "time", "0ns", "from a packet's last bit to its queue", each=TIERS),
    Param(
        "reduction_delay", "time", None, "leaf to reduction unit, each way; default: no unit",
        minimum="1ps",
    ),
    Param("topo_file", "file", None, "an htsim .topo file; replaces all other parameters"),
]  # fmt: skip
BELOW = ("hosts_per_leaf", "leaves", "pods", "zones")
ABOVE = ("spines", "cores", "supercores")  # counts below and above a switch of each tier
COUNTS = (*BELOW, *ABOVE, "uplinks")
NAMES = ("leaves", *ABOVE)
MAX_RADIX = 1024  # most ports of a switch that `hosts` chooses


def build(params: Params) -> Network:
    """Return the network of `params` (see PARAMS). Raises InputError for contradictory or
    missing numbers."""
    if params["topo_file"] is not None:
        _refuse_others("topo_file", [one for one in PARAMS if one.name != "topo_file"], params)
        return build_tree(read_topo(Path(params["topo_file"])))
    tree = settle(params)
    network = build_tree(tree, params["planes"])
    if params["hosts"] is not None:
        network = _chosen(network, tree)
    if params["reduction_delay"] is None:
        return network
    return with_reduction(network, params["reduction_delay"])


def build_tree(tree: Tree, planes: int = 1) -> Network:
    """Return the network of several trees of one shape, with a port of every host in each."""
    builder = NetworkBuilder()
    reserve_trees(builder, tree, planes)
    hosts = np.array(builder.add_hosts(tree.n_hosts))
    for plane in range(planes):
        add_tree(builder, tree, hosts, "" if planes == 1 else f"plane{plane}.")
    network = builder.build(f"fat_tree_{tree.n_hosts}")
    return replace(network, shape=tree.children[:0:-1])


def _chosen(network: Network, tree: Tree) -> Network:
    """Return the network with a note on the switches that were chosen for `hosts`."""
    counts = np.bincount(network.tier[network.n_hosts :])
    told = (f"{n:,} {name}" for n, name in zip(counts, NAMES, strict=False))
    radix = tree.children[0] + tree.parents[0] * tree.bundles[0]
    note = f"fat tree of {tree.n_hosts:,} hosts: switches of {radix} ports, {', '.join(told)}"
    return replace(network, note=note)


def settle(params: Params) -> Tree:
    """Return the shape of a plane for `params` (see PARAMS, without `topo_file`). Raises
    InputError for contradictory or missing numbers."""
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
    if params["hosts"] is not None:
        sized = _by_hosts
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


def _by_counts(params: Params, rates: tuple[int, ...]) -> Sizes:
    """Return sizes from the counts of each tier; `rates` are the rates of cables below each
    tier."""
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
    if above % below:
        message = f"{above} {ABOVE[tier]} cannot be divided evenly among {below} {ABOVE[tier - 1]}"
        raise InputError(message, key=f"topology.{ABOVE[tier]}", hint=f"a multiple of {below}")
    return above // below


def _uplinks(params: Params, tier: int, down_bps: int, rate_bps: int, above: int | None) -> int:
    """Return the uplinks of a switch with `down_bps` of downlinks and `above` switches above it."""
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
        below = "hosts per leaf" if tier == 0 else f"downlinks of each {name}"
        raise InputError(
            f"{ratio:g} needs {float(needed):g} uplinks of {rate_bps / 1e9:g} Gbps "
            f"for {down_bps / 1e9:g} Gbps of {below}",
            key="topology.oversubscription",
            hint="the number of uplinks must be an integer",
        )
    if uplinks is not None and uplinks != needed:
        message = f"an oversubscription of {ratio:g} needs {needed} uplinks, not {uplinks}"
        raise InputError(message, key="topology.uplinks", hint="give only one of them")
    return int(needed)


def _check_division(uplinks: int, above: int | None, bundle: int | None, tier: int) -> None:
    """Refuse uplinks that do not divide evenly among the switches above, or into bundles."""
    name = TIERS[tier]
    if above is not None and uplinks % above:
        raise InputError(
            f"{uplinks} uplinks of a {name} cannot be divided evenly among {above} {ABOVE[tier]}",
            key=f"topology.{ABOVE[tier]}",
            hint=f"use a divisor of {uplinks}",
        )
    if bundle is None:
        return
    if uplinks % bundle or (above is not None and uplinks != above * bundle):
        over = "bundles" if above is None else f"{above} bundles"
        message = f"{uplinks} uplinks of a {name} do not form {over} of {bundle} cables"
        hint = "omit it" if above else f"use a divisor of {uplinks}"
        raise InputError(message, key="topology.bundle", hint=hint)


def _by_radix(params: Params, rates: tuple[int, ...]) -> Sizes:
    """Return sizes of the largest tree of switches with `radix` ports; `rates` as above."""
    _refuse_others("radix", [one for one in PARAMS if one.name in COUNTS], params)
    lower = TIERS[: len(rates) - 1]
    bundles = [params["bundle"][name] or 1 for name in lower]
    down, up = _ports(params["radix"], params, rates)
    for name, ports, bundle in (
        *zip(lower, up, bundles, strict=True),
        *zip(TIERS[1:], down[1:], bundles, strict=False),
    ):
        if ports % bundle:
            message = f"{ports} ports of a {name} do not form bundles of {bundle} cables"
            raise InputError(message, key="topology.bundle", hint=f"use a divisor of {ports}")
    children = (down[0], *(ports // one for ports, one in zip(down[1:], bundles, strict=True)))
    parents = tuple(ports // one for ports, one in zip(up, bundles, strict=True))
    return children, parents, tuple(bundles)


def _by_hosts(params: Params, rates: tuple[int, ...]) -> Sizes:
    """Return sizes of a tree with `hosts` hosts, from switches with the fewest ports that fit, or
    of `radix`: full except for the highest tier, where switches have only the ports that they
    need."""
    taken = [one for one in PARAMS if one.name in (*COUNTS, "bundle")]
    _refuse_others("hosts", taken, params)
    hosts, given = params["hosts"], params["radix"]
    for radix in range(2, MAX_RADIX + 1) if given is None else (given,):
        try:
            down, up = _ports(radix, params, rates)
        except InputError:
            if given is not None:
                raise
            continue
        top, rest = divmod(hosts, prod(down[:-1]))
        if rest or not 1 < top <= radix or not all(up):
            continue
        bundle = max(n for n in range(1, up[-1] + 1) if not up[-1] % n and n * top <= radix)
        bundles = (*(1 for _ in up[:-1]), bundle)
        return (*down[:-1], top), (*up[:-1], up[-1] // bundle), bundles
    which = f"switches of up to {MAX_RADIX} ports" if given is None else f"radix = {given}"
    message = f"{hosts:,} hosts do not fill a tree of {params['tiers']} tiers with {which}"
    hint = "a power of two, other tiers, or counts such as hosts_per_leaf and leaves"
    raise InputError(message, key="topology.hosts", hint=hint)


def _ports(radix: int, params: Params, rates: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Return the down ports of each tier, and the up ports of each below the top, for `radix`."""
    lower = TIERS[: len(rates) - 1]
    up: list[int] = []
    for name, (below_bps, rate_bps) in zip(lower, pairwise(rates), strict=True):
        ratio = params["oversubscription"][name]
        up_bps = rate_bps * _exact(1.0 if ratio is None else ratio)
        wanted = radix * below_bps / (up_bps + below_bps)
        if wanted.denominator != 1:
            message = f"{float(wanted):g} of {radix} ports of a {name} would be uplinks"
            hint = "must be an integer; see oversubscription and fabric_rate"
            raise InputError(message, key="topology.radix", hint=hint)
        up.append(int(wanted))
    return [radix - one for one in (*up, 0)], up


def _exact(ratio: float) -> Fraction:
    """Return a ratio as a fraction: 1.6 is 8/5."""
    return Fraction(ratio).limit_denominator(10_000)


def _refuse_others(name: str, others: Sequence[Param], params: Params) -> None:
    """Refuse parameters that `name` replaces, unless they have their defaults."""
    for other in others:
        if params[other.name] != other.convert(other.default):
            raise InputError(f"conflicts with {name}", key=f"topology.{other.name}")


def _refuse_missing_tiers(params: Params) -> None:
    """Refuse parameters of tiers that the tree does not have."""
    tiers = params["tiers"]
    for names, least in ((BELOW, 1), (ABOVE, 2)):
        for needed, name in enumerate(names, least):
            if params[name] is not None and tiers < needed:
                message = f"conflicts with {tiers} tiers"
                raise InputError(message, key=f"topology.{name}", hint=f"tiers = {needed}")
    for param in PARAMS:
        values = params[param.name] if param.each else {}
        default = param.convert(param.default) if param.each else {}
        for part in param.each[tiers - (param.each == LOWER) :]:
            if values[part] != default[part] and len(set(values.values())) > 1:
                what = "" if param.each == TIERS else "uplinks of a "
                message = f"{tiers} tiers have no {what}{part}"
                hint = f"tiers = {TIERS.index(part) + 1 + (param.each == LOWER)}"
                raise InputError(message, key=f"topology.{param.name}.{part}", hint=hint)
