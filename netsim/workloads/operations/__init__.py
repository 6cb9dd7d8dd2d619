"""Operations of ranks and their dependencies, lowered to tasks and flows.

ops = Operations(2)
forward = ops.compute([0, 1], 1_000_000)
sent, received = ops.send(0, 1, 4096)
ops.after(forward[0], sent)
ops.after(received, forward[1])
load = ops.lower(hosts=[0, 8])
"""

from __future__ import annotations

from netsim.workloads.collectives.steps import CollectiveOptions
from netsim.workloads.operations.operations import Operations
from netsim.workloads.operations.table import JobSteps
from netsim.workloads.operations.wires import Wires

__all__ = ["CollectiveOptions", "JobSteps", "Operations", "Wires"]
