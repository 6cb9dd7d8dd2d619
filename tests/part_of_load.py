"""Read the operations and job steps that a workload carries."""

from netsim.model.workload import Workload
from netsim.workloads.operations.table import JobSteps, OperationTable


def operations_of(load: Workload) -> OperationTable:
    table = load.part(OperationTable)
    assert table is not None
    return table


def steps_of(load: Workload) -> JobSteps:
    steps = operations_of(load).steps
    assert steps is not None
    return steps
