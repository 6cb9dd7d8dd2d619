"""The traffic pattern `serving`: parameter errors, instance placement and memory use."""

from typing import Any

import pytest
from raises_input import raises_input
from served import deployment
from traffic_cases import made

from netsim.workloads.serving.plan import DECODE, MIXED, PREFILL, ServingPlan

HALVES = {"prefill_instances": 1, "decode_instances": 1}


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
