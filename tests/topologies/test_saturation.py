"""Simulated direct networks saturate between 3 % below and 3 % above the published load.

Dally and Towles, "Principles and Practices of Interconnection Networks", sections 3.3 and 9.2; Kim
et al., "Technology-Driven, Highly-Scalable Dragonfly Topology", ISCA 2008.
"""

from __future__ import annotations

import pytest

from netsim.experiment import Experiment
from netsim.results.run_result import RunResult
from netsim.results.saturation import is_saturated
from netsim.running.point import simulate

CASES = [
    ({"kind": "torus", "shape": "8"}, "uniform", 8 / 8 * 7 / 8),
    ({"kind": "torus", "shape": "16"}, "uniform", 8 / 16 * 15 / 16),
    ({"kind": "torus", "shape": "8"}, "tornado", 1 / (8 / 2 - 1)),
    ({"kind": "torus", "shape": "8"}, "bit_complement", 4 / 8),
    ({"kind": "torus", "shape": "8x8"}, "bit_complement", 4 / 8),
    ({"kind": "torus", "shape": "8x8"}, "transpose", 2 / 7),
    ({"kind": "hyperx", "shape": "8", "hosts_per_switch": 7}, "group_plus_one", 1 / 7),
    ({"kind": "dragonfly", "switches_per_group": 4}, "group_plus_one", 1 / (4 * 2)),
]


def measured(topology: dict, pattern: str, load: float) -> RunResult:
    traffic = {"kind": "poisson", "pattern": pattern, "arrival_process": "even", "sizes": "4096B"}
    experiment = {
        "transport": "datagram",
        "topology": {**topology, "host_rate": "100Gbps"},
        "traffic": {**traffic, "load": load},
        "fabric": {"queue_bytes": "1GB"},
        "measure": {"warmup": "200us", "window": "600us", "drain": "0s"},
    }
    (point,) = Experiment.from_mapping(experiment).points()
    return simulate(point, threads=1)


@pytest.mark.slow
@pytest.mark.parametrize(("topology", "pattern", "exact"), CASES)
def test_simulated_saturation_is_within_three_percent(
    topology: dict, pattern: str, exact: float
) -> None:
    below, above = (measured(topology, pattern, factor * exact) for factor in (0.97, 1.03))
    for result, saturated in ((below, False), (above, True)):
        found = result.summary["throughput"]
        assert found["saturation_bound"] == pytest.approx(exact)
        assert is_saturated([{"status": "measured", **found}]) is saturated
    assert above.summary["throughput"]["accepted_load"] == pytest.approx(exact, rel=0.03)
