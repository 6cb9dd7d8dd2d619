"""Metrics of a serving run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from serving_case import log_of, split_run

from netsim.workloads.serving.outcome import (
    _slo,
    distribution,
    met,
    outcome,
    serving_metrics,
)


def figures(**objective: int | None) -> dict[str, Any]:
    plan, rows = split_run()
    plan = replace(plan, **objective)
    log = log_of(rows)
    return serving_metrics(plan, outcome(plan, log, np.array([300, 310, 400, 420])), log)


def test_rates_span_first_arrival_to_last_token() -> None:
    found = figures()
    assert found["span_ps"] == 600
    assert found["requests_per_s"] == pytest.approx(2 / 600e-12)
    assert found["tokens_per_s"] == pytest.approx(7 / 600e-12)
    assert found["offered_per_s"] == pytest.approx(1 / 50e-12)


def test_latency_distributions_match_the_log() -> None:
    found = figures()
    assert found["ttft_ps"] == {"mean": 225.0, "p50": 200, "p90": 250, "p99": 250, "max": 250}
    assert found["queueing_ps"]["max"] == 150
    assert found["tbt_ps"] == {"mean": 112.0, "p50": 80, "p90": 200, "p99": 200, "max": 200}
    assert found["second_token_ps"]["p50"] == 160
    assert found["tpot_ps"]["max"] == 130
    assert found["latency_ps"]["p50"] == 460
    assert found["kv_ps"]["max"] == 140


def test_goodput_counts_requests_that_meet_all_slos() -> None:
    for ttft, tbt, stall, shares in [
        (None, None, None, (1.0, 1.0, 1.0)),
        (200, None, None, (0.5, 1.0, 0.5)),
        (200, 160, None, (0.5, 0.5, 0.0)),
        (250, 200, 200, (1.0, 1.0, 1.0)),
        (250, 200, 199, (1.0, 1.0, 0.5)),
    ]:
        found = figures(ttft_ps=ttft, tbt_ps=tbt, stall_ps=stall)["slo"]
        assert (found["ttft_attainment"], found["tbt_attainment"], found["attainment"]) == shares
        assert found["stalled"] == (stall == 199)
        assert found["goodput_per_s"] == pytest.approx(shares[2] / 50e-12)


def test_single_long_token_gap_is_a_stall() -> None:
    """With one gap of 9 s and 150 of 10 ms, the 99th percentile meets 50 ms."""
    plan, _ = split_run()
    plan = replace(plan, tbt_ps=5 * 10**10, stall_ps=5 * 10**11)
    columns = ("end_ps", "ttft_ps", "tbt_p99_ps", "tbt_max_ps")
    table = {name: np.array([10**12, 10**12]) for name in columns}
    table["tbt_p99_ps"] = np.array([10**10, 10**10])
    table["tbt_max_ps"] = np.array([9 * 10**12, 10**10])
    assert [one.tolist() for one in met(plan, table)] == [[True] * 2, [True] * 2, [False, True]]
    assert _slo(plan, table, 1.0)["stalled"] == 1


def test_percentiles_match_numpy() -> None:
    for n in [1, 2, 99, 100, 101, 1000]:
        values = np.random.default_rng(n).integers(0, 50, n)
        found = distribution(values)
        for name, share in (("p50", 50), ("p90", 90), ("p99", 99)):
            assert found[name] == np.percentile(values, share, method="inverted_cdf")
        assert distribution(np.zeros(0, np.int64)) == dict.fromkeys(
            ("mean", "p50", "p90", "p99", "max")
        )
