"""Serving goodput: bars are means of the summaries; the formula gives each policy's capacity."""

from types import SimpleNamespace
from typing import Any

import pytest
from golden_pictures import assert_golden
from raises_input import raises_input

from netsim.workloads.plots import serving
from netsim.workloads.serving.failures import Policy
from netsim.workloads.serving.outcome import expected_capacity

S = 10**12
NAMES = ("mtbf", "repair_time", "swap_time", "spares", "restart_time", "failure_trace")
NO_FAILURES = {**dict.fromkeys(NAMES, "none"), "on_failure": "stop"}
STOP = NO_FAILURES | {"mtbf": "80s", "repair_time": "2s", "swap_time": "50ms"}
SPARE = STOP | {"spares": 1}
SHRINK = STOP | {"on_failure": "shrink", "restart_time": "50ms"}


def result(
    label: str, seed: int, traffic: dict[str, Any], *, met: float, capacity: float, roles: int = 1,
    transport: str = "ndp",
) -> Any:  # fmt: skip
    role = {"instances": 4, "hosts": 32}
    return SimpleNamespace(
        path="r",
        name="served",
        complete=True,
        experiment={
            "axes": {"traffic": label, "seed": seed, "transport": transport},
            "seed": seed,
            "name": "served",
            "resolved": {"traffic": traffic, "transport": {"kind": transport}},
            "plugins": [{"kind": "transport", "name": transport, "sha256": "0" * 8}],
        },
        summary={
            "serving": {
                "slo": {"attainment": met, "goodput_per_s": 30 * met, "stalled": 2 * seed},
                "second_token_ps": {"p99": S // 50},
                "failures": {"count": 3, "available_gpu_share": capacity},
                "ttft_ps": {"p99": S // 10 * seed},
                "restarts": 40,
                "roles": {str(number): role for number in range(roles)},
            }
        },
    )


def runs() -> list[Any]:
    return [
        result("stop", 1, STOP, met=0.8, capacity=0.9),
        result("stop", 2, STOP, met=0.6, capacity=0.7),
        result("spare", 1, SPARE, met=0.95, capacity=0.99),
        result("shrink", 1, SHRINK, met=0.9, capacity=0.98),
        result("none", 1, NO_FAILURES, met=1.0, capacity=1.0),
    ]


def test_bars_are_means_over_seeds() -> None:
    found = serving.goodput_bars(runs())
    assert [bar.label for bar in found] == ["stop", "spare", "shrink", "none"]
    stop, rows = found[0], serving.goodput_table(found).rows
    assert (stop.met.mean, stop.met.values) == (pytest.approx(0.7), (0.8, 0.6))
    assert stop.capacity.mean == pytest.approx(0.8)
    assert rows[0][1:3] == ("2", "3")
    assert rows[0][6:8] == ("70.0", "60 to 80")
    assert rows[0][-2:] == ("20", "3")


def test_formula_capacity_follows_the_failure_policy() -> None:
    bars = serving.goodput_bars(runs())
    policies = (
        Policy(80 * S, 2 * S, S // 20),
        Policy(80 * S, 2 * S, S // 20, spares=1),
        Policy(80 * S, 2 * S, S // 20, on_failure="shrink", restart_ps=S // 20),
    )
    expected = [*(expected_capacity(policy, 8, 4) for policy in policies), 1.0]
    assert [bar.by_formula for bar in bars] == expected
    assert bars[0].by_formula == pytest.approx(10 / (10 + 2.05))
    split = result("split", 1, STOP, met=1.0, capacity=1.0, roles=2)
    assert serving.by_formula(split) is None
    listed = NO_FAILURES | {"failure_trace": "mine.csv"}
    assert serving.by_formula(result("file", 1, listed, met=1.0, capacity=0.9)) is None


def test_results_without_requests_are_rejected() -> None:
    other = SimpleNamespace(path="r", summary={})
    with raises_input("request"):
        serving.goodput_bars([other])


def test_figures_are_the_golden_ones() -> None:
    assert_golden("serving goodput", serving.serving_goodput(runs()))
    both = [result("stop", 1, STOP, met=0.8, capacity=0.9, transport=x) for x in ("ndp", "roce")]
    assert_golden("serving goodput, two transports", serving.serving_goodput(both))
