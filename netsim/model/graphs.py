"""Networks from networkx graphs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.errors import InputError
from netsim.model.builder import MAX_WEIGHT, NetworkBuilder
from netsim.model.network import Network
from netsim.units import parse_rate_bps, parse_time_ps, written

if TYPE_CHECKING:
    import networkx

AUTO, DEGREE = "auto", "degree"
HOST, SWITCH = "host", "switch"


@dataclass(frozen=True)
class GraphDefaults:
    """Values for nodes and cables that have none of their own."""

    rate_bps: int
    delay_ps: int
    latency_ps: int = 0


def from_networkx(
    graph: networkx.Graph[Any],
    defaults: GraphDefaults,
    *,
    hosts: str = AUTO,
    weight: str | None = None,
    name: str = "graph",
) -> Network:
    """Return the network of a graph; each edge is a cable in both directions.

    Hosts are numbered in the order of the nodes, ports in that of `graph.edges`, node by node.

    Args:
        graph: undirected; parallel edges are allowed. Edges may have `rate` ("100Gbps") or
            `rate_bps`, `delay` ("1us") or `delay_ps`, and `nic`; nodes `kind` ("host" or "switch"),
            `name`, `tier` and `latency` or `latency_ps`.
        defaults: values of missing attributes.
        hosts: "auto": nodes of `kind` "host" or, if no node has a kind, those with one cable;
            "degree": those with one cable; or a pattern of node names, such as "h*".
        weight: edge attribute that shortest paths minimize, an integer; None: each cable counts 1.

    Raises InputError naming the node or edge.
    """
    if graph.is_directed():
        hint = 'use graph.to_undirected(), or edgedefault="undirected"'
        raise InputError("the graph must be undirected", hint=hint)
    is_host = _hosts(graph, hosts)
    builder = NetworkBuilder()
    builder.reserve(
        hosts=sum(is_host.values()),
        switches=len(is_host) - sum(is_host.values()),
        cables=graph.number_of_edges(),
    )
    builder.add_hosts(sum(is_host.values()))
    number = {node: k for k, node in enumerate(node for node, is_one in is_host.items() if is_one)}
    for node, is_one in is_host.items():
        if not is_one:
            number[node] = _add_switch(builder, node, graph.nodes[node], defaults)
    for a, b, values in graph.edges(data=True):
        place = f"edge {a} - {b}"
        if is_host[a] and is_host[b]:
            hint = 'put a switch between them, or set kind = "switch"'
            raise InputError("connects two hosts", key=place, hint=hint)
        rate_bps = _value(place, values, ("rate", "rate_bps"), parse_rate_bps, defaults.rate_bps)
        delay_ps = _value(place, values, ("delay", "delay_ps"), parse_time_ps, defaults.delay_ps)
        nic = _whole(place, "nic", values.get("nic", 0), 0)
        own = 1 if weight is None else _weight(place, weight, values)
        builder.cable(number[a], number[b], rate_bps, delay_ps, nic=nic, weight=own)
    _require_connected(graph)
    return builder.build(name)


def _hosts(graph: networkx.Graph[Any], hosts: str) -> dict[Any, bool]:
    """Return which nodes are hosts. Raises InputError if none or all are."""
    kinds = {node: values.get("kind") for node, values in graph.nodes(data=True)}
    if hosts not in (AUTO, DEGREE):
        found = {node: fnmatchcase(str(node), hosts) for node in kinds}
        why, hint = f"pattern {written(hosts)} matches", "node names are those of the file"
    elif hosts == AUTO and any(kind is not None for kind in kinds.values()):
        for node, kind in kinds.items():
            if kind not in (HOST, SWITCH):
                shown = "has no kind" if kind is None else f"is of kind {written(kind)}"
                hint = f'"{HOST}" or "{SWITCH}" for every node, or for none'
                raise InputError(shown, key=f"node {node}", hint=hint)
        found = {node: kind == HOST for node, kind in kinds.items()}
        why, hint = f'kind "{HOST}" applies to', f'kind = "{HOST}"'
    else:
        found = {node: graph.degree(node) == 1 for node in kinds}
        why, hint = "one cable belongs to", f'set kind = "{HOST}" or "{SWITCH}" for every node'
    for bad, which in ((not any(found.values()), "no"), (all(found.values()), "all")):
        if bad:
            what = "switches" if which == "all" else "hosts"
            raise InputError(f"the network has no {what}: {why} {which} nodes", hint=hint)
    return found


def _add_switch(
    builder: NetworkBuilder, node: Any, values: Mapping[str, Any], defaults: GraphDefaults
) -> int:
    place = f"node {node}"
    keys = ("latency", "latency_ps")
    latency_ps = _value(place, values, keys, parse_time_ps, defaults.latency_ps)
    tier = _whole(place, "tier", values.get("tier", 0), 0)
    return builder.add_switch(str(values.get("name", node)), tier, latency_ps)


def _value(
    place: str,
    values: Mapping[str, Any],
    keys: tuple[str, str],
    parse: Callable[[object], int],
    default: int,
) -> int:
    """Return a value with a unit, or a whole number of the base unit, or the default."""
    with_unit, in_base = keys
    try:
        if with_unit in values:
            return parse(values[with_unit])
    except InputError as error:
        raise error.replace(message=f"{with_unit}: {error.message}", key=place) from None
    if in_base not in values:
        return default
    value = values[in_base]
    if isinstance(value, list | tuple) and len(set(value)) == 1:
        value = value[0]  # both directions, from `Network.to_networkx`
    return _whole(place, in_base, value, 0)


def _whole(place: str, key: str, value: object, least: int) -> int:
    is_number = isinstance(value, int | np.integer) or (
        isinstance(value, float) and math.isfinite(value)
    )
    number: int | None = int(value) if is_number else None  # type: ignore[call-overload]
    if number is None or isinstance(value, bool) or number != value or number < least:
        message = f"{key}: {written(value)} is not a whole number"
        raise InputError(message, key=place, hint=f"{least} or more")
    return number


def _weight(place: str, key: str, values: Mapping[str, Any]) -> int:
    """Return an edge's weight, a whole number since sums are compared."""
    if key not in values:
        raise InputError(f"missing {key}", key=place, hint="a whole number for every edge")
    number = _whole(place, key, values[key], 1)
    if number > MAX_WEIGHT:
        raise InputError(f"{key}: {number} is too large", key=place, hint=f"at most {MAX_WEIGHT}")
    return number


def _require_connected(graph: networkx.Graph[Any]) -> None:
    import networkx

    parts = list(networkx.connected_components(graph))
    if len(parts) > 1:
        smallest = min(parts, key=len)
        raise InputError(
            f"the graph has {len(parts)} unconnected parts",
            key=f"node {next(node for node in graph if node in smallest)}",
            hint="every host must reach every other",
        )
