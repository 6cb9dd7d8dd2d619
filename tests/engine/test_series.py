"""Sampled series and traces."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from engine_case import departures, engine_for, keep_sent
from engine_runs import (
    DROP_TAIL,
    LOSSLESS,
    PACKET,
    US,
    build,
    counter,
    fabric_with,
    fat_tree,
    fct_ps,
    flow_table,
)
from engine_runs import run as finished
from raises_input import raises_input
from reference.cases import random_case
from series_case import reading, sampled

from netsim.engine.kernels.layout import INF, RUNNING
from netsim.engine.kernels.packets import PFC
from netsim.engine.kernels.trace import (
    DROPPED,
    FLOW,
    FORWARDED,
    MARKED,
    PORT,
    RECEIVED,
    RX,
    SENDERS_TIMERS,
    SENT,
    TIME,
    TRIMMED,
    TX,
    UNROUTABLE,
    VALUE,
    WHAT,
    TraceEntries,
    TraceOverflowError,
)
from netsim.model.arithmetic import send_time
from netsim.model.builder import NetworkBuilder
from netsim.model.fabric import Ecn
from netsim.model.faults import LinkFault, combine, follow_failures
from netsim.model.flows import FlowTable
from netsim.model.sampling import Sampling
from netsim.tracing.flow_trace import event_table
from netsim.tracing.segments import order_trace

G = 10**9
PAYLOAD = 4096


def test_budget_for_too_few_intervals_is_rejected() -> None:
    case = random_case(1, transport="roce", model="lossless")
    with raises_input("0", key="outputs.sample_budget") as caught:
        engine_for(case, jit=False, sampling=sampled(case, 1000, budget_bytes=1000))
    assert caught.value.key == "outputs.sample_budget"


def test_mean_queue_follows_littles_law_and_pollaczek_khinchine() -> None:
    """Packets at random times to a 10 Gbps host form an M/D/1 queue at the switch's port. The bytes
    held over time equal the sum of the times that packets spend there, exactly."""
    builder = NetworkBuilder()
    hosts = builder.add_hosts(65)
    switch = builder.add_switch()
    for h in hosts:
        builder.cable(h, switch, rate_bps=(10 if h == 64 else 800) * G, delay_ps=US)
    network = builder.build("queue")
    rng = np.random.Generator(np.random.Philox(1))
    n, load = 3000, 0.5
    service = PACKET * 8 * 100
    start = np.cumsum(rng.exponential(service / load, n)).astype(np.int64)
    src, dst = np.arange(n, dtype=np.int32) % 64, np.full(n, 64, np.int32)
    flows = FlowTable(src, dst, np.full(n, PAYLOAD, np.int64), start)
    port = int(network.port_peer[64])
    sampling = Sampling(100 * US, np.array([port]), np.array([64]), np.array([0]), queues=True)
    engine = finished(build(network, flows, "datagram", DROP_TAIL, sampling=sampling, jit=False))
    there = fct_ps(engine) - (PACKET * 8 * 1000 // 800 + 2 * US)
    levels, found = engine.queue_levels(), reading(engine)
    assert levels is not None
    held = int(there.sum()) * PACKET
    assert levels.mean_bytes[port] == held / engine.now_ps
    lengths = np.diff(found.end_ps, prepend=0)
    assert float((found.queues.values["mean_queue_bytes"][:, 0] * lengths).sum()) == pytest.approx(
        held, rel=1e-12
    )
    packets = levels.mean_bytes[port] / PACKET
    assert packets == pytest.approx(load + load**2 / (2 * (1 - load)), rel=0.15)


NETWORK = fat_tree(4, 4, "100Gbps")
SIZE, N_PACKETS = 36_000, 9
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
    "least loaded": ("datagram", fabric_with(routing="least_loaded", queue_bytes=6 * PACKET)),
}
PARAMS = {"rto": "100us"}


ALWAYS = ((0, INF),)


def engine(setting="trimming", trace=(), flows=FLOWS, **options):
    transport, fabric = SETTINGS[setting]
    params = {} if transport == "datagram" else PARAMS
    return build(
        NETWORK, flows, transport, fabric, params=params, jit=False, trace=trace, **options
    )


def record_all(traced, windows=7):
    """Run to the end and return the records."""
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
        assert len(sent) > 3 * N_PACKETS  # data on several links each


def test_traced_ports_record_all_their_packets():
    """Including PFC frames and flows that are not traced."""
    for setting in ("trimming", "pfc"):
        flows = flow_table([(i, 13, 20 * 4096, 0) for i in range(12)])
        every = dict.fromkeys(range(NETWORK.n_ports), ALWAYS)
        traced = keep_sent(engine(setting, flows=flows, trace_ports=every))
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
        few = record_all(engine(setting, flows=flows, trace_ports={last: ALWAYS}))
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
def test_trace_does_not_depend_on_windows(setting):
    assert events(setting, window_ps=333_333).equals(events(setting))


def test_ndp_round_trips_match_sequence_numbers():
    """Every packet is acknowledged by its number, which identifies both ends of a round trip."""
    rows = events(flow=4, flows=FLOWS_ALONE)
    sent = rows.filter((pl.col("event") == "send") & (pl.col("kind") == "DATA"))
    answers = rows.filter((pl.col("event") == "receive") & (pl.col("kind") == "ACK"))
    sent_at = dict(sent.select("seq", "time_ps").iter_rows())
    expected = [now - sent_at[seq] for seq, now in answers.select("seq", "time_ps").iter_rows()]
    assert answers["rtt_ps"].to_list() == expected
    assert len(expected) == N_PACKETS
    pulls = rows.filter((pl.col("event") == "receive") & (pl.col("kind") == "PULL"))
    assert pulls["rtt_ps"].null_count() == len(pulls)


FLOWS_ALONE = FlowTable(FLOWS.src[:5], FLOWS.dst[:5], FLOWS.size_bytes[:5], FLOWS.start_ps[:5])


def test_recorded_state_is_that_after_each_handler():
    rows = events("pfc", flow=16)
    sender = rows.filter(pl.col("event") == "sender")
    assert sender["timer"][0] == "start"
    assert sender["tx.sent_packets"].to_list()[:3] == [0, 1, 2]
    assert sender["tx.una"][-1] == N_PACKETS
    receiver = rows.filter(pl.col("event") == "receiver")
    assert receiver["rx.expected"].to_list() == list(range(1, N_PACKETS + 1))
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


def test_timers_of_hosts_are_recorded_while_a_flow_lasts():
    """Pull timers of NDP's receivers serve other flows, too. Hosts know the end a window later."""
    start_ps = 20 * US
    flows = flow_table([(0, 13, SIZE, start_ps), *((i, 13, 10 * SIZE, 0) for i in range(1, 4))])
    traced = engine(flows=flows, trace=(0,), trace_starts={0: start_ps})
    entries, states = record_all(traced).entries, traced.flow_states()
    copies = entries[np.isin(entries[:, WHAT], (TX, RX)) & (entries[:, VALUE] >= 0)]
    times = copies[copies[:, VALUE] < SENDERS_TIMERS, TIME]
    end_ps = max(states.done_ps[0], states.acked_ps[0])
    assert start_ps <= times.min() < times.max() < end_ps + 2 * US < traced.now_ps


def test_trace_overflow_is_an_error():
    traced = engine(trace=(16,), trace_capacity=4)
    with pytest.raises(TraceOverflowError):
        record_all(traced)
