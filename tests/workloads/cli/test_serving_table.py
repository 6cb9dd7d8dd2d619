"""Tables that `netsim run` prints for serving runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from serving_case import log_of, split_run

from netsim.cli.tables import sweep_table
from netsim.common.terminal import Wide
from netsim.workloads.reports.serving import SWEEP, sections, serving_result


def cells(table: Wide) -> dict[str, list[str]]:
    return {column.name: column.cells for column in table.columns}


def test_run_prints_request_time_and_instance_tables() -> None:
    plan, rows = split_run()
    plan = replace(plan, ttft_ps=200, tbt_ps=200, stall_ps=190)
    flows = {"start_ps": np.array([300, 310, 400, 420])}
    _, summary = serving_result(plan, log_of(rows), flows, complete=True)
    times, requests, instances = map(cells, sections(summary))
    assert requests["requests"] == ["2"]
    assert requests["met, % TTFT <= 200ps, TBT <= 200ps, any gap <= 190ps"] == ["0"]
    assert requests["stalled"] == ["1"]
    assert list(zip(times[""], times["max ps"], strict=True)) == [
        ("time to first token", "250"),
        ("time between tokens", "200"),
        ("first to second token", "200"),
        ("waiting for prefill", "150"),
        ("KV cache transfer", "140"),
        ("from arrival to last token", "550"),
    ]
    assert instances["instances"] == ["prefill", "decode"]
    assert instances["busy %"] == ["33.33", "43.33"]


def test_sweep_table_has_serving_columns() -> None:
    plan, rows = split_run()
    plan = replace(plan, tbt_ps=200, stall_ps=190)
    flows = {"start_ps": np.array([300, 310, 400, 420])}
    _, summary = serving_result(plan, log_of(rows), flows, complete=True)
    row = {metric.name: metric.of(summary) for metric in SWEEP}
    assert (row["ttft_p99_ps"], row["tbt_p99_ps"], row["queueing_p99_ps"]) == (250, 200, 150)
    point = {"status": "finished", "point": "a", "flows": 5, "flows_finished": 5, **row}
    shown = cells(sweep_table([{**point, "control_flows": 3, "control_flows_finished": 3}], []))
    assert list(shown)[:2] == ["TTFT p50 ps", "TTFT p99 ps"]
    assert shown["flows"] == ["2"]
    assert shown["TTFT p99 ps"] == ["250"]
    assert shown["TBT p99 ps"] == ["200"]
    assert shown["met %"] == ["50"]
    assert shown["stalled"] == ["1"]
    assert shown["first gap p99 ps"] == ["200"]
    assert "TTFT p99 ps" not in cells(sweep_table([{"status": "finished"}], []))
