"""Figures of serving runs: latencies at one rate and over the rate; goodput, and its formula."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from golden_pictures import assert_golden
from raises_input import raises_input
from serving_case import log_of, split_run

from netsim.plots import by_axis
from netsim.workloads.plots import serving
from netsim.workloads.plots.timeline import View, timeline_of
from netsim.workloads.reports.serving import serving_result
from netsim.workloads.serving.failures import Policy
from netsim.workloads.serving.outcome import expected_capacity

FLOWS = {"start_ps": np.array([300, 310, 400, 420])}


def tables_of() -> dict[str, dict[str, np.ndarray]]:
    plan, rows = split_run()
    return serving_result(plan, log_of(rows), FLOWS, complete=True)[0]


def result(
    transport: str = "ndp", rate: float = 1.0, seed: int = 1, slower: int = 1, **slo: int
) -> Any:
    """Return the result of the split run, optionally slowed down by a factor."""
    plan, rows = split_run()
    plan = replace(plan, **slo)
    log = log_of(rows)
    for name in ("time_ps", "start_ps"):
        log[name] = np.where(log["time_ps"] >= 300, log[name] * slower, log[name])
    tables, summary = serving_result(plan, log, FLOWS, complete=True)
    return SimpleNamespace(
        path="here",
        name="served",
        complete=True,
        summary=summary,
        log=pl.DataFrame(log),
        iterations=None,
        requests=pl.DataFrame(
            {
                name: pl.Series(column).replace(-1, None)
                for name, column in tables["requests"].items()
            }
        ),
        experiment={
            "resolved": {
                "name": "served",
                "transport": {"kind": transport},
                "traffic": {"rate": rate},
            },
            "axes": {"transport": transport, "traffic.rate": rate},
            "seed": seed,
            "plugins": [{"kind": "transport", "name": transport, "sha256": "0" * 64}],
        },
    )


def points(axes: Any, label: str) -> list[tuple[float, float]]:
    (line,) = (one for one in axes.get_lines() if one.get_label() == label)
    found = zip(*(np.asarray(one).tolist() for one in line.get_data()), strict=True)
    return [(x, y) for x, y in found if y or x == round(x)]  # omits the start of a distribution


def test_one_rate_is_drawn_as_distributions() -> None:
    figure = serving.serving_latency([result("ndp", ttft_ps=230), result("roce", slower=2)]).figure
    first, second, between = figure.axes[:3]
    assert points(first, "ndp") == [(200.0, 0.5), (250.0, 1.0)]
    assert points(first, "roce") == [(500.0, 0.5), (650.0, 1.0)]
    assert points(second, "ndp") == [(160, 0.5), (200, 1.0)]
    assert points(between, "ndp") == [(60, 0.4), (80, 0.6), (160, 0.8), (200, 1.0)]
    limits = [
        one for one in first.get_lines() if one.get_linestyle() == ":" and len(one.get_xdata())
    ]
    assert [one.get_xdata()[0] for one in limits] == [230]
    assert names(figure) == ["NDP", "RoCE", "SLO"]
    assert names(serving.serving_latency([result("ndp", tbt_ps=150)]).figure) == ["NDP", "SLO"]
    assert names(serving.serving_latency([result("ndp")]).figure) == ["NDP"]


def names(figure: Any) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_several_rates_are_drawn_as_curves() -> None:
    every = [
        result(transport, rate, slower=slower, ttft_ps=600, stall_ps=350)
        for transport in ("ndp", "roce")
        for rate, slower in ((1.0, 1), (2.0, 2))
    ]
    figure = serving.serving_latency(every).figure
    assert names(figure)[2:] == ["all arrivals", "SLO", "stall limit"]
    first, second, between, goodput, stalled = figure.axes
    assert points(first, "roce") == [(1.0, 250), (2.0, 650)]
    assert points(second, "ndp") == points(between, "ndp") == [(1.0, 200), (2.0, 400)]
    # At twice the time, one of the two requests has a gap of 400 ps.
    assert points(stalled, "ndp") == [(1.0, 0), (2.0, 50)]
    (low, one), (high, other) = points(goodput, "ndp")
    assert (low, high) == (1.0, 2.0)
    assert one == pytest.approx(1 / 50e-12)
    assert other == 0  # the request whose first token was in time had that gap


def test_serving_columns_can_be_drawn_over_any_axis() -> None:
    every = [result("ndp", rate, slower=slower) for rate, slower in ((1.0, 1), (2.0, 2))]
    found = by_axis.against_axis(every, "rate", "tbt_p99")
    assert [point.mean for point in found.lines["ndp"].values()] == [200, 400]
    figure = by_axis.draw_against_axis(by_axis.against_axis(every, "rate", "goodput_per_s"))
    assert figure.axes[0].get_ylabel() == "goodput (1/s)"


def test_results_without_finished_requests_are_rejected() -> None:
    other = result()
    other.summary = {}
    with raises_input("request"):
        serving.serving_latency([result(), other])
    early = result()
    early.requests = early.requests.with_columns(ttft_ps=pl.lit(None, pl.Int64))
    with raises_input("request"):
        serving.serving_latency([early])


def test_timeline_shows_iterations_and_transfers() -> None:
    """Iterations are in the row of their instance's first host, next to its transfers."""
    one = result()
    one.operations = None
    one.iterations = pl.DataFrame(tables_of()["iterations"])
    one.summary["makespan_ps"] = 700
    one.flows = pl.DataFrame({"flow": [0], "src": [0], "dst": [2], "start_ps": [300]})
    one.tasks = pl.DataFrame(
        {
            "task": [0, 1],
            "host": [0, 2],
            "kind": ["compute", "receive"],
            "stream": [0, None],
            "flow": [None, 0],
            "start_ps": [0, 420],
            "end_ps": [100, 420],
        }
    )
    found = timeline_of([one], View())
    assert found.rows.select("host", "communicates").rows() == [(0, False), (2, False), (2, True)]
    bars = found.bars.select("row", "start_ps", "end_ps", "category", "text").rows()
    assert bars[0] == (0, 200, 300, "prefill", "10")
    assert bars[3] == (1, 500, 560, "decode", "2")
    assert bars[-1] == (2, 300, 420, "receive", "")


