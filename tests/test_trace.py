"""Tracing: it records what the engine does, all of it, and does not change it."""

import json
import shutil

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from engine_case import TRACE_SLOTS, departures
from engine_runs import LOSSLESS, PACKET, US, build, counter, digest, fat_tree, flow_table

from netsim import InputError, load
from netsim.cli import app
from netsim.engine.layout import INF, RUNNING
from netsim.engine.state import Sizes
from netsim.engine.trace import (
    DROPPED,
    LOST,
    MARKED,
    RECEIVED,
    SENT,
    TRIMMED,
    WHAT,
    TraceOverflowError,
    drain,
)
from netsim.model.fabric import Ecn, Fabric
from netsim.model.faults import LinkFault, combine
from netsim.model.flows import FlowTable
from netsim.plugins import registry
from netsim.results import COLUMNS
from netsim.tracing import record, trace_flow
from netsim.tracing.flow_trace import event_table, kind_names

NETWORK = fat_tree(4, 4, "100Gbps")
SIZE = 60_000
FLOWS = flow_table(
    [(i, (5 * i + 6) % 16, SIZE, 0) for i in range(16)] + [(i, 13, SIZE, 1000) for i in range(3)]
)
SENDERS = range(len(FLOWS))
SHORT_TRIM = Fabric(
    model="trim",
    load_balancing="spray_permutation",
    n_classes=2,
    queue_bytes=4 * PACKET,
    header_queue_bytes=3 * 64,
)
SETTINGS = {
    "trimming": ("ndp", SHORT_TRIM),
    "pfc": ("roce", LOSSLESS),
    "drops": ("roce", Fabric(queue_bytes=4 * PACKET)),
    "marks at enqueue": ("roce", Fabric(queue_bytes=10**6, ecn=Ecn(8000, 20000, 0.5, "enqueue"))),
    "marks at dequeue": ("roce", Fabric(queue_bytes=10**6, ecn=Ecn(8000, 20000, 0.5, "dequeue"))),
    "least loaded": ("datagram", Fabric(load_balancing="least_loaded", queue_bytes=6 * PACKET)),
}
PARAMS = {"rto": "100us"}


def engine(setting="trimming", trace=(), flows=FLOWS, **options):
    transport, fabric = SETTINGS[setting]
    params = {} if transport == "datagram" else PARAMS
    return build(
        NETWORK, flows, transport, fabric, params=params, jit=False, trace=trace, **options
    )


def record_all(traced, windows=7):
    """Run to the end and give what was recorded."""
    chunks, status = [], RUNNING
    while status == RUNNING:
        status = traced.advance(windows, INF)
        chunks.append(drain(traced.state.wires.trace))
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}


def table(traced, windows=7):
    return event_table(traced, record_all(traced, windows), traced.protocol.modules[0])[0]


def events(setting="trimming", flow=16, **options):
    return table(engine(setting, trace=(flow,), **options))


def count(rows, event):
    return len(rows.filter(pl.col("event") == event))


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_recorded_run_is_the_same_run(setting):
    plain, traced = engine(setting), engine(setting, trace=(3, 16))
    while plain.advance(1000, INF) == RUNNING:
        pass
    record_all(traced)
    assert digest(traced) == digest(plain)


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_departure_is_recorded(setting):
    """The rings of links, so long that nothing is overwritten, hold what every port sent."""
    sizes = Sizes(link_slots=TRACE_SLOTS, queue_slots=4, control_slots=16)
    traced = engine(setting, trace=(16,), sizes=sizes)
    rows = table(traced).filter(pl.col("event").is_in(["send", "forward"]))
    columns = ("time_ps", "seq", "aux", "size_bytes", "class", "ecn", "entropy")
    recorded = sorted(zip(rows["port"], *(rows[name] for name in columns), strict=True))
    sent = []
    for port in range(NETWORK.n_ports):
        for start, _, kind, flow, seq, aux, size, prio, ecn, entropy in departures(traced, port):
            if flow == 16 and kind != 15:
                sent.append((port, start, seq, aux, size, prio, ecn, entropy))
    assert recorded == sorted(sent)
    assert len(sent) > 3 * 15  # data on several links each


