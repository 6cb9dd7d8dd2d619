"""Measured collectives as cases: predictions of left-out rows, and anomalies in a table."""

from __future__ import annotations

from pathlib import Path

from raises_input import raises_input

from netsim.validation.cases import Row, cases
from netsim.workloads.validation.measured_collectives import CHANGE

COLUMNS = "collective,nodes,gpus_per_node,size_bytes,oop_time_us,ip_time_us"


def measured(tmp_path: Path, name: str, lines: list[str]) -> list[Row]:
    """Return the rows of all cases that need only this table."""
    (tmp_path / f"{name}.csv").write_text("\n".join([COLUMNS, *lines]))
    kinds = [f"{kind}_{name}" for kind in ("collectives", "node_counts")]
    known = [case for case in kinds if case in cases("hardware")]
    return [row for case in known for row in cases("hardware")[case].rows(tmp_path)]


def line(nodes: int, size: int, time: float, in_place: float | None = None) -> str:
    return f"all_reduce,{nodes},8,{size},{time},{in_place or time}"


def test_left_out_sizes_and_node_counts_are_predicted(tmp_path: Path) -> None:
    sizes = [1 << k for k in range(21, 34)]
    lines = [line(nodes, size, 50 + size / 1e5) for nodes in (2, 4) for size in sizes]
    found = {row.title: row for row in measured(tmp_path, "polaris_a100", lines)}
    assert len([name for name in found if name.endswith("GPUs")]) == 2 * 11
    assert all(abs(row.error or 0) < 0.05 for row in found.values() if row.unit == "us")
    (next_count,) = (row for name, row in found.items() if "2 to 4 nodes" in name)
    assert next_count.theirs == 1
    assert 1 < (next_count.ours or 0) < 1.15


def test_failing_rows_explain_anomalies_in_the_table(tmp_path: Path) -> None:
    times = {20: 100, 21: 60, 22: 70, 23: 90, 24: 400, 25: 600, 26: 1000, 27: 1800}
    lines = [line(2, 1 << k, time, 1.5 * time if k == 26 else time) for k, time in times.items()]
    found = measured(tmp_path, "mi300x_2x8", lines)
    reasons = {row.title.partition(" of ")[2].partition(" ")[0]: row.why for row in found}
    assert "from 1MiB to 2MiB the time falls" in reasons["2MiB"]
    assert "from 8MiB to 16MiB the time grows faster" in reasons["16MiB"]
    assert "64MiB took +50% in place" in reasons["64MiB"]
    (large,) = (row for row in found if "median error above" in row.title)
    assert f"next to {CHANGE}" in large.why


def test_malformed_tables_are_rejected(tmp_path: Path) -> None:
    for wrong in ("all_reduce,2,8,x,5,5", "all_reduce,0,8,8,5,5", "all_reduce,2,8,8,nan,5", "send"):
        with raises_input(file="mi300x_2x8.csv"):
            measured(tmp_path, "mi300x_2x8", [wrong])
