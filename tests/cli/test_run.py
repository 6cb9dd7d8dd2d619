"""`netsim run`: output, files, and exit status."""

import json
import os
import sys

import pytest
from raises_input import fails

from netsim.results import load, load_sweep

pytestmark = pytest.mark.usefixtures("fake")


class TestRun:
    def test_single_point_writes_its_result(self, netsim, fake):
        result = netsim("run", "small.toml", "--threads", "2")
        assert result.exit_code == 0, result.output
        assert "FCT p99" in result.stdout
        assert "here/small" in result.stdout
        assert "compiling" in result.stderr
        assert fake.threads == [2]
        assert len(load("here/small").flows) == 8

    def test_sweep_writes_all_points(self, netsim):
        result = netsim("run", "sweep.toml", "--out", "there")
        assert result.exit_code == 0, result.output
        assert "slowdown" in result.stdout
        sweep = load_sweep("there")
        assert sweep.table["seed"].to_list() == [1, 2]
        assert [one.experiment["seed"] for one in sweep.points] == [1, 2]

    def test_set_and_seed_override_the_experiment(self, netsim, fake):
        result = netsim("run", "small.toml", "--set", 'traffic.size="3MB"', "--seed", "1..3")
        assert result.exit_code == 0, result.output
        assert [point.seed for point in fake.seen] == [1, 2, 3]
        assert {point.traffic.params["size"] for point in fake.seen} == {3_000_000}

    def test_json_lists_points_and_reasons(self, netsim, fake):
        fake.fate["seed=1"] = "stalled"
        run = netsim("run", "sweep.toml", "--json")
        assert run.exit_code == 1
        points = json.loads(run.stdout)["points"]
        assert [point["status"] for point in points] == ["stalled", "finished"]
        assert "flow 7" in points[0]["reason"]
        assert load(points[1]["directory"]).summary["fct_ps"]["max"] == points[1]["fct_max_ps"]

    @pytest.mark.parametrize("name", ["small", "sweep"])
    def test_plot_writes_a_figure(self, netsim, name):
        run = netsim("run", f"{name}.toml", "--plot")
        assert run.exit_code == 0
        assert "here/small/fct_cdf.png" in run.stdout
        assert os.path.getsize("here/small/fct_cdf.png") > 1000
        # The figure does not block a rerun.
        assert netsim("run", f"{name}.toml", "--force").exit_code == 0

    def test_table_truncates_no_number(self, netsim):
        table = netsim("run", "sweep.toml").stdout
        assert "…" not in table
        row = next(line for line in table.splitlines() if line.split()[:1] == ["1"])
        assert len(row.split()) >= 12

    def test_too_much_memory_is_rejected_before_the_run(self, netsim, fake):
        fake.memory_bytes = 10**18
        assert fails(netsim("run", "small.toml"), 2, "memory", "available", "small.toml")
        assert not fake.seen
        assert not os.path.exists("here")

    def test_too_long_name_is_rejected_before_the_run(self, netsim, fake):
        assert fails(netsim("run", "small.toml", "--out", "x" * 300), 2, "225")
        assert not fake.seen


class TestFailures:
    def test_stalled_run_leaves_a_partial_result(self, netsim, fake):
        fake.fate["small"] = "stalled"
        assert fails(netsim("run", "small.toml"), 1, "flow 7", "no progress")
        assert not load("here/small").complete

    def test_failed_run_reports_its_reason(self, netsim, fake):
        fake.fate["small"] = "failed"
        assert fails(netsim("run", "small.toml", "--plot"), 1, "link 3")

    def test_sweep_continues_after_a_failed_point(self, netsim, fake):
        fake.fate["seed=1"] = "failed"
        result = netsim("run", "sweep.toml", "--plot")
        assert fails(result, 1, "seed=1", "link 3")
        sweep = load_sweep("here/small")
        assert sweep.table["status"].to_list() == ["failed", "finished"]
        assert len(sweep.points) == 1

    def test_hung_handler_fails_its_point(self, netsim, fake, monkeypatch):
        monkeypatch.setattr("netsim.cli.progress.end_now", sys.exit)
        fake.fate["seed=2"] = "hung"
        assert fails(netsim("run", "sweep.toml"), 1, "seed=2", "build_packet")
        assert load_sweep("here/small").table["status"].to_list() == ["finished", "failed"]


class TestInterruption:
    @pytest.mark.parametrize(("number", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
    def test_signal_keeps_a_partial_result(self, netsim, fake, number, status):
        fake.fate["seed=1"] = number
        assert fails(netsim("run", "sweep.toml"), status, "0 of 2 points")
        sweep = load_sweep("here/small")
        assert sweep.table["status"].to_list() == ["interrupted"]
        assert not sweep.points[0].complete
        assert len(fake.seen) == 1

    def test_second_signal_stops_at_once(self, netsim, fake):
        fake.fate["small"] = "impatient"
        assert fails(netsim("run", "small.toml"), 130, "interrupted")
        assert not os.path.exists("here/small")
