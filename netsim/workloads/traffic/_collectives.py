"""Collective options as parameters of traffic patterns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netsim.errors import InputError
from netsim.flows import TrafficContext
from netsim.network import Network
from netsim.params import Param
from netsim.workloads.collectives import ALGORITHMS, COLLECTIVES, RING_ORDERS
from netsim.workloads.operations import CollectiveOptions, Wires

CHOICES = ("auto", *ALGORITHMS)


def params_of(each: tuple[str, ...]) -> list[Param]:
    """Return parameters that may differ between kinds of messages or collectives."""
    return [
        Param("algorithm", "choice", "auto", "collective algorithm", choices=CHOICES, each=each),
        Param("channels", "count", 1, "channels of a collective", minimum=1, each=each),
        Param("chunk", "bytes", None, "unit of forwarding; default: all", minimum="1B", each=each),
    ]


PARAMS = [
    *params_of(COLLECTIVES),
    Param("latency", "time", "0us", "software latency of each step", each=COLLECTIVES),
    Param("node", "count", None, "ranks per node, for hierarchical", minimum=1),
    Param(
        "ring_order",
        "choice",
        "same",
        "order of the channels of a ring, with nodes of `node` ranks",
        choices=RING_ORDERS,
        each=COLLECTIVES,
    ),
]


def how_of(params: Mapping[str, Any], what: str) -> CollectiveOptions:
    """Return the options of a collective."""
    return CollectiveOptions(
        algorithm=params["algorithm"][what],
        chunk_bytes=params["chunk"][what],
        channels=params["channels"][what],
        latency_ps=params["latency"][what],
        node=params["node"],
        ring_order=params["ring_order"][what],
    )


def wires_of(network: Network, context: TrafficContext) -> Wires:
    return Wires(network, context.payload_bytes, context.header_bytes)


def group_size_of(params: Mapping[str, Any], network: Network) -> int:
    """Return `group_size`, all hosts by default. Raises InputError if groups do not fill them."""
    n_hosts = network.n_hosts
    n: int = params["group_size"] or n_hosts
    if n_hosts % n or n_hosts < 2:
        what = f"groups of {n} hosts do not fill {n_hosts} hosts"
        raise InputError(what, key="traffic.group_size", hint=f"a divisor of {n_hosts}")
    return n