@pytest.mark.parametrize("setting", SETTINGS)
def test_what_befalls_packets_is_what_queues_count(setting):
    traced = engine(setting, trace=tuple(SENDERS))
    raw = record_all(traced)
    what = raw["entries"][:, WHAT]
    names = {"drops": DROPPED, "trims": TRIMMED, "marks": MARKED}
    found = {name: np.count_nonzero(what == code) for name, code in names.items()}
    assert found == {name: counter(traced, name) for name in names}
    expected = {"trimming": "trims", "drops": "drops", "least loaded": "drops"}
    expected |= {"marks at enqueue": "marks", "marks at dequeue": "marks"}
    assert setting not in expected or found[expected[setting]] > 0
    hosts = traced.state.ends.hosts
    assert np.count_nonzero(what == SENT) == hosts["sent_packets"].sum()
    assert np.count_nonzero(what == RECEIVED) == hosts["received_packets"].sum()


@pytest.mark.parametrize("setting", ["trimming", "pfc", "least loaded"])
@pytest.mark.parametrize("window_ps", [50_000, 333_333])
def test_the_trace_does_not_depend_on_windows(setting, window_ps):
    assert events(setting, window_ps=window_ps).equals(events(setting))


@pytest.mark.parametrize("setting", ["trimming", "pfc", "drops"])
def test_a_packet_is_followed_from_host_to_host(setting):
    rows = events(setting).filter(pl.col("seq").is_not_null())
    assert rows["packet"].null_count() == 0
    whole = 0
    for journey in rows.partition_by("packet"):
        moves = journey.filter(pl.col("event").is_in(["send", "arrive", "forward", "receive"]))
        assert moves["time_ps"].is_sorted()
        steps = moves["event"].to_list()
        nodes, following = moves["node_name"].to_list(), moves["to_name"].to_list()
        for i, step in enumerate(steps[:-1]):
            assert step != "arrive" or steps[i + 1] == "forward"
            if step in ("send", "forward"):
                assert following[i] == nodes[i + 1]
        kept = not count(journey, "drop")
        assert (steps[-1] == "receive") == kept
        assert not kept or steps[0] == "send"
        whole += kept
    assert whole >= 30


def test_round_trips_of_ndp_are_those_of_its_sequence_numbers():
    """Every packet is acknowledged by its number, so the two ends can be told without journeys."""
    rows = events(flow=4, flows=FLOWS_ALONE)
    sent = rows.filter((pl.col("event") == "send") & (pl.col("kind") == "DATA"))
    answers = rows.filter((pl.col("event") == "receive") & (pl.col("kind") == "ACK"))
    sent_at = dict(sent.select("seq", "time_ps").iter_rows())
    expected = [now - sent_at[seq] for seq, now in answers.select("seq", "time_ps").iter_rows()]
    assert answers["rtt_ps"].to_list() == expected
    assert len(expected) == 15
    pulls = rows.filter((pl.col("event") == "receive") & (pl.col("kind") == "PULL"))
    assert pulls["rtt_ps"].null_count() == len(pulls)


FLOWS_ALONE = FlowTable(FLOWS.src[:5], FLOWS.dst[:5], FLOWS.size_bytes[:5], FLOWS.start_ps[:5])


def test_the_round_trip_of_a_lone_packet_is_that_of_empty_links():
    flows = flow_table([(0, 15, 4096, 0)])
    traced = engine("pfc", trace=(0,), flows=flows)
    rows = table(traced)
    assert rows["rtt_ps"].drop_nulls().to_list() == [int(traced.state.ends.tx["base_rtt_ps"][0])]
    assert set(rows["queue_bytes"].drop_nulls()) == {0, PACKET, 64}


def test_the_queue_that_a_packet_finds():
    """Two hosts under one leaf send to a third at once: the queue grows by half of what comes."""
    flows = flow_table([(0, 2, 40_000, 0), (1, 2, 40_000, 0)])
    rows = events("pfc", flow=1, flows=flows)
    found = rows.filter((pl.col("event") == "arrive") & (pl.col("kind") == "DATA"))
    # At each arrival of host 1's packet k, k pairs and host 0's packet came, k packets are gone.
    assert found["queue_bytes"].to_list()[:9] == [PACKET * (k + 1) for k in range(9)]
    waits = rows.filter((pl.col("event") == "forward") & (pl.col("kind") == "DATA"))
    ser = PACKET * 80
    assert waits["wait_ps"].to_list()[:9] == [(k + 1) * ser for k in range(9)]


