"""Serving plans: instances, requests and their assignment."""

from __future__ import annotations

import numpy as np

from netsim.flows import FlowTable, TaskTable, Workload
from netsim.workloads.serving.data import DECODE, PREFILL, Requests, ServingInstances, ServingPlan


def plan() -> ServingPlan:
    """Two prefill instances of two hosts, a decode instance of three, two requests."""
    return ServingPlan(
        instances=ServingInstances(
            np.array([PREFILL, PREFILL, DECODE], np.int8),
            np.array([0, 2, 4, 7]),
            np.array([8, 9, 4, 5, 1, 2, 3], np.int32),
        ),
        requests=Requests(np.array([0, 5]), np.array([10, 20]), np.array([3, 1])),
        prefill_instance=np.array([0, 1], np.int32),
        decode_instance=np.array([2, -1], np.int32),
        costs=(None, None, None),
        ttft_ps=None,
        tbt_ps=None,
        kv_first_flow=np.array([0, 3]),
        kv_flows=np.array([3, 0]),
    )


def test_joined_serving_plan_shifts_its_flow_numbers() -> None:
    other = Workload(FlowTable([0, 1], [1, 0], 100))
    served = Workload(FlowTable([8, 9, 8], [1, 2, 3], 50), TaskTable([3], [0]), parts=(plan(),))
    joined = Workload.join([other, served]).part(ServingPlan)
    assert joined is not None
    assert joined.kv_first_flow.tolist() == [2, 5]
    assert joined.kv_flows.tolist() == [3, 0]
    alone = Workload.join([served]).part(ServingPlan)
    assert alone is not None
    assert alone.kv_first_flow.tolist() == [0, 3]
