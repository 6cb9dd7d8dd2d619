"""Networks from networkx graphs, and from files of graphs.

The formats are GraphML, node-link JSON, edge lists, and topologies of the ns-3 family.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.common.inputs import at_line, read_json, read_lines, read_text, whole
from netsim.common.memory import require_room
from netsim.errors import InputError, errors_at
from netsim.frozen import frozen
from netsim.model.builder import MAX_WEIGHT, NetworkBuilder
from netsim.model.network import Network
from netsim.units import parse_rate_bps, parse_time_ps, written

if TYPE_CHECKING:
    import networkx


AUTO, DEGREE = "auto", "degree"
HOST, SWITCH = "host", "switch"


@frozen
class GraphDefaults:
    """Values for nodes and cables without their own."""

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

    Hosts are numbered in node order, ports in the order of `graph.edges`, node by node.

    Args:
        graph: undirected; parallel edges are allowed. Edges may have `rate` ("100Gbps") or
            `rate_bps`, `delay` ("1us") or `delay_ps`, and `nic`; nodes `kind` ("host" or "switch"),
            `name`, `tier` and `latency` or `latency_ps`.
        defaults: values of missing attributes.
        hosts: "auto": nodes of `kind` "host" or, if no node has a kind, nodes with one cable;
        "degree": nodes with one cable; or a pattern of node names, such as "h*". weight: edge
        attribute that shortest paths minimize, an integer; None: each cable counts 1.

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
    return replace(builder.build(name), note=graph.graph.get("note", ""))


def _hosts(graph: networkx.Graph[Any], hosts: str) -> dict[Any, bool]:
    """Return which nodes are hosts. Raises InputError if no node, or every node, is a host."""
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


# --- files ----------------------------------------------------------------------------------------

SCALE_UP = 1  # the NIC that connects to NVSwitches; all other cables are on NIC 0

HPCC_WORDS, SIMAI_WORDS = 3, 6
LINK_WORDS = 5

NODE_BYTES, EDGE_BYTES = 600, 1600  # memory per node and edge of a networkx graph, with attributes

Lines = Sequence[tuple[int, str]]


def read_graph(path: Path, form: str) -> networkx.Graph[Any]:
    """Return the graph of a file; `form` is one of FORMS, or "auto" to go by the file name's
    ending. Raises InputError naming the file and the line, node or edge."""
    if form == "auto":
        form = ENDINGS.get(path.suffix.lower(), "edges")
        if form == "edges" and _begins_as_ns3(path):
            form = "ns3"
    with errors_at(file=path):
        return FORMS[form](path)


def _read_graphml(path: Path) -> networkx.Graph[Any]:
    from xml.etree.ElementTree import ParseError

    import networkx

    text = read_text(path)
    _require_room(text.count("<node"), text.count("<edge"))
    try:
        graph: networkx.Graph[Any] = networkx.parse_graphml(text)
    except ParseError as error:
        message = f"is not GraphML: {error.msg}"
        raise at_line(path, error.position[0], message) from None
    except (networkx.NetworkXError, KeyError, ValueError, TypeError) as error:
        raise InputError(f"is not GraphML: {error}", code="unreadable") from None
    return graph


def _read_json(path: Path) -> networkx.Graph[Any]:
    import networkx

    tree = read_json(path)
    edges = tree.get("edges", tree.get("links")) if isinstance(tree, dict) else None
    if not isinstance(edges, list) or not isinstance(tree.get("nodes"), list):
        hint = 'as networkx.node_link_data writes it: {"nodes": [{"id": ...}], "links": [...]}'
        raise InputError("is not a node-link graph", hint=hint)
    _require_room(len(tree["nodes"]), len(edges))
    graph: networkx.Graph[Any] = (
        networkx.MultiDiGraph() if tree.get("directed") else networkx.MultiGraph()
    )
    for index, node in enumerate(tree["nodes"]):
        if not isinstance(node, dict) or not _is_name(node.get("id")):
            raise InputError(f"{written(node)} has no id", key=f"nodes[{index}]")
        if node["id"] in graph:
            raise InputError("duplicate node", key=f"node {node['id']}", code="duplicate")
        graph.add_node(node["id"], **{str(k): v for k, v in node.items() if k != "id"})
    for index, edge in enumerate(edges):
        ends = [edge.get(end) for end in ("source", "target")] if isinstance(edge, dict) else []
        if not ends or not all(_is_name(end) and end in graph for end in ends):
            hint = "source and target must be ids of nodes"
            raise InputError(f"{written(edge)} is not an edge", key=f"links[{index}]", hint=hint)
        values = {str(k): v for k, v in edge.items() if k not in ("source", "target", "key")}
        graph.add_edge(*ends, **values)
    return graph


def _require_room(n_nodes: int, n_edges: int) -> None:
    """Raise InputError if such a graph does not fit into memory."""
    what = f"a graph of {n_nodes:,} nodes and {n_edges:,} edges"
    require_room(NODE_BYTES * n_nodes + EDGE_BYTES * n_edges, what=what)


def _is_name(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _read_edges(path: Path) -> networkx.Graph[Any]:
    """Read lines of two nodes, then rate and delay, words such as weight=3, or a dict."""
    import networkx

    graph: networkx.MultiGraph[Any] = networkx.MultiGraph()
    lines = list(read_lines(path))
    _require_room(0, len(lines))
    for number, line in lines:
        a, b, rest = (*line.split(None, 2), "", "")[:3]
        if not b:
            hint = 'such as "leaf0 spine0", or "leaf0 spine0 100Gbps 1us"'
            raise at_line(path, number, f"{written(line)} is not an edge", hint)
        graph.add_edge(a, b, **_edge_values(path, number, rest))
    if not graph:
        raise InputError("has no edges")
    return graph


def _edge_values(path: Path, number: int, rest: str) -> dict[str, Any]:
    if rest.startswith("{"):
        try:
            values = ast.literal_eval(rest)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            values = None
        if not isinstance(values, dict):
            raise at_line(path, number, f"{written(rest)} is not a dict of values")
        return {str(key): value for key, value in values.items()}
    words, found = rest.split(), {}
    for at, word in enumerate(words):
        key, equals, value = word.partition("=")
        if not equals and at < len(POSITIONS):
            key, value = POSITIONS[at], word
        elif not equals:
            raise at_line(path, number, f"unexpected word {written(word)}", "such as weight=3")
        found[key] = _checked(path, number, key, value)
    return found


POSITIONS = ("rate", "delay")  # meaning of the third and fourth word of a line

PARSERS: dict[str, Callable[[object], int]] = {"rate": parse_rate_bps, "delay": parse_time_ps}


def _checked(path: Path, number: int, key: str, value: str) -> Any:
    """Return a value of a line. Rates and times are checked here, where the line is known."""
    try:
        if key in PARSERS:
            PARSERS[key](value)
            return value
        return whole(value)
    except InputError as error:
        raise at_line(path, number, f"{key}: {error.message}", error.hint) from None
    except ValueError:
        return value


def _begins_as_ns3(path: Path) -> bool:
    """Return whether the first line has 3 numbers, or 5 and a name, as in the ns-3 family."""
    for _, line in read_lines(path):
        words = line.split()
        numbers = words[: SIMAI_WORDS - 1]
        return len(words) in (HPCC_WORDS, SIMAI_WORDS) and all(word.isdecimal() for word in numbers)
    return False


def _read_ns3(path: Path) -> networkx.Graph[Any]:
    """Read the format of HPCC (and ASTRA-sim's ns-3) or of SimAI, depending on the first line."""
    import networkx

    lines = list(read_lines(path))
    if not lines:
        raise InputError("is empty", code="out_of_range")
    at, line = lines[0]
    words = line.split()
    if len(words) not in (HPCC_WORDS, SIMAI_WORDS):
        hint = "nodes switches links (HPCC), or nodes gpus nvswitches switches links type (SimAI)"
        raise at_line(path, at, f"has {len(words)} words", hint)
    counts = [_number(path, at, word) for word in words[: SIMAI_WORDS - 1]]
    is_simai = len(words) == SIMAI_WORDS
    n_nodes, n_links = counts[0], counts[-1]
    n_scale_up, n_switches = (counts[2], counts[3]) if is_simai else (0, counts[1])
    n_listed = n_scale_up + n_switches
    has_list = n_listed > 0 and len(lines) > 1
    listed = [_number(path, lines[1][0], word) for word in lines[1][1].split()] if has_list else []
    if len(listed) != n_listed or len(set(listed)) != n_listed:
        message = f"{len(set(listed))} switches are listed, but line {at} gives {n_listed}"
        raise at_line(path, lines[1][0] if has_list else at, message)
    for node in listed:
        if node >= n_nodes:
            raise at_line(path, lines[1][0], f"unknown node {node}", f"0 to {n_nodes - 1}")
    links = lines[1 + has_list :]
    if len(links) < n_links:
        message = f"{len(links)} links follow, but line {at} gives {n_links}"
        raise at_line(path, links[-1][0] if links else at, message)
    if n_links < n_nodes - 1:
        message = f"{n_links:,} links cannot connect {n_nodes:,} nodes"
        raise at_line(path, at, message, f"at least {n_nodes - 1:,}")
    _require_room(n_nodes, n_links)
    graph: networkx.MultiGraph[Any] = networkx.MultiGraph()
    if unread := len(links) - n_links:  # ns-3 stops here; in HPCC's own files, comments follow
        graph.graph["note"] = f"{path.name}: {unread} lines after its {n_links} links are not read"
    switches = set(listed)
    for node in range(n_nodes):
        graph.add_node(node, kind=SWITCH if node in switches else HOST)
    for number, node in enumerate(listed):
        kind = "nvswitch" if number < n_scale_up else "switch"
        graph.nodes[node]["name"] = f"{kind}{node}"
    _add_links(path, graph, links[:n_links], set(listed[:n_scale_up]))
    return graph


def _add_links(
    path: Path, graph: networkx.MultiGraph[Any], links: Lines, scale_up: set[int]
) -> None:
    for at, line in links:
        words = line.split()
        if len(words) != LINK_WORDS:
            hint = "such as 0 1 100Gbps 0.001ms 0"
            raise at_line(path, at, f"{written(line)} is not a link", hint)
        a, b = (_number(path, at, word) for word in words[:2])
        for node in (a, b):
            if node not in graph:
                raise at_line(path, at, f"unknown node {node}", f"0 to {len(graph) - 1}")
        try:
            lossless = float(words[4]) == 0
        except ValueError:
            raise at_line(path, at, f"{written(words[4])} is not an error rate") from None
        if not lossless:
            hint = "0 here, and a fault of these links with a loss_rate in the experiment"
            raise at_line(path, at, f"error rate {words[4]} is not supported", hint)
        values = {key: _checked(path, at, key, words[2 + k]) for k, key in enumerate(POSITIONS)}
        graph.add_edge(a, b, nic=SCALE_UP if {a, b} & scale_up else 0, **values)


def _number(path: Path, at: int, word: str) -> int:
    try:
        number = whole(word)
    except ValueError:
        number = -1
    if number < 0:
        raise at_line(path, at, f"{written(word)} is not a whole number")
    return number


ENDINGS = {".graphml": "graphml", ".xml": "graphml", ".json": "json"}
"""File name ending -> format; others are edge lists, or ns3 by their first line."""

FORMS: dict[str, Callable[[Path], Any]] = {
    "graphml": _read_graphml,
    "json": _read_json,
    "edges": _read_edges,
    "ns3": _read_ns3,
}
