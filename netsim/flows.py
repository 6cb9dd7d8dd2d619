"""Names that a traffic pattern imports."""

from __future__ import annotations

from netsim.model.columns import Rng
from netsim.model.flows import FlowTable, TrafficContext
from netsim.model.patterns import PATTERN_PARAMS, Destinations, destinations
from netsim.model.workload import ACKED, COMPUTE, JOIN, RECEIVE, SEND, SENT, TaskTable, Workload

__all__ = [
    "ACKED", "COMPUTE", "JOIN", "PATTERN_PARAMS", "RECEIVE", "SEND", "SENT", "Destinations",
    "FlowTable", "Rng", "TaskTable", "TrafficContext", "Workload", "destinations",
]  # fmt: skip
