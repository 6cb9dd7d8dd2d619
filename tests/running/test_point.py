"""Running a point: interruption, progress, drain, estimates and consistent tables."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
from experiment_text import load, text
from raises_input import raises_input

from netsim.engine.simulation import FeatureSet
from netsim.experiment import Point
from netsim.results import load_result, summary_of, write_result
from netsim.results.write import sweep_row
from netsim.running.estimate import Code, code_needed
from netsim.running.point import Progress, simulate

SMALL = {"topology": 'kind = "fat_tree"\nhosts_per_leaf = 4\nleaves = 4\nhost_rate = "100Gbps"'}


def only_point(tmp_path: Path, *overrides: str) -> Point:
    (point,) = load(tmp_path, text(**SMALL), *overrides).points()
    return point


def test_immediately_interrupted_run_is_written_as_partial(tmp_path: Path) -> None:
    point = only_point(tmp_path)
    result = simulate(point, should_stop=lambda: True)
    assert (result.complete, result.stop_reason) == (False, "interrupted")
    assert result.summary["fct_ps"]["max"] is None
    assert sweep_row(point, summary_of(result))["fct_max_ps"] is None
    written = load_result(write_result(tmp_path / "out", point, result))
    assert written.summary["complete"] is False
    assert written.flows["fct_ps"].null_count() == 16


def test_last_progress_report_has_everything_done(tmp_path: Path) -> None:
    seen: list[Progress] = []
    result = simulate(only_point(tmp_path), progress=seen.append)
    assert result.complete
    assert seen[0].phase in ("load", "compile")
    last = seen[-1]
    assert (last.flows_done, last.bytes_done) == (last.flows_total, last.bytes_total)
    assert last.packet_hops == result.summary["packet_hops"]


def test_compiled_code_is_loaded_by_later_runs(tmp_path, monkeypatch) -> None:
    point = only_point(tmp_path)
    simulate(point)
    seen: list[Progress] = []
    simulate(point, progress=seen.append)
    assert seen[0].phase == "load"
    monkeypatch.setenv("NETSIM_CACHE_DIR", str(tmp_path / "empty"))
    assert code_needed([point], [FeatureSet()]) == Code(needed=1, missing=0)  # this process has it
    monkeypatch.setattr("netsim.engine.compiling.specialize._loaded", OrderedDict())
    assert code_needed([point, point], [FeatureSet(), FeatureSet()]) == Code(needed=1, missing=1)
    assert code_needed([point], [FeatureSet()], tracing=True).seconds > 5


def test_flow_and_link_tables_are_consistent(tmp_path: Path) -> None:
    result = simulate(only_point(tmp_path))
    flows, links, conserved = result.flows, result.links, result.summary["conservation"]
    assert links["packets"].sum() == result.summary["packet_hops"]
    from_hosts = np.char.startswith(links["from_name"], "h")
    assert links["packets"][from_hosts].sum() == conserved["packets"]["sent"]
    assert links["bytes"][from_hosts].sum() == conserved["bytes"]["sent"]
    assert (flows["fct_ps"] >= flows["ideal_ps"]).all()
    assert (flows["packets_sent"] == flows["packets"] + flows["retransmits"]).all()
    assert links["utilization"].max() <= 1


def test_drain_runs_until_no_packet_is_in_flight(tmp_path: Path) -> None:
    stopped = simulate(only_point(tmp_path))
    drained = simulate(only_point(tmp_path, "stop.drain=true"))
    assert drained.summary["conservation"]["packets"]["in_flight"] == 0
    assert drained.summary["simulated_ps"] >= stopped.summary["simulated_ps"]
    assert (drained.flows["fct_ps"] == stopped.flows["fct_ps"]).all()


def test_memory_error_in_build_is_an_input_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = only_point(tmp_path)

    def build(_: object) -> None:
        raise MemoryError("27 GiB")

    monkeypatch.setattr(point.topology.module, "build", build)
    with raises_input("memory"):
        simulate(point)


def test_ideal_transport_takes_the_ideal_time(tmp_path: Path) -> None:
    result = simulate(only_point(tmp_path, "transport=ideal"))
    assert (result.flows["slowdown"] == 1).all()
    assert result.summary["packet_hops"] == 0
