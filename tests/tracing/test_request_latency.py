"""The latency breakdown of a request."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
from raises_input import raises_input
from serving_case import Row, log_of, mixed_plan, plan_of, row, split_run

from netsim.common.terminal import Wide
from netsim.results.columns import Column
from netsim.results.files import _array
from netsim.workloads.cli.request import headlines, request_number
from netsim.workloads.reports.serving import serving_result
from netsim.workloads.serving.plan import (
    DECODE_START,
    DONE,
    DOWN,
    FIRST_TOKEN,
    ITERATION,
    LOST,
    MIXED,
    PREFILL_START,
    UP,
    ServingPlan,
)
from netsim.workloads.tracing.request_latency import request_latency

FLOWS = {
    "flow": np.arange(4),
    "start_ps": np.array([300, 310, 420, 400]),
    "fct_ps": np.array([120, 125, 40, 50]),
    "ideal_ps": np.array([40, 50, 40, 40]),
}


def result_of(plan: ServingPlan, rows: list[Row], *, complete: bool = True) -> Any:
    """The result of a run, with tables as they are read from files."""
    log = log_of(rows)
    tables, summary = serving_result(plan, log, FLOWS, complete=complete)

    def read(table: dict[str, np.ndarray]) -> pl.DataFrame:
        columns = {
            name: _array(values, Column(name, "", "", name.endswith(("_ps", "_instance"))))
            for name, values in table.items()
        }
        return pl.DataFrame({name: pl.Series(array) for name, array in columns.items()})

    found = {name: read(table) for name, table in tables.items()}
    summary["simulated_ps"] = int(log["time_ps"].max())
    return SimpleNamespace(
        path="here",
        name="served",
        log=pl.DataFrame(log),
        flows=read(FLOWS),
        summary=summary,
        **found,
    )


def stages(rows: pl.DataFrame, *names: str) -> list[tuple[Any, ...]]:
    return rows.select("stage", "start_ps", "end_ps", "instance", "token", *names).rows()


def test_breakdown_of_a_request_decoded_elsewhere() -> None:
    breakdown = request_latency(result_of(*split_run()), 1)
    assert stages(breakdown.rows, "iterations", "decode_batch", "prompt_tokens") == [
        ("queueing", 150, 300, 0, None, 1, 0, 10),
        ("prefill", 300, 400, 0, 1, 1, 0, 20),
        ("kv", 400, 470, 1, None, 1, 1, 0),
        ("decode_queue", 470, 500, 1, None, 1, 1, 0),
        ("decode", 500, 560, 1, 2, 1, 2, 0),
        ("decode", 560, 640, 1, 3, 1, 1, 0),
        ("decode", 640, 700, 1, 4, 1, 1, 0),
    ]


def test_token_gaps_split_into_kv_waiting_and_computing() -> None:
    gaps = request_latency(result_of(*split_run()), 1).gaps()
    assert gaps.select("token", "gap_ps", "kv_ps", "waiting_ps", "computing_ps").rows() == [
        (2, 160, 70, 30, 60),
        (3, 80, 0, 0, 80),
        (4, 60, 0, 0, 60),
    ]
    assert gaps["decode_batch"].to_list() == [2, 1, 1]


def test_token_gaps_match_the_requests_table() -> None:
    result = result_of(*split_run())
    for request in (0, 1):
        breakdown = request_latency(result, request).gaps()
        assert (breakdown["waiting_ps"] >= 0).all()
        gaps = breakdown["gap_ps"]
        assert gaps.max() == result.requests["tbt_max_ps"][request]
        assert gaps[0] == result.requests["second_token_ps"][request]
        assert gaps.mean() == result.requests["tpot_ps"][request]


def failing() -> tuple[ServingPlan, list[Row]]:
    """A mixed instance that splits the prompt in two, is down from 45 to 100, and starts over."""
    return mixed_plan([(5, 8, 3)]), [
        row(0, 10, PREFILL_START, 0),
        row(0, 18, ITERATION, start_ps=10, count=5),
        row(0, 26, ITERATION, start_ps=18, count=3),
        row(0, 26, FIRST_TOKEN, 0),
        row(0, 26, DECODE_START, 0),
        row(0, 40, ITERATION, start_ps=30, decode_batch=1, context_tokens=9),
        row(0, 45, LOST, 0, count=2),
        row(0, 45, DOWN),
        row(0, 100, UP),
        row(0, 101, UP),
        row(0, 102, PREFILL_START, 0),
        row(0, 112, ITERATION, start_ps=102, count=10),
        row(0, 112, FIRST_TOKEN, 0),
        row(0, 112, DONE, 0, count=3),
    ]


def test_breakdown_of_a_request_on_a_failed_instance() -> None:
    breakdown = request_latency(result_of(*failing()), 0)
    assert stages(breakdown.rows, "down_ps") == [
        ("queueing", 5, 10, 0, None, 0),
        ("prefill", 10, 18, 0, None, 0),
        ("prefill", 18, 26, 0, 1, 0),
        ("decode", 26, 40, 0, 2, 0),
        ("decode", 40, 45, 0, None, 0),
        ("lost", 45, 102, 0, None, 55),
        ("prefill", 102, 112, 0, 3, 0),
    ]
    last = breakdown.gaps().row(-1, named=True)
    assert (last["gap_ps"], last["down_ps"], last["computing_ps"], last["waiting_ps"]) == (
        72,
        55,
        10,
        7,
    )


def test_breakdown_of_an_unfinished_request() -> None:
    plan, rows = split_run()
    rows = [one for one in rows if one["time_ps"] <= 440]
    breakdown = request_latency(result_of(plan, rows, complete=False), 1)
    assert stages(breakdown.rows) == [
        ("queueing", 150, 300, 0, None),
        ("prefill", 300, 400, 0, 1),
        ("kv", 400, 440, 0, None),
    ]
    assert next(headlines(breakdown)).endswith("1 generated")
    rows = [one for one in rows if one["time_ps"] <= 260]
    breakdown = request_latency(result_of(plan, rows, complete=False), 1)
    assert stages(breakdown.rows) == [("queueing", 150, 200, 0, None)]
    rows = [row(0, 120, PREFILL_START, 0)]
    assert not len(request_latency(result_of(plan, rows, complete=False), 1).rows)


def test_queueing_counts_iterations_of_other_requests() -> None:
    """Only the part of a running iteration after the request's arrival counts."""
    plan = plan_of([MIXED], [(0, 4, 1), (50, 4, 1)])
    rows = [
        row(0, 0, PREFILL_START, 0),
        row(0, 100, ITERATION, start_ps=0, count=4),
        row(0, 100, FIRST_TOKEN, 0),
        row(0, 100, DONE, 0, count=1),
        row(0, 100, PREFILL_START, 1),
        row(0, 200, ITERATION, start_ps=100, count=4),
        row(0, 200, FIRST_TOKEN, 1),
        row(0, 200, DONE, 1, count=1),
    ]
    breakdown = request_latency(result_of(plan, rows), 1)
    first = breakdown.rows.row(0, named=True)
    assert first["stage"] == "queueing"
    assert first["computing_ps"] + first["network_ps"] == 50
    assert not len(breakdown.gaps())


def cells(table: Wide) -> dict[str, list[str]]:
    return {column.name: column.cells for column in table.columns}


def test_requests_are_selected_by_number_or_rank() -> None:
    result = result_of(*split_run())
    assert [request_number(result, text) for text in ("7", "worst-ttft", "worst-tbt")] == [7, 1, 0]
    with raises_input("request", key="--request"):
        request_number(result, "-1")
    with raises_input("request 2", key="--request"):
        request_latency(result, 2)
    result.requests = None
    with raises_input("request"):
        request_latency(result, 0)


def test_log_without_a_column_is_an_error():
    result = result_of(*split_run())
    result.log = result.log.drop("event")
    with raises_input("column", key="event"):
        request_latency(result, 0)
