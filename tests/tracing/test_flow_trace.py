"""`netsim trace`: simulate a result's flow again and show its events."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from engine_runs import PACKET, US
from raises_input import mentions, raises_input
from small_runs import fat_tree

from netsim.plugins import registry
from netsim.results import COLUMNS, load
from netsim.tracing import record, trace_flow


@pytest.fixture(autouse=True)
def small(netsim):  # noqa: ARG001
    """The experiment small.toml."""
    Path("small.toml").write_text(fat_tree())


@pytest.fixture
def result(netsim):
    """The result directory of small.toml."""
    assert netsim("run", "small.toml", "--out", "r").exit_code == 0
    return "r"


def fails(outcome, *texts):
    assert outcome.exit_code == 2, outcome.output
    assert "Traceback" not in outcome.output
    errors = [line for line in outcome.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert all(text in errors[0] for text in texts), errors
    return True


class TestCommand:
    def test_trace_prints_events_and_summary(self, netsim, result):
        outcome = netsim("trace", result, "--flow", "2", "--limit", "0")
        assert outcome.exit_code == 0, outcome.output
        lines = outcome.stdout.splitlines()
        assert lines[0].split() == ["time", "us", "node", "event", "packet", "queue", "state"]
        assert lines[1].split()[1:3] == ["h2", "start"]
        assert lines[2].split()[1:5] == ["h2", "send", "DATA", "0"]
        assert sum(" receive " in line and " DATA " in line for line in lines) == 10
        assert mentions(outcome.stdout, "flow 2", "h2")
        fct = load(result).flows["fct_ps"][2] / 1e6
        assert mentions(outcome.stdout, f"{fct:.5g}")
        assert "data paths:" in outcome.stdout
        assert "warning" not in outcome.stderr

    def test_options_filter_the_events(self, netsim, result):
        few = netsim("trace", result, "--flow", "2", "--limit", "3").stdout.splitlines()
        assert few[4].startswith("... and ")
        options = ("--seq", "3..4", "--events", "send", "--fields", "credit")
        chosen = netsim("trace", result, "--flow", "2", *options).stdout.splitlines()
        packets = [" ".join(line.split()[3:5]) for line in chosen[1 : chosen.index("")]]
        assert packets == ["DATA 3", "DATA 4", "ACK 3", "ACK 4"]
        assert "tx.credit=" in chosen[1]
        late = netsim("trace", result, "--flow", "2", "--from", "9us").stdout.splitlines()
        assert float(late[1].split()[0]) >= 9

    def test_json_segments_add_up_to_the_completion_time(self, netsim, result):
        flows = load(result).flows.sort("fct_ps", "flow")
        for rank, place in (("p99", -1), ("p50", 2), ("p0", 0)):
            outcome = netsim("trace", result, "--flow", rank, "--json", "--quiet")
            assert outcome.exit_code == 0, outcome.output
            found = json.loads(outcome.stdout)
            assert (found["flow"], found["fct_ps"]) == flows.select("flow", "fct_ps").row(place)
            lengths = [one["end_ps"] - one["start_ps"] for one in found["segments"]]
            assert sum(lengths) == sum(one["time_ps"] for one in found["time"]) == found["fct_ps"]
            assert all(known in COLUMNS["segments"] for known in found["segments"][0])
            assert found["events"][0]["time_ps"] == found["start_ps"]

    def test_csv_and_parquet_hold_the_same_events(self, netsim, result):
        outcome = netsim(
            "trace", result, "--flow", "slowest", "--csv", "t.csv", "--parquet", "t.parquet"
        )
        assert outcome.exit_code == 0, outcome.output
        table = pl.read_parquet("t.parquet")
        assert pl.read_csv("t.csv", infer_schema_length=None)["time_ps"].equals(table["time_ps"])
        about = json.loads(pl.read_parquet_metadata("t.parquet")["netsim.columns"])
        assert about["wait_ps"]["unit"] == "ps"
        known = [name for name in table.columns if not name.startswith(("tx.", "rx."))]
        assert all(COLUMNS["trace"][name].doc for name in known)

    def test_invalid_options_are_rejected(self, netsim, result):
        assert fails(netsim("trace", result, "--flow", "6"), "no flow 6", "0 to 5")
        assert fails(netsim("trace", result, "--flow", "two"), "two")
        assert fails(netsim("trace", result, "--flow", "9" * 5000), "flow")
        assert fails(netsim("trace", result, "--flow", "1", "--events", "sned"), "send")
        assert fails(netsim("trace", result, "--flow", "1", "--fields", "cwnd"), "cwnd")
        assert fails(netsim("trace", result, "--flow", "1", "--seq", "x"), "packet number")
        assert fails(netsim("trace", "nowhere", "--flow", "1"), "")

    def test_damaged_result_is_rejected(self, netsim, result, tmp_path):
        path = tmp_path / "r" / "experiment.json"
        full = path.read_text()
        path.write_text(full[:100])
        assert fails(netsim("trace", result, "--flow", "1"), "experiment.json", "JSON")
        document = json.loads(full)
        del document["resolved"]
        path.write_text(json.dumps(document))
        assert fails(netsim("trace", result, "--flow", "1"), "resolved")
        path.write_text(full)
        (tmp_path / "r" / "flows.parquet").write_bytes(b"")
        assert fails(netsim("trace", result, "--flow", "1"), "flows.parquet")

    def test_ideal_transport_cannot_be_traced(self, netsim):
        netsim("run", "small.toml", "--set", "transport=ideal", "--out", "i")
        assert fails(netsim("trace", "i", "--flow", "1"), "ideal", "trace")

    def test_changed_or_missing_plugin_is_reported(self, netsim, tmp_path):
        folder = tmp_path / "mine"
        folder.mkdir()
        source = registry.find("transport", "ndp").path.read_text()
        (folder / "mine.py").write_text(source)
        (folder / "e.toml").write_text(fat_tree("./mine.py"))
        assert netsim("run", "mine/e.toml", "--out", "r").exit_code == 0
        outcome = netsim("trace", "r", "--flow", "1")
        assert outcome.exit_code == 0, outcome.output
        assert "warning" not in outcome.stderr
        (folder / "mine.py").write_text(source + "# a remark\n")
        text = netsim("trace", "r", "--flow", "1", "--trust").stderr
        last = source.count("\n") + 1
        assert mentions(text, "mine.py", last)
        (folder / "mine.py").write_text(
            source.replace("tx.credit = min(window,", "tx.credit = min(1,")
        )
        text = netsim("trace", "r", "--flow", "1", "--trust").stderr
        assert "completion time was" in text
        moved = tmp_path / "elsewhere"
        shutil.move(folder, moved)
        outcome = netsim("trace", "r", "--flow", "1", "--trust")
        assert outcome.exit_code == 0, outcome.output
        gone = "transport ./mine.py not found"
        assert gone in outcome.stderr
        assert "completion time was" not in outcome.stderr
        document = json.loads((tmp_path / "r" / "experiment.json").read_text())
        del document["plugins"][1]["sources"]
        (tmp_path / "r" / "experiment.json").write_text(json.dumps(document))
        assert fails(
            netsim("trace", "r", "--flow", "1", "--trust"), "./mine.py", "--experiment-dir"
        )
        outcome = netsim("trace", "r", "--flow", "1", "--trust", "--experiment-dir", "elsewhere")
        assert outcome.exit_code == 0, outcome.output


def test_trace_buffer_grows_without_losing_events(result, monkeypatch):
    full = trace_flow(load(result), 2)
    monkeypatch.setattr(record, "CAPACITY", 4)
    again = trace_flow(load(result), 2)
    assert again.events.equals(full.events)
    assert full.fct_ps == load(result).flows["fct_ps"][2]
    assert full.events["time_ps"][-1] == full.start_ps + max(full.fct_ps, full.acked_ps)


def test_flow_that_never_started_is_an_error(result, tmp_path):
    shutil.copytree(result, tmp_path / "c")
    flows = pl.read_parquet("c/flows.parquet")
    flows = flows.with_columns(pl.when(pl.col("flow") != 1).then("start_ps").alias("start_ps"))
    flows.write_parquet("c/flows.parquet")
    with raises_input("flow 1"):
        trace_flow(load("c"), 1)


def test_changed_result_tables_cause_a_warning(result, tmp_path):
    assert load(result).matches_hash()
    assert trace_flow(load(result), 2).warnings == ()
    flows = pl.read_parquet(tmp_path / "r" / "flows.parquet")
    flows.with_columns(pl.col("retransmits") + 1).write_parquet(tmp_path / "r" / "flows.parquet")
    warnings = trace_flow(load(result), 2).warnings
    assert mentions(warnings, "table")


def test_transport_selects_the_state_to_show(netsim, result, tmp_path):
    assert trace_flow(load(result), 2).state == (
        "tx.next_seq",
        "tx.n_acked",
        "tx.credit",
        "rx.owed",
    )
    source = registry.find("transport", "ndp").path.read_text()
    (tmp_path / "mine.py").write_text(source.replace("TRACE = (", 'TRACE = ("n_aked", '))
    assert netsim("run", "small.toml", "--set", "transport=./mine.py", "--out", "m").exit_code == 0
    assert fails(netsim("trace", "m", "--flow", "2"), "mine.py", "TRACE", '"n_acked"')


def test_flow_is_traced_with_the_transport_of_its_class(netsim, tmp_path):
    classes = """
