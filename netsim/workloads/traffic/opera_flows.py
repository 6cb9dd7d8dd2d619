"""Flow lists of opera-sim and Flare: `src dst bytes start_ns` on each line.

    0 5 1000000 0
    3 1 24000 1500

Node k is host k. Times are nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from netsim.flows import FlowTable, TrafficContext
from netsim.inputs import user_path
from netsim.network import Network
from netsim.params import REQUIRED, Param
from netsim.workloads.importers.flow_text import read_opera_flows
from netsim.workloads.traffic._listed import AS_WRITTEN, BEGIN, flow_table

PARAMS = [
    Param("file", "file", REQUIRED, "flow list, such as flows.htsim"),
    Param(
        "start_times",
        "choice",
        AS_WRITTEN,
        "start times as in the file, or shifted so that the first is 0",
        choices=BEGIN,
    ),
]


def flows(
    params: Mapping[str, Any], network: Network, rng: np.random.Generator, context: TrafficContext
) -> FlowTable:
    listed = read_opera_flows(user_path(params["file"], context.directory))
    return flow_table(listed, network, context, params["start_times"])
