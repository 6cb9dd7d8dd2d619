"""Any graph from a file: GraphML, node-link JSON, a list of edges, or a topology of HPCC or SimAI.

Each edge is a cable, both ways. Hosts are numbered in the order of the file's nodes, ports in that
in which networkx gives the edges, node by node; switches keep their names. Hosts are the nodes with
`kind` "host", switches those with "switch". If no node has a kind, hosts are the nodes with one
cable; `hosts` may say it otherwise. Edges may have `rate` ("100Gbps"), `delay` ("1us") and `nic`,
nodes `name`, `tier` and `latency`; GraphML and JSON may also have `rate_bps`, `delay_ps` and
`latency_ps`, whole numbers.

A list of edges has a line for each: two nodes, then perhaps rate and delay, then words such as
`weight=3`; `#` begins a comment. A file of the ns-3 family begins with three numbers, nodes,
switches and links (HPCC, ASTRA-sim), or with five and a GPU (SimAI), whose NVSwitches are joined to
NIC 1 of the hosts: traffic within a server takes NVLink, which is faster than NIC 0. Links that
lose packets are refused: that is written in [faults].

Packets take all shortest paths, by cables or, with `weight`, by the sum of that attribute of the
edges. A networkx graph that a program makes is a topology file of its own, whose `build(params)`
returns `from_networkx(graph, GraphDefaults(rate_bps, delay_ps))`, both from netsim.network.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from netsim.errors import InputError
from netsim.network import GraphDefaults, Network, from_networkx, read_graph
from netsim.params import REQUIRED, Param

PARAMS = [
    Param("file", "file", REQUIRED, "the graph"),
    Param(
        "format",
        "choice",
        "auto",
        "auto: by the file's ending and its first line",
        choices=("auto", "graphml", "json", "edges", "ns3"),
    ),
    Param(
        "hosts", "text", "auto", 'which nodes are hosts: auto, degree, or a pattern such as "h*"'
    ),
    Param("weight", "text", None, "attribute of edges that paths are chosen by", optional=True),
    Param("rate", "rate", "400Gbps", "line rate of cables that do not say it"),
    Param("latency", "time", "1us", "propagation of cables that do not say it", minimum="1ps"),
    Param("switch_latency", "time", "0ns", "of switches that do not say it"),
]


def build(params: Mapping[str, Any]) -> Network:
    """The network of `params` (see PARAMS).

    Raises:
        InputError: it names the file, and the line, the node or the edge.
    """
    path = Path(params["file"])
    graph = read_graph(path, params["format"])
    defaults = GraphDefaults(params["rate"], params["latency"], params["switch_latency"])
    try:
        return from_networkx(
            graph, defaults, hosts=params["hosts"], weight=params["weight"], name=path.stem
        )
    except InputError as error:
        raise error.at(file=str(path)) from None