[flow_classes.more]
transport = "roce"
traffic = { kind = "permutation", size = "20KB" }
"""
    (tmp_path / "two.toml").write_text(fat_tree() + classes)
    outcome = netsim("run", "two.toml", "--out", "two")
    assert outcome.exit_code == 0, outcome.output
    traces = [trace_flow(load("two"), flow) for flow in (2, 8)]
    assert [trace.transport for trace in traces] == ["ndp", "roce"]
    assert "tx.una" in traces[1].events.columns
    assert "tx.una" not in traces[0].events.columns
    assert "tx.credit" not in traces[1].events.columns
    assert [trace.warnings for trace in traces] == [(), ()]


def test_figure_has_a_panel_for_all_data(result):
    from netsim.plots.over_time import traced_flow

    trace = trace_flow(load(result), 2)
    figure = traced_flow(trace, trace.events, trace.state)
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert labels[0] == "packet number"
    assert labels[-3:] == ["round trip (us)", "path through", "queue ahead (KB)"]
    sent = figure.axes[0].get_lines()[0]
    assert sent.get_label() == "sent"
    assert sent.get_ydata().tolist() == list(range(10))
    assert sent.get_xdata()[1] * 1e6 == pytest.approx(8 * PACKET * 10, abs=US)
    with raises_input("packet"):
        traced_flow(trace, trace.events.filter(pl.col("seq") < 0), trace.state)
