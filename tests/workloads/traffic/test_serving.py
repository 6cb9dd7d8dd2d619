"""The traffic pattern `serving`: parameter errors, instance placement and memory use."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from raises_input import raises_input
from served import deployment
from traffic_cases import made

from netsim.workloads.serving.data import DECODE, MIXED, PREFILL, ServingPlan

HALVES = {"prefill_instances": 1, "decode_instances": 1}
LARGE = deployment(machine={"memory": "2GB"})
OTHER = deployment(model={"layers": 3})


def plan(n_hosts: int = 8, **given: Any) -> Any:
    """Return the plan of four requests at 100 requests per second."""
    shape = {"deployment": deployment(), "rate": 100.0, "requests": 4, **given}
    return made("serving", n_hosts, **shape).part(ServingPlan)


def test_prefill_and_decode_instances_have_their_own_hosts() -> None:
    found = plan(deployment=deployment(4), decode_deployment=deployment(2), **HALVES)
    assert found.instances.role.tolist() == [PREFILL, DECODE]
    assert [found.instances.of([k])[0].tolist() for k in range(2)] == [[0, 1, 2, 3], [4, 5]]
    assert found.costs[MIXED] is None
    assert (found.costs[PREFILL].tp, found.costs[DECODE].tp) == (4, 2)
    apart = plan(instances=4, gpu_stride=4)
    assert [apart.instances.of([k])[0].tolist() for k in range(2)] == [[0, 4], [1, 5]]


def test_gpus_are_placed_from_a_file(tmp_path: Any) -> None:
    (tmp_path / "hosts.csv").write_text("rank,host\n0,7\n1,3\n3,0\n2,5\n")
    found = plan(instances=2, placement_file="hosts.csv", directory=tmp_path)
    assert [found.instances.of([k])[0].tolist() for k in range(2)] == [[7, 3], [5, 0]]


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"requests": 100_000_000, "rate": 1e6, **HALVES}, "traffic.requests"),
        (
            {"instances": 4, "all_reduces": "packets", "max_iterations": 100_000_000},
            "traffic.max_iterations",
        ),
    ],
)
def test_workloads_beyond_the_memory_are_rejected(
    given: dict[str, Any], key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("netsim.common.memory.available_bytes", lambda: 10**9)
    with raises_input(key):
        plan(**given)


def test_large_workload_takes_under_1000_bytes_per_task() -> None:
    table = deployment(8)
    tracemalloc.start()
    load = made("serving", 16, deployment=table, rate=1e6, requests=5_000, output=2, **HALVES)
    n_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert load.tasks is not None
    assert len(load.tasks) == 5_000 * (1 + 3 * 15 + 1 - 1)
    assert np.unique(load.flows.kind).tolist() == [0, 1]
    assert n_bytes < 1000 * len(load.tasks)
