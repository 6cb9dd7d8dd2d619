"""Flow lists of opera-sim and Flare: `src dst bytes start_ns` on each line.

    0 5 1000000 0
    3 1 24000 1500

Node k is host k. Times are nanoseconds. Source: TritonNetworking/opera-sim.
"""

from __future__ import annotations

from netsim.common.inputs import user_path
from netsim.flows import FlowTable, Rng, TrafficContext
from netsim.network import Network
from netsim.params import REQUIRED, Param, Params
from netsim.workloads.traffic.ns3_flows import START_TIMES, flow_table, read_opera_flows

PARAMS = [Param("file", "file", REQUIRED, "flow list, such as flows.htsim"), START_TIMES]


def flows(params: Params, network: Network, rng: Rng, context: TrafficContext) -> FlowTable:
    listed = read_opera_flows(user_path(params["file"], context.directory))
    return flow_table(listed, network, context, params["start_times"])
