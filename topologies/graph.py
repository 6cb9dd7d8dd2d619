"""Any graph from a file: GraphML, node-link JSON, an edge list, or a topology of HPCC or SimAI.

Each edge is a cable in both directions. Hosts are numbered in the order of the file's nodes, ports
in the order of networkx's edges, node by node; switches keep their names. Hosts are nodes of `kind`
"host", switches nodes of kind "switch"; if no node has a kind, nodes with one cable are hosts.
`hosts` may select others. Edges may have `rate` ("100Gbps"), `delay` ("1us") and `nic`, nodes
`name`, `tier` and `latency`; GraphML and JSON also `rate_bps`, `delay_ps` and `latency_ps`, in
whole numbers.

A line of an edge list is two nodes, then optionally rate and delay, then words such as `weight=3`;
`#` starts a comment. Files of the ns-3 family start with three numbers, nodes, switches and links
(HPCC, ASTRA-sim), or with five and a GPU (SimAI). SimAI's NVSwitches connect to NIC 1 of hosts, so
that traffic within a server uses NVLink, which is faster than NIC 0. Links with loss are refused;
use [faults].

Packets take all shortest paths, by the number of cables or, with `weight`, the sum of that edge
attribute. For a networkx graph from a program, write a topology file whose `build(params)` returns
`from_networkx(graph, GraphDefaults(rate_bps, delay_ps))`, both from netsim.network.
"""

from __future__ import annotations

from pathlib import Path

from netsim.errors import errors_at
from netsim.network import GraphDefaults, Network, from_networkx, read_graph
from netsim.params import REQUIRED, Param, Params

AUTO = "auto"
FORMATS = (AUTO, "graphml", "json", "edges", "ns3")
PARAMS = [
    Param("file", "file", REQUIRED, "the graph"),
    Param("format", "choice", AUTO, "auto: by file name ending and first line", choices=FORMATS),
    Param("hosts", "text", AUTO, 'which nodes are hosts: auto, degree, or a pattern such as "h*"'),
    Param("weight", "text", None, "edge attribute that paths minimize"),
    Param("rate", "rate", "400Gbps", "default line rate of cables"),
    Param("latency", "time", "1us", "default propagation delay of cables", minimum="1ps"),
    Param("switch_latency", "time", "0ns", "default latency of switches"),
]


def build(params: Params) -> Network:
    """Return the network of `params` (see PARAMS). Raises InputError naming file, line or node."""
    path = Path(params["file"])
    graph = read_graph(path, params["format"])
    defaults = GraphDefaults(params["rate"], params["latency"], params["switch_latency"])
    with errors_at(file=path):
        return from_networkx(
            graph, defaults, hosts=params["hosts"], weight=params["weight"], name=path.stem
        )
