"""What groups of hosts do together: an all-reduce, an all-to-all, a broadcast, by any algorithm.

Groups are blocks of `group_size` hosts next to one another, or, `strided`, hosts that are as far
apart as there are groups. Each does the collective `what`, `repeat` times, one after the other.
`size` is the whole buffer of an all-reduce, a reduce-scatter or an all-gather, the message of a
broadcast or a reduction, all shards together of a gather or a scatter, and of an all-to-all what
one host has for its group; a barrier sends single bytes.

Algorithms are ring, halving_doubling, double_binary_tree, direct, pat, hierarchical (in nodes of
`node` hosts), chain, binomial_tree, dissemination and, for groups below one switch with a reduction
unit (`netsim show topology multi_rail`), in_network. auto takes the one (but in_network) that its
closed form says is fastest between these hosts: with the rates and delays of the simulated network,
links that several sends share, relays and `latency` included. The run says which one it is, and its
closed form.

All `channels` of a ring go round in one order. With `node`, the hosts of a node, `ring_order` gives
each its own, so that on a `multi_rail` channel c goes from node to node by one rail:

- "rotated": channel c goes through every node from place c on, to the one before it, and enters the
  next node at place c. It leaves by rail c, by way of a peer (NCCL calls that PXN): nodes of `gpus`
  hosts, `relay = "source"`.
- "alternating": the same in nodes 0, 2, ..., backwards in the others. It leaves a node for the same
  place of the next one, without a peer, by rail c - 1 or c. The number of nodes is even.

An algorithm of your own is a file of sends, `algorithm = "mine.csv"`, in which one row is one send
of a group, known by its number, from 0:

- src, dst: places in the group, from 0;
- pieces: which of the equal pieces of the buffer it carries: "3", "4-7", or "0-12/4" for 0, 4, 8
  and 12; those of an all-gather, a reduce-scatter, a gather or a scatter belong to places 0, 1, ...
  in equal runs, and in an all-to-all of n the first n runs are what place 0 has for places 0, 1,
  ..., the next n what place 1 has;
- adds: yes if the receiver adds to what it has, no if that is replaced (no if empty);
- after: earlier sends to src, separated by spaces, that have to be delivered before;
- follows: an earlier send of src that has to be handed over to the network before.

A file whose sends do not add up to the collective is refused, with what is missing where.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.flows import TrafficContext, Workload
from netsim.inputs import user_path
from netsim.limits import PS_BITS
from netsim.network import Network
from netsim.params import Param
from netsim.units import format_rate, format_time
from netsim.workloads.collectives import (
    ALGORITHMS,
    COLLECTIVES,
    ONE_WAY,
    RING_ORDERS,
    CollectiveOptions,
    Wire,
    check_algorithm,
    closed_form_ps,
    hops_of,
)
from netsim.workloads.operations import Operations, Wires
from netsim.workloads.traffic._collectives import wires_of

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


def flows(
    params: Mapping[str, Any], network: Network, rng: np.random.Generator, context: TrafficContext
) -> Workload:
    """The collectives of all groups."""
    n_hosts, what, size = network.n_hosts, params["what"], params["size"]
    n = params["group_size"] or n_hosts
    if n_hosts % n or n_hosts < 2:
        raise InputError(
            f"groups of {n} hosts do not fill {n_hosts} hosts",
            key="traffic.group_size",
            hint=f"a divisor of {n_hosts}",
        )
    if params["root"] >= n:
        raise InputError(
            f"there is no place {params['root']} in a group of {n}", key="traffic.root"
        )
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
    try:
        check_algorithm(what, how)
        how = wires.settled(what, groups, size, how)
        for _ in range(params["repeat"]):
            ops.collective(what, groups, size, how, stream=0, kind=what)
        load = ops.lower(hosts, reduction=network.reduction)
        return replace(load, notes=(_note(what, groups, size, how, wires),))
    except InputError as error:
        raise error.at(key="traffic.algorithm") from None


def _note(
    what: str, groups: NDArray[np.int64], size: int, how: CollectiveOptions, wires: Wires
) -> str:
    """What is done, and how long it takes by formula."""
    n = groups.shape[1]
    told = f"{what} of {n} hosts by {how.algorithm}"
    if how.algorithm not in ALGORITHMS:
        return told
    if how.algorithm == "in_network":
        wire = _wire_to_unit(groups[0], wires)
    else:
        wire = wires.wire(hops_of(what, n, size, how), groups)
    took = format_time(closed_form_ps(what, n, size, wire, how), 4)
    return f"{told}: alone it takes {took}, {_described(wire)}" + (
        f"; between nodes {_described(wire.far)}" if wire.far else ""
    )


def _described(wire: Wire) -> str:
    rate, delay = format_rate(wire.rate_bps), format_time(wire.delay_ps, 3)
    return f"at {rate} with {delay} on the way"


def _wire_to_unit(group: NDArray[np.int64], wires: Wires) -> Wire:
    """From a host of a group to its reduction unit, where all of the group send there at once."""
    reduction = wires.network.reduction
    assert reduction is not None
    network, unit = reduction.network, int(reduction.unit[group[0]])
    of_units = Wires(network, wires.payload_bytes, wires.header_bytes)
    alone = of_units.wire(ONE_WAY, [group[0], unit])
    rate_bps = int(network.nic_rate_bps[network.first_nic[unit]])
    packet_ps = (wires.payload_bytes + wires.header_bytes) * PS_BITS / rate_bps
    return replace(alone, delay_ps=alone.delay_ps + round((group.size - 1) * packet_ps))
