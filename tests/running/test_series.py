"""Sampled series, from the experiment file to the result and its plot; invalid settings."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from raises_input import raises_input

from netsim.experiment import Experiment
from netsim.plots import over_time as figure
from netsim.results import load_result, write_result
from netsim.running.point import simulate

TEXT = """
name = "sampled"
[topology]
kind = "fat_tree"
hosts_per_leaf = 2
leaves = 2
host_rate = "100Gbps"
[transport]
kind = "ndp"
[traffic]
kind = "incast"
fan_in = 2
size = "40KB"
[outputs]
"""


def point(tmp_path: Path, outputs: str) -> Any:
    file = tmp_path / "sampled.toml"
    file.write_text(TEXT + outputs)
    (only,) = Experiment.load(file).points()
    return only


pytestmark = pytest.mark.usefixtures("plain_python")


def test_series_agree_with_flow_and_link_totals(tmp_path: Path) -> None:
    outputs = 'sample_interval = "500ns"\nfields = ["credit", "rx.owed"]\nqueue_stats = true\n'
    chosen = point(tmp_path, outputs)
    plain = simulate(point(tmp_path, ""), threads=1)
    run = simulate(chosen, threads=1)
    for name, column in plain.flows.items():
        assert np.array_equal(column, run.flows[name], equal_nan=column.dtype.kind == "f")
    assert run.summary["series"] == {"interval_ps": 500_000, "said": "sampled every 500ns"}
    result = load_result(write_result(tmp_path / "out", chosen, run))
    assert result.matches_hash()
    series = result.series
    assert series is not None
    import polars as pl

    of = {what: series.filter(pl.col("entity") == what) for what in ("port", "host", "flow")}
    assert of["host"]["delivered_bytes"].sum() == result.flows["size_bytes"].sum()
    assert of["flow"]["delivered_bytes"].sum() == result.flows["size_bytes"].sum()
    switches = result.links.filter(pl.col("from_node") >= 4)
    assert of["port"]["sent_bytes"].sum() == switches["bytes"].sum()
    assert of["port"]["trims"].sum() == switches["trims"].sum()
    areas = of["port"]["mean_queue_bytes"] * of["port"]["interval_ps"]
    held = switches["mean_queue_bytes"].sum() * result.summary["simulated_ps"]
    assert areas.sum() == pytest.approx(held)
    assert (switches["p99_queue_bytes"] <= switches["max_queue_bytes"]).all()
    assert of["flow"]["tx.credit"].max() > 0
    assert of["port"]["tx.credit"].is_null().all()
    drawn = figure.timeseries([result]).figure
    labels = [axes.get_ylabel() for axes in drawn.axes]
    assert labels[-2:] == ["tx.credit", "rx.owed"]


def test_result_without_sampling_has_no_series(tmp_path: Path) -> None:
    chosen = point(tmp_path, "")
    result = load_result(write_result(tmp_path / "out", chosen, simulate(chosen, threads=1)))
    assert result.series is None
    assert "p99_queue_bytes" not in result.links.columns
    with raises_input("series"):
        figure.timeseries([result])


def test_budget_too_small_for_an_interval_is_rejected(tmp_path: Path) -> None:
    with raises_input("hold 0 intervals", key="outputs.sample_budget"):
        simulate(point(tmp_path, 'sample_interval = "1us"\nsample_budget = "1KB"'), threads=1)


def test_ports_are_selected_by_link_node_or_number(tmp_path: Path) -> None:
    from netsim.experiment.scenario import prepare

    def ports(names: str) -> list[str]:
        scenario = prepare(point(tmp_path, f'sample_interval = "auto"\nports = {names}'))
        assert scenario.sampling is not None
        assert scenario.sampling.interval_ps == scenario.network.lookahead_ps
        return [scenario.network.port_name(p) for p in scenario.sampling.ports.tolist()]

    assert ports('["h3"]') == ["h3:0"]
    assert ports('["leaf0:1"]') == ["leaf0:1"]
    assert ports('["leaf0:*"]') == ports('["leaf0"]')
    assert ports('["leaf0 -> h*"]') == ["leaf0:0", "leaf0:1"]
    assert ports('["h0 - leaf*"]') == ["h0:0", "leaf0:0"]
    assert len(ports("2")) == 2