def test_figures_are_the_golden_ones() -> None:
    """A distant limit leaves the axes fitted to the curves; a near limit is inside them."""
    for name, far_or_near in (("far", 100_000), ("near", 230)):
        slo = {"ttft_ps": far_or_near, "stall_ps": far_or_near}
        rates = [result("ndp", rate, **slo) for rate in (1.0, 2.0)]
        both = [result("ndp", **slo), result("roce", slower=2, **slo)]
        assert_golden(f"serving latency, {name}", serving.serving_latency(both))
        assert_golden(f"serving latency over rate, {name}", serving.serving_latency(rates))
    seeds = [result(seed=1), result(seed=2, slower=2)]
    assert_golden("serving latency, seeds", serving.serving_latency(seeds))


S = 10**12
NAMES = ("mtbf", "repair_time", "swap_time", "spares", "restart_time", "failure_trace")
NO_FAILURES = {**dict.fromkeys(NAMES, "none"), "on_failure": "stop"}
STOP = NO_FAILURES | {"mtbf": "80s", "repair_time": "2s", "swap_time": "50ms"}
SPARE = STOP | {"spares": 1}
SHRINK = STOP | {"on_failure": "shrink", "restart_time": "50ms"}


def goodput_of(
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
        goodput_of("stop", 1, STOP, met=0.8, capacity=0.9),
        goodput_of("stop", 2, STOP, met=0.6, capacity=0.7),
        goodput_of("spare", 1, SPARE, met=0.95, capacity=0.99),
        goodput_of("shrink", 1, SHRINK, met=0.9, capacity=0.98),
        goodput_of("none", 1, NO_FAILURES, met=1.0, capacity=1.0),
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
    split = goodput_of("split", 1, STOP, met=1.0, capacity=1.0, roles=2)
    assert serving.by_formula(split) is None
    listed = NO_FAILURES | {"failure_trace": "mine.csv"}
    assert serving.by_formula(goodput_of("file", 1, listed, met=1.0, capacity=0.9)) is None


def test_results_without_requests_are_rejected() -> None:
    other = SimpleNamespace(path="r", summary={})
    with raises_input("request"):
        serving.goodput_bars([other])


def test_goodput_figures_are_the_golden_ones() -> None:
    assert_golden("serving goodput", serving.serving_goodput(runs()))
    both = [
        goodput_of("stop", 1, STOP, met=0.8, capacity=0.9, transport=x) for x in ("ndp", "roce")
    ]
    assert_golden("serving goodput, two transports", serving.serving_goodput(both))
