"""Collectives of groups of hosts, with any algorithm.

Groups are blocks of `group_size` consecutive hosts, or, if `strided`, every k-th host, with k
groups. Each runs the collective `what`, `repeat` times in sequence. `size` is the whole buffer of
an all-reduce, reduce-scatter or all-gather, the message of a broadcast or reduce, all shards of a
gather or scatter, and one host's data for its group in an all-to-all; a barrier sends single bytes.

Algorithms are ring, halving_doubling, double_binary_tree, direct, pat, hierarchical (in nodes of
`node` hosts), chain, binomial_tree, dissemination and, for groups below one switch with a reduction
unit (`netsim show topology multi_rail`), in_network. auto selects the fastest (except in_network)
by its closed form between these hosts: with rates and delays of the simulated network, shared
links, relays and `latency`. The run prints the algorithm and its closed form.

All `channels` of a ring have the same order. With `node` hosts per node, `ring_order` gives each
channel a different order, so that on a `multi_rail` network channel c uses one rail between nodes:

- "rotated": channel c passes every node from place c around to the place before it, and enters the
  next node at place c. It leaves by rail c, relayed by a peer (NCCL's PXN): nodes of
  `gpus_per_rack` hosts, `relay_at = "source"`.
- "alternating": the same in nodes 0, 2, ..., reversed in the others. It leaves a node for the same
  place in the next node, without a peer, by rail c - 1 or c. The number of nodes must be even.

Your own algorithm is a file of sends, `algorithm = "mine.csv"`, in which each row is a send of a
group, numbered from 0:

- src, dst: positions in the group, from 0;
- pieces: the pieces of the buffer it carries, of equal size: "3", "4-7", or "0-12/4" for 0, 4, 8
  and 12; in an all-gather, reduce-scatter, gather or scatter they belong to positions 0, 1, ... in
  equal runs, and in an all-to-all of n the first n runs are from position 0 to 0, 1, ..., the next
  n from position 1;
- adds: yes if the receiver adds to its data, no (or empty) if it replaces it;
- after: earlier sends to src, separated by spaces, that must be delivered first;
- follows: an earlier send from src that must leave first.

It is an error if the sends do not perform the collective; the message says what is missing where.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from netsim.common.inputs import user_path
from netsim.errors import InputError, errors_at
from netsim.flows import Rng, TrafficContext, Workload
from netsim.limits import PS_BITS
from netsim.model.columns import Ints
from netsim.network import Network
from netsim.params import Param, Params
from netsim.units import format_rate, format_time
from netsim.workloads.collectives import (
    ALGORITHMS,
    check_algorithm,
    closed_form_ps,
    hops_of,
    most_sends,
)
from netsim.workloads.collectives.steps import (
    COLLECTIVES,
    ONE_WAY,
    RING_ORDERS,
    CollectiveOptions,
    Wire,
)
from netsim.workloads.operations import Operations, Wires
from netsim.workloads.traffic._options import group_size_of, wires_of

BLOCKS, STRIDED = GROUPS = ("blocks", "strided")

PARAMS = [
    Param("what", "choice", "all_reduce", "collective", choices=COLLECTIVES),
    Param("algorithm", "text", "auto", "algorithm, or auto"),
    Param("size", "bytes", "8MB", "buffer size, see above", minimum="1B"),
    Param("group_size", "count", None, "hosts per group; default: all", minimum=2),
    Param("groups", "choice", BLOCKS, "how hosts are grouped", choices=GROUPS),
    Param("repeat", "count", 1, "repetitions in sequence", minimum=1),
    Param("channels", "count", 1, "parts of the buffer that are sent in parallel", minimum=1),
    Param("chunk", "bytes", None, "chunk that is forwarded as it arrives", minimum="1B"),
    Param("latency", "time", "0us", "software latency of each step"),
    Param("reduce_rate", "rate", None, "rate at which a host reduces; default: instantly"),
    Param("window", "count", None, "direct: concurrent sends of a host; default: all", minimum=1),
    Param("node", "count", None, "hosts per node, for hierarchical and ring_order", minimum=1),
    Param(
        "ring_order",
        "choice",
        "same",
        "order of the channels of a ring, with nodes of `node` hosts; see above",
        choices=RING_ORDERS,
    ),
    Param("root", "count", 0, "rank that broadcasts, gathers, ..."),
]


def flows(params: Params, network: Network, rng: Rng, context: TrafficContext) -> Workload:
    n_hosts, what, size = network.n_hosts, params["what"], params["size"]
    n = group_size_of(params, network)
    if params["root"] >= n:
        raise InputError(f"root {params['root']} exceeds a group of {n}", key="traffic.root")
    key = "traffic.channels" if params["channels"] > 1 else "traffic.repeat"
    context.reserve(params["repeat"] * n_hosts * params["channels"], key=key)
    algorithm = params["algorithm"]
    if algorithm.endswith(".csv"):
        algorithm = str(user_path(algorithm, context.directory))
    how = CollectiveOptions(
        algorithm=algorithm,
        chunk_bytes=params["chunk"],
        channels=params["channels"],
        latency_ps=params["latency"],
        reduce_bps=params["reduce_rate"],
        window=params["window"],
        node=params["node"],
        root=params["root"],
        ring_order=params["ring_order"],
    )
    size = 0 if what == "barrier" else size
    hosts = np.arange(n_hosts)
    groups = hosts.reshape(-1, n) if params["groups"] == BLOCKS else hosts.reshape(n, -1).T
    ops, wires = Operations(n_hosts), wires_of(network, context)
    with errors_at(key="traffic.algorithm"):
        check_algorithm(what, how)
        how = wires.settled(what, groups, size, how)
        sends = len(groups) * most_sends(how.algorithm, n, size, how)
        context.reserve(params["repeat"] * sends, key="traffic.algorithm")
        for _ in range(params["repeat"]):
            ops.collective(what, groups, size, how, stream=0, kind=what)
        load = ops.lower(hosts, reduction=network.reduction)
        return replace(load, notes=(_note(what, groups, size, how, wires),))


def _note(what: str, groups: Ints, size: int, how: CollectiveOptions, wires: Wires) -> str:
    n = groups.shape[1]
    note = f"{what} of {n} hosts by {how.algorithm}"
    if how.algorithm not in ALGORITHMS:
        return note
    if how.algorithm == "in_network":
        wire = _wire_to_unit(groups[0], wires)
    else:
        wire = wires.wire(hops_of(what, n, size, how), groups)
    took = format_time(closed_form_ps(what, n, size, wire, how), 4)
    bound = "at least" if how.algorithm == "ring" else "by its closed form, about"
    return f"{note}: alone it takes {bound} {took}, {_described(wire)}" + (
        f"; between nodes {_described(wire.far)}" if wire.far else ""
    )


def _described(wire: Wire) -> str:
    rate, delay = format_rate(wire.rate_bps), format_time(wire.delay_ps, 3)
    return f"at {rate} with {delay} delay"


def _wire_to_unit(group: Ints, wires: Wires) -> Wire:
    """Return the wire from a host to its reduction unit when the whole group sends."""
    reduction = wires.network.reduction
    assert reduction is not None
    network, unit = reduction.network, int(reduction.unit[group[0]])
    of_units = Wires(network, wires.payload_bytes, wires.header_bytes)
    alone = of_units.wire(ONE_WAY, [group[0], unit])
    rate_bps = int(network.nic_rate_bps[network.first_nic[unit]])
    packet_ps = (wires.payload_bytes + wires.header_bytes) * PS_BITS / rate_bps
    return replace(alone, delay_ps=alone.delay_ps + round((group.size - 1) * packet_ps))
