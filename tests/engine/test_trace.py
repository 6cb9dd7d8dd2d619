"""Tracing records everything that the engine does and does not change it."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from engine_case import departures, keep_sent
from engine_runs import LOSSLESS, PACKET, US, build, counter, fabric_with, fat_tree, flow_table

from netsim.engine.kernels.layout import INF, RUNNING
from netsim.engine.kernels.packets import PFC
from netsim.engine.kernels.trace import (
    DROPPED,
    FLOW,
    FORWARDED,
    MARKED,
    PORT,
    RECEIVED,
    SENT,
    TRIMMED,
    TX,
    UNROUTABLE,
    WHAT,
    TraceEntries,
    TraceOverflowError,
)
from netsim.model.arithmetic import send_time
from netsim.model.fabric import Ecn
from netsim.model.faults import LinkFault, combine, follow_failures
from netsim.model.flows import FlowTable
from netsim.tracing.flow_trace import event_table
from netsim.tracing.segments import order_trace

NETWORK = fat_tree(4, 4, "100Gbps")
SIZE = 60_000
FLOWS = flow_table(
    [(i, (5 * i + 6) % 16, SIZE, 0) for i in range(16)] + [(i, 13, SIZE, 1000) for i in range(3)]
)
SENDERS = range(len(FLOWS))
SHORT_TRIM = fabric_with(
    model="trim",
    routing="spray_permutation",
    n_traffic_classes=2,
    queue_bytes=4 * PACKET,
    header_queue_bytes=3 * 64,
)
SETTINGS = {
    "trimming": ("ndp", SHORT_TRIM),
    "pfc": ("roce", LOSSLESS),
    "drops": ("roce", fabric_with(queue_bytes=4 * PACKET)),
    "marks at enqueue": (
        "roce",
        fabric_with(queue_bytes=10**6, ecn=Ecn(8000, 20000, 0.5, "enqueue")),
    ),
    "marks at dequeue": (
        "roce",
        fabric_with(queue_bytes=10**6, ecn=Ecn(8000, 20000, 0.5, "dequeue")),
    ),
    "least loaded": (
        "datagram",
        fabric_with(routing="least_loaded", queue_bytes=6 * PACKET),
    ),
}
PARAMS = {"rto": "100us"}


def engine(setting="trimming", trace=(), flows=FLOWS, **options):
    transport, fabric = SETTINGS[setting]
    params = {} if transport == "datagram" else PARAMS
    return build(
        NETWORK, flows, transport, fabric, params=params, jit=False, trace=trace, **options
    )


def record_all(traced, windows=7):
    """Run to the end and return what was recorded."""
    chunks, status = [], RUNNING
    while status == RUNNING:
        status = traced.advance(windows, INF)
        chunks.append(traced.drain_trace())
    return TraceEntries.joined(chunks)


def table(traced, windows=7):
    transport = traced.protocol.modules[0]
    return event_table(NETWORK, order_trace(NETWORK, record_all(traced, windows)), transport)[0]


def events(setting="trimming", flow=16, **options):
    return table(engine(setting, trace=(flow,), **options))


def count(rows, event):
    return len(rows.filter(pl.col("event") == event))


def test_trace_records_every_departure_of_a_flow():
    for setting in SETTINGS:
        traced = keep_sent(engine(setting, trace=(16,)))
        rows = table(traced).filter(pl.col("event").is_in(["send", "forward"]))
        columns = ("time_ps", "seq", "aux", "size_bytes", "traffic_class", "ecn", "entropy")
        recorded = sorted(zip(rows["port"], *(rows[name] for name in columns), strict=True))
        sent = []
        for port in range(NETWORK.n_ports):
            rec = traced.state.links.ports[port]
            delay_ps, q20 = int(rec["delay_ps"]), int(rec["ps_per_byte_q20"])
            for at, kind, flow, seq, aux, size, prio, ecn, entropy in departures(traced, port):
                start = at - delay_ps - send_time(size, q20)
                if flow == 16 and kind != 15:
                    sent.append((port, start, seq, aux, size, prio, ecn, entropy))
        assert recorded == sorted(sent)
        assert len(sent) > 3 * 15  # data on several links each


def test_traced_ports_record_all_their_packets():
    """Including PFC frames and flows that are not traced."""
    for setting in ("trimming", "pfc"):
        flows = flow_table([(i, 13, 20 * 4096, 0) for i in range(12)])
        traced = keep_sent(engine(setting, flows=flows, trace_ports=range(NETWORK.n_ports)))
        raw = record_all(traced)
        leaves = np.isin(raw.entries[:, WHAT], (SENT, FORWARDED))
        packets = raw.packets[leaves[raw.entries[:, WHAT] < TX]]
        port = raw.entries[leaves, PORT].tolist()
        found = zip(port, *(packets[n].tolist() for n in ("time", "kind", "flow")), strict=True)
        ports = range(NETWORK.n_ports)
        sent = [(port, *one[:3]) for port in ports for one in departures(traced, port)]
        assert sorted(found) == sorted(sent)
        assert (np.count_nonzero(packets["kind"] == PFC) > 0) == (setting == "pfc")
        assert set(raw.of_flow(3).entries[:, FLOW]) == {3}
        last = int(NETWORK.port_peer[13])
        few = record_all(engine(setting, flows=flows, trace_ports=(last,)))
        assert set(few.entries[:, PORT]) == {last}


def test_recorded_events_equal_queue_counters():
    for setting in SETTINGS:
        traced = engine(setting, trace=tuple(SENDERS))
        raw = record_all(traced)
        what = raw.entries[:, WHAT]
        names = {"drops": DROPPED, "trims": TRIMMED, "ecn_marks": MARKED}
        found = {name: np.count_nonzero(what == code) for name, code in names.items()}
        assert found == {name: counter(traced, name) for name in names}
        expected = {"trimming": "trims", "drops": "drops", "least loaded": "drops"}
        expected |= {"marks at enqueue": "ecn_marks", "marks at dequeue": "ecn_marks"}
        assert setting not in expected or found[expected[setting]] > 0
        packets = traced.conservation().packets
        assert np.count_nonzero(what == SENT) == packets.sent
        assert np.count_nonzero(what == RECEIVED) == packets.received
        plain = engine(setting)
        while plain.advance(1000, INF) == RUNNING:
            pass
        assert traced.digest() == plain.digest()  # recording changes nothing


@pytest.mark.parametrize("setting", ["trimming", "pfc", "least loaded"])
@pytest.mark.parametrize("window_ps", [50_000, 333_333])
def test_trace_does_not_depend_on_windows(setting, window_ps):
    assert events(setting, window_ps=window_ps).equals(events(setting))


def test_ndp_round_trips_match_sequence_numbers():
    """Every packet is acknowledged by its number, which identifies both ends of a round trip."""
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


def test_recorded_state_is_that_after_each_handler():
    rows = events("pfc", flow=16)
    sender = rows.filter(pl.col("event") == "sender")
    assert sender["timer"][0] == "start"
    assert sender["tx.sent_packets"].to_list()[:3] == [0, 1, 2]
    assert sender["tx.una"][-1] == 15
    receiver = rows.filter(pl.col("event") == "receiver")
    assert receiver["rx.expected"].to_list() == list(range(1, 16))
    assert receiver["rx.received_bytes"][-1] == SIZE


def test_sender_sends_nothing_between_pause_and_resume():
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


@pytest.mark.parametrize("setting", ["trimming", "pfc"])
def test_unroutable_packets_are_recorded(setting):
    """All uplinks of a leaf fail, which leaves it no routes; with coupled and uncoupled ports."""
    leaf = NETWORK.n_hosts
    ports = np.arange(NETWORK.node_first_port[leaf], NETWORK.node_first_port[leaf + 1])
    up = ports[NETWORK.port_node[NETWORK.port_peer[ports]] > leaf]
    faults = combine([LinkFault(up, outages_ps=((2 * US, 9 * US),))], NETWORK.n_ports)
    routes = follow_failures(NETWORK, faults, np.full(NETWORK.n_switches, US))
    traced = engine(setting, trace=tuple(SENDERS), faults=replace(faults, routes=routes))
    raw = record_all(traced)
    strays = np.count_nonzero(raw.entries[:, WHAT] == UNROUTABLE)
    assert strays == traced.conservation().packets.unroutable > 0
    transport = traced.protocol.modules[0]
    rows = event_table(NETWORK, order_trace(NETWORK, raw), transport)[0].filter(
        pl.col("event") == "unroutable"
    )
    assert rows["packet"].null_count() == 0
    assert set(rows["node"]) == {leaf}


def test_trace_overflow_is_an_error():
    traced = engine(trace=(16,), trace_capacity=4)
    with pytest.raises(TraceOverflowError):
        record_all(traced)
