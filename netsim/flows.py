"""Names that a traffic pattern imports."""

from __future__ import annotations

from netsim.model.flows import FlowTable, TrafficContext
from netsim.model.tasks import ACKED, COMPUTE, JOIN, RECEIVE, SEND, SENT, TaskTable
from netsim.model.workload import Workload

__all__ = [
    "ACKED", "COMPUTE", "JOIN", "RECEIVE", "SEND", "SENT", "FlowTable", "TaskTable",
    "TrafficContext", "Workload",
]  # fmt: skip