def test_state_is_that_after_each_handler():
    rows = events("pfc", flow=16)
    sender = rows.filter(pl.col("event") == "sender")
    assert sender["timer"][0] == "start"
    assert sender["tx.sent_packets"].to_list()[:3] == [0, 1, 2]
    assert sender["tx.una"][-1] == 15
    receiver = rows.filter(pl.col("event") == "receiver")
    assert receiver["rx.expected"].to_list() == list(range(1, 16))
    assert receiver["rx.got_bytes"][-1] == SIZE


def test_pauses_of_the_sender():
    flows = flow_table([(i, 13, 40 * 4096, 0) for i in range(12)])
    rows = events("pfc", flow=0, flows=flows)
    changes = rows.filter(pl.col("event").is_in(["pause", "resume"]))["event"].to_list()
    assert changes == ["pause", "resume"] * (len(changes) // 2)
    assert changes
    sends = rows.filter((pl.col("event") == "send") & (pl.col("kind") == "DATA"))["time_ps"]
    since, until = (
        rows.filter(pl.col("event") == event)["time_ps"][0] for event in ("pause", "resume")
    )
    assert not sends.is_between(since + 1, until - 1).any()


def test_retransmissions_are_told():
    traced = engine("drops", trace=(16,))
    rows = table(traced)
    assert int(rows["again"].sum()) == int(traced.state.ends.tx["retransmits"][16]) > 0


def test_losses_on_the_wire():
    faults = combine([LinkFault(np.arange(NETWORK.n_ports), loss=0.02)], NETWORK.n_ports)
    traced = engine("pfc", trace=tuple(SENDERS), faults=faults)
    raw = record_all(traced)
    lost = np.count_nonzero(raw["entries"][:, WHAT] == LOST)
    assert lost == traced.state.wires.losses["packets"].sum() > 0
    rows = event_table(traced, raw, traced.protocol.modules[0])[0].filter(pl.col("event") == "lose")
    assert rows["packet"].null_count() == 0


def test_a_full_buffer_is_told():
    traced = engine(trace=(16,), trace_capacity=4)
    with pytest.raises(TraceOverflowError):
        record_all(traced)


EXPERIMENT = """
name = "small"
transport = "{transport}"
[topology]
kind = "fat_tree"
hosts_per_leaf = 2
leaves = 3
host_rate = "100Gbps"
[traffic]
kind = "permutation"
size = "40KB"
"""


@pytest.fixture
def netsim(tmp_path, monkeypatch):
    """Runs `netsim …` as plain Python in a directory with small.toml."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    (tmp_path / "small.toml").write_text(EXPERIMENT.format(transport="ndp"))
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


@pytest.fixture
def result(netsim):
    """The directory of a result of small.toml."""
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
    def test_text(self, netsim, result):
        outcome = netsim("trace", result, "--flow", "2", "--limit", "0")
        assert outcome.exit_code == 0, outcome.output
        lines = outcome.stdout.splitlines()
        assert lines[0].split() == ["time", "us", "node", "event", "packet", "queue", "state"]
        assert lines[1].split()[1:3] == ["h2", "start"]
        assert lines[2].split()[1:5] == ["h2", "send", "DATA", "0"]
        assert sum(" receive " in line and " DATA " in line for line in lines) == 10
        assert "flow 2 of small (ndp): h2 to " in outcome.stdout
        fct = load(result).flows["fct_ps"][2] / 1e6
        assert f"done after {fct:.5g}us" in outcome.stdout
        assert "paths of data:" in outcome.stdout
        assert "warning" not in outcome.stderr

    def test_limit_and_filters(self, netsim, result):
        few = netsim("trace", result, "--flow", "2", "--limit", "3").stdout.splitlines()
        assert few[4].startswith("... and ")
        options = ("--seq", "3..4", "--events", "send", "--fields", "credit")
        chosen = netsim("trace", result, "--flow", "2", *options).stdout.splitlines()
        packets = [" ".join(line.split()[3:5]) for line in chosen[1 : chosen.index("")]]
        assert packets == ["DATA 3", "DATA 4", "ACK 3", "ACK 4"]
        assert "tx.credit=" in chosen[1]
        late = netsim("trace", result, "--flow", "2", "--from", "9us").stdout.splitlines()
        assert float(late[1].split()[0]) >= 9

    def test_until_ends_the_simulation(self, netsim, result):
        outcome = netsim("trace", result, "--flow", "2", "--until", "3us", "--limit", "0")
        times = [line.split()[0] for line in outcome.stdout.splitlines()[1:] if line[:1] == " "]
        assert 2 < float(times[-1]) < 3
        assert "not done (time)" in outcome.stdout
        assert "warning" not in outcome.stderr

    def test_files(self, netsim, result, tmp_path):
        outcome = netsim(
            "trace", result, "--flow", "slowest", "--csv", "t.csv", "--parquet", "t.parquet"
        )
        assert outcome.exit_code == 0, outcome.output
        table = pl.read_parquet("t.parquet")
        assert pl.read_csv("t.csv", infer_schema_length=None)["time_ps"].equals(table["time_ps"])
        fields = pq.read_schema("t.parquet")
        assert fields.field("wait_ps").metadata[b"unit"] == b"ps"
        known = [name for name in table.columns if not name.startswith(("tx.", "rx."))]
        assert all(COLUMNS["trace"][name].doc for name in known)

    def test_plot_stands_beside_the_result_which_may_be_written_again(self, netsim, result):
        outcome = netsim("trace", result, "--flow", "2", "--quiet", "--plot")
        assert outcome.stdout.strip() == "r/trace_2.png"
        assert netsim("run", "small.toml", "--out", "r").exit_code == 0

    def test_wrong_input(self, netsim, result):
        assert fails(netsim("trace", result, "--flow", "6"), "no flow 6", "0 to 5")
        assert fails(netsim("trace", result, "--flow", "two"), '"two" is not a flow')
        assert fails(netsim("trace", result, "--flow", "1", "--events", "sned"), "send")
        assert fails(netsim("trace", result, "--flow", "1", "--fields", "cwnd"), "cwnd")
        assert fails(netsim("trace", result, "--flow", "1", "--seq", "x"), "packet number")
        assert fails(netsim("trace", "nowhere", "--flow", "1"), "holds no result")

    def test_a_damaged_result(self, netsim, result, tmp_path):
        path = tmp_path / "r" / "experiment.json"
        whole = path.read_text()
        path.write_text(whole[:100])
        assert fails(netsim("trace", result, "--flow", "1"), "experiment.json", "is not JSON")
        document = json.loads(whole)
        del document["resolved"]
        path.write_text(json.dumps(document))
        assert fails(netsim("trace", result, "--flow", "1"), "resolved")
        path.write_text(whole)
        (tmp_path / "r" / "flows.parquet").write_bytes(b"")
        assert fails(netsim("trace", result, "--flow", "1"), "flows.parquet")

    def test_a_transport_without_packets(self, netsim):
        netsim("run", "small.toml", "--set", "transport=ideal", "--out", "i")
        assert fails(netsim("trace", "i", "--flow", "1"), "ideal", "nothing to trace")

    def test_a_plugin_that_changes_and_goes(self, netsim, tmp_path):
        folder = tmp_path / "mine"
        folder.mkdir()
        source = registry.find("transport", "ndp").path.read_text()
        (folder / "mine.py").write_text(source)
        (folder / "e.toml").write_text(EXPERIMENT.format(transport="./mine.py"))
        assert netsim("run", "mine/e.toml", "--out", "r").exit_code == 0
        outcome = netsim("trace", "r", "--flow", "1")
        assert outcome.exit_code == 0, outcome.output
        assert "warning" not in outcome.stderr
        (folder / "mine.py").write_text(source + "# a remark\n")
        text = netsim("trace", "r", "--flow", "1").stderr
        last = source.count("\n") + 1
        assert f"transport ./mine.py has changed since then (mine.py: line {last})" in text
        (folder / "mine.py").write_text(
            source.replace("tx.credit = min(window,", "tx.credit = min(1,")
        )
        text = netsim("trace", "r", "--flow", "1").stderr
        assert "completion time was" in text
        moved = tmp_path / "elsewhere"
        shutil.move(folder, moved)
        outcome = netsim("trace", "r", "--flow", "1")
        assert outcome.exit_code == 0, outcome.output
        gone = "transport ./mine.py is not found; this is the source that the result keeps"
        assert gone in outcome.stderr
        assert "completion time was" not in outcome.stderr
        document = json.loads((tmp_path / "r" / "experiment.json").read_text())
        del document["plugins"][1]["sources"]
        (tmp_path / "r" / "experiment.json").write_text(json.dumps(document))
        assert fails(netsim("trace", "r", "--flow", "1"), "./mine.py", "--directory")
        outcome = netsim("trace", "r", "--flow", "1", "--directory", "elsewhere")
        assert outcome.exit_code == 0, outcome.output


def test_a_buffer_that_is_too_small_grows(netsim, result, monkeypatch):
    whole = trace_flow(load(result), 2)
    monkeypatch.setattr(record, "CAPACITY", 4)
    again = trace_flow(load(result), 2)
    assert again.events.equals(whole.events)
    assert whole.fct_ps == load(result).flows["fct_ps"][2]
    assert whole.events["time_ps"][-1] == whole.start_ps + max(whole.fct_ps, whole.acked_ps)


def test_an_interrupted_trace_keeps_what_there_is(netsim, result):
    calls = iter([False, True])
    trace = trace_flow(load(result), 2, should_stop=lambda: next(calls))
    assert trace.stopped_because == "interrupted"
    assert trace.fct_ps is None
    assert len(trace.events)


def test_a_flow_that_never_started(netsim, result, tmp_path):
    shutil.copytree(result, tmp_path / "c")
    flows = pl.read_parquet("c/flows.parquet")
    flows = flows.with_columns(pl.when(pl.col("flow") != 1).then("start_ps").alias("start_ps"))
    flows.write_parquet("c/flows.parquet")
    with pytest.raises(InputError, match="flow 1 never started"):
        trace_flow(load("c"), 1)


def test_tables_that_were_changed_are_noticed(netsim, result, tmp_path):
    assert load(result).hash_fits()
    assert trace_flow(load(result), 2).warnings == ()
    flows = pl.read_parquet(tmp_path / "r" / "flows.parquet")
    flows.with_columns(pl.col("retransmits") + 1).write_parquet(tmp_path / "r" / "flows.parquet")
    warnings = trace_flow(load(result), 2).warnings
    assert warnings == ("the tables of the result are not those that its hash was taken of",)


def test_kinds_have_the_names_that_the_transport_uses():
    for transport, names in (("homa", {12: "GRANT", 13: "RESEND"}), ("wan_fec", {2: "PARITY"})):
        found = kind_names(registry.find("transport", transport).module)
        assert found.items() >= {0: "DATA", 8: "ACK", **names}.items()


def test_a_transport_says_what_state_to_show(netsim, result, tmp_path):
    assert trace_flow(load(result), 2).state == (
        "tx.next_seq",
        "tx.n_acked",
        "tx.credit",
        "rx.owed",
    )
    source = registry.find("transport", "ndp").path.read_text()
    (tmp_path / "mine.py").write_text(source.replace("TRACE = (", 'TRACE = ("n_aked", '))
    assert netsim("run", "small.toml", "--set", "transport=./mine.py", "--out", "m").exit_code == 0
    assert fails(netsim("trace", "m", "--flow", "2"), "mine.py: TRACE", '"n_acked"')


def test_a_flow_of_a_class_is_traced_with_its_own_transport(netsim, tmp_path):
    classes = """
[classes.more]
transport = "roce"
traffic = { kind = "permutation", size = "20KB" }
"""
    (tmp_path / "two.toml").write_text(EXPERIMENT.format(transport="ndp") + classes)
    outcome = netsim("run", "two.toml", "--out", "two")
    assert outcome.exit_code == 0, outcome.output
    traces = [trace_flow(load("two"), flow) for flow in (2, 8)]
    assert [trace.transport for trace in traces] == ["ndp", "roce"]
    assert "tx.una" in traces[1].events.columns
    assert "tx.una" not in traces[0].events.columns
    assert "tx.credit" not in traces[1].events.columns
    assert [trace.warnings for trace in traces] == [(), ()]


def test_compiled_tracing_records_the_same():
    """And leaves out what is not traced: an engine of another type of buffer has to compile."""
    plain, compiled = (
        build(NETWORK, FLOWS, *SETTINGS["pfc"], params=PARAMS, trace=(16,), jit=jit)
        for jit in (False, True)
    )
    assert table(compiled, windows=3).equals(table(plain))


def test_the_figure(netsim, result):
    """It has every panel that there is something for."""
    from netsim.plots.trace import draw

    trace = trace_flow(load(result), 2)
    figure = draw(trace, trace.events, trace.state)
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert labels[0] == "packet number"
    assert labels[-3:] == ["round trip (us)", "path through", "queue found (KB)"]
    sent = figure.axes[0].get_lines()[0]
    assert sent.get_label() == "sent"
    assert sent.get_ydata().tolist() == list(range(10))
    assert sent.get_xdata()[1] * 1e6 == pytest.approx(8 * PACKET * 10, abs=US)
    with pytest.raises(InputError, match="no packet was sent"):
        draw(trace, trace.events.filter(pl.col("seq") < 0), trace.state)
