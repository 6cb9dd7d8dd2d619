"""Runs with outages, slow links, losses and random failures: how they end, and their reports."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from experiment_text import load, text
from raises_input import mentions

from netsim.experiment import Point
from netsim.experiment.scenario import prepare
from netsim.reports.faults import FAULTS
from netsim.results import load_result, write_result
from netsim.results.run_result import RunResult
from netsim.running.point import simulate

NETWORK = {
    "top": 'transport = "roce"',
    "topology": 'kind = "fat_tree"\nhosts_per_leaf = 2\nleaves = 2\nhost_rate = "100Gbps"',
    "traffic": 'kind = "incast"\nfan_in = 3\nsize = "40KB"',
}


pytestmark = pytest.mark.usefixtures("plain_python")


def point_of(tmp_path: Path, **sections: str) -> Point:
    (point,) = load(tmp_path, text(**NETWORK, **sections)).points()
    return point


def test_run_waits_for_a_scheduled_repair(tmp_path):
    """The outage of 300 ms is longer than the stall timeout, but a repair is scheduled."""
    down = 'node = "leaf1"\ndown = "1us"\nup = "300ms"'
    result = simulate(point_of(tmp_path, **{"faults.dead": down}))
    assert (result.stop_reason, result.complete) == ("finished", True)
    assert result.flows["fct_ps"].max() > 300 * 10**9


def test_run_stalls_when_a_switch_is_down_permanently(tmp_path):
    sections = {
        "faults.dead": 'node = "leaf1"\ndown = "1us"',
        "routing": 'convergence_delay = "10us"',
    }
    result = simulate(point_of(tmp_path, **sections))
    assert (result.stop_reason, result.complete) == ("stalled", False)
    assert result.reason is not None
    assert mentions(result.reason, "h2", "h3")
    assert result.summary["faults"]["hosts_cut_off"] == ["h2", "h3"]
    assert result.summary["unroutable"] == result.links["unroutable"].sum() > 0
    assert result.summary["conservation"]["packets"]["unroutable"] == result.summary["unroutable"]


def run_with_all_faults(tmp_path: Path) -> tuple[Point, RunResult]:
    point = point_of(
        tmp_path,
        **{
            "faults.dead": 'links = "leaf0 -> spine0"\ndown = "2us"\nup = "8us"',
            "faults.slow": 'links = "h3 - leaf1"\nrate = "25Gbps"\nat = "1us"\nuntil = "5us"',
            "faults.worn": 'links = "h1 -> leaf0"\nloss_rate = 0.25\nuntil = "1us"',
            "faults.flaky": 'links = "leaf1 - spine1"\nmtbf = "1us"\nmttr = "300ns"\nuntil = "6us"',
            "faults.late": 'links = "all"\ndown = "1000s"',
            "routing": 'convergence_delay = "500ns"',
        },
    )
    return point, simulate(point)


def test_fault_table_lists_every_event(tmp_path):
    point, result = run_with_all_faults(tmp_path)
    loaded = load_result(write_result(tmp_path / "r", point, result))
    table = loaded.faults
    assert table is not None
    assert table.columns == [column.name for column in FAULTS.columns]

    def rows(what: str, node: str) -> list[tuple[object, ...]]:
        some = table.filter(pl.col("event") == what, pl.col("node_name") == node)
        return some.select("to_name", "start_ps", "end_ps", "value").rows()

    assert rows("rate", "h3") == [("leaf1", 10**6, 5 * 10**6, 25e9)]
    assert rows("rate", "leaf1") == [("h3", 10**6, 5 * 10**6, 25e9)]
    assert rows("loss", "h1") == [("leaf0", 0, 10**6, 0.25)]
    assert ("spine0", 2 * 10**6, 8 * 10**6, None) in rows("down", "leaf0")
    faults = prepare(point).faults
    assert faults is not None
    n_down = int((faults.outages_ps[:, 0] < result.summary["simulated_ps"]).sum())
    assert len(table.filter(pl.col("event") == "down")) == n_down > 3
    times = [row[1] for row in rows("reroute", "leaf0")]
    assert {2_500_000, 8_500_000} <= set(times)
    counts = {what: len(table.filter(pl.col("event") == what)) for what in ("down", "reroute")}
    assert loaded.summary["faults"]["down"] == counts["down"]
    assert loaded.summary["faults"]["reroute"] == counts["reroute"]
    assert table["start_ps"].is_sorted()
    assert table["start_ps"].max() < 10**15  # "late" is after the end


def test_pfc_headroom_covers_the_highest_rate(tmp_path):
    """At four times its rate, a cable holds four times as many bytes in flight."""
    sections = {"fabric": 'queue_discipline = "lossless"'}
    built = prepare(point_of(tmp_path, **sections)).fabric
    fast = 'links = "h0 - *"\nrate = "400Gbps"\nat = "1ms"'
    faster = prepare(point_of(tmp_path, **sections, **{"faults.fast": fast})).fabric
    rooms = [dict(fabric.queue.params)["headroom_bytes"] for fabric in (built, faster)]
    network = prepare(point_of(tmp_path)).network
    both_ways_ps = int(2 * network.port_delay_ps[0])
    assert np.diff(rooms) == [300 * both_ways_ps // 8000]
