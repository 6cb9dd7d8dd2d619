"""State of the engine: views, snapshots, records, ids, constants."""

import operator
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_case import kept
from engine_runs import (
    DROP_TAIL,
    LOSSLESS,
    NS,
    PACKET,
    TRIM,
    US,
    build,
    fabric_with,
    fat_tree,
    flow_table,
    run,
)
from raises_input import raises

import netsim.engine.kernels
from netsim.engine.engine import Engine
from netsim.engine.kernels import handlers, specialization_constants
from netsim.engine.kernels.layout import INF
from netsim.engine.kernels.specialization_constants import CONSTANTS, UnboundConstantError
from netsim.engine.records import RecordArray, aligned_zeros, untouched_zeros
from netsim.engine.snapshot import ForeignSnapshotError
from netsim.engine.state_views import Status
from netsim.model.fabric import Fabric
from netsim.model.flows import FlowTable

NETWORK = fat_tree(2, 2, "100Gbps")
SIZE = 10 * 4096
SHARED = fabric_with("lossless", shared_buffer_bytes=100 * PACKET, alpha=1)
LONG_PS = 10**12
INCAST = [(0, 3, SIZE, 0), (1, 3, SIZE, 0), (2, 3, SIZE, 500 * NS)]


def engine(transport: str = "ndp", fabric: Fabric = TRIM, flows: FlowTable | None = None) -> Engine:
    return build(NETWORK, flows or flow_table(INCAST), transport, fabric, jit=False)


def test_counts_follow_the_progress_of_a_run() -> None:
    one = engine()
    before = one.counts
    assert set(asdict(before).values()) == {0}
    assert one.advance(7, LONG_PS) is Status.RUNNING
    assert one.counts.windows == 7
    assert 6 * US < one.counts.now_ps == one.now_ps < 8 * US  # a window is a link's delay, 1 us
    run(one)
    assert (one.counts.delivered, one.counts.finished) == (3, 3)
    assert one.counts.payload_bytes == 3 * SIZE
    links = one.link_counters()
    assert one.counts.hops == links.sent_packets.sum()
    assert before.hops == 0
    links.sent_packets[:] = 0
    assert one.link_counters().sent_packets.any()  # the counters were a copy


def test_flow_states_are_live_and_read_only() -> None:
    flows = flow_table([(0, 3, SIZE, 5 * US), (3, 0, SIZE, 2 * US), (1, 0, SIZE, 2 * US)])
    flows.wait_for([[], [0], [0]])
    one = engine(flows=flows)
    states = one.flow_states()
    assert states.start_ps.tolist() == [5 * US, 2 * US, 2 * US]
    assert states.waits_for.tolist() == [0, 1, 1]
    assert states.done_ps.tolist() == states.acked_ps.tolist() == [-1, -1, -1]
    run(one)
    assert states.waits_for.tolist() == [0, 0, 0]
    done_ps, start_ps = states.done_ps, states.start_ps
    assert start_ps[1] == done_ps[0] + 2 * US  # its host sees the delivery
    assert start_ps[2] == done_ps[0] + 2 * US + NETWORK.lookahead_ps
    assert (states.acked_ps > done_ps).all()
    assert states.finished.tolist() == [1, 1, 1]
    assert states.received_bytes.tolist() == [SIZE, SIZE, SIZE]
    assert states.sent_packets.tolist() == [10, 10, 10]
    assert states.retransmits.tolist() == [0, 0, 0]
    for column in vars(states).values():
        with raises(ValueError):
            column[0] = 1


def test_packets_and_bytes_are_conserved_at_any_time() -> None:
    for transport, fabric in [
        *(("ndp", TRIM), ("roce", LOSSLESS), ("roce", SHARED)),
        ("roce", fabric_with(queue_bytes=3 * PACKET)),
    ]:
        one = engine(transport, fabric)
        most = 0
        while one.advance(1, LONG_PS) is Status.RUNNING:
            found = one.conservation()
            assert (found.packets.missing, found.bytes.missing) == (0, 0)
            if fabric in (LOSSLESS, SHARED):  # whose switches count bytes by ingress port
                links = one.state.links
                assert links.queues["came_in_bytes"].sum() == links.queues["bytes"].sum()
                if fabric is SHARED:
                    assert links.switches["used_bytes"].sum() == links.queues["bytes"].sum()
            assert found.bytes.in_flight >= 64 * found.packets.in_flight
            most = max(most, found.packets.in_flight)
        assert most > 5
        found, links = one.conservation(), one.link_counters()
        assert found.packets.in_flight == found.bytes.in_flight == found.packets.trimmed == 0
        assert found.packets.dropped == links.drops.sum()
        assert found.bytes.trimmed == links.trim_bytes.sum()


def test_conservation_reports_missing_packets_and_bytes() -> None:
    one = run(engine())
    one.state.hosts.nics["received_packets"][0] -= 1
    one.state.hosts.nics["sent_bytes"][1] += 7
    found = one.conservation()
    assert (found.packets.missing, found.bytes.missing) == (1, 7)


def test_digest_distinguishes_states() -> None:
    one, other = run(engine()), engine()
    before = other.digest()
    assert run(other).digest() == one.digest() != before
    other.state.hosts.tx["credit"][2] += 1  # state of the transport
    assert other.digest() != one.digest()


def small(transport: str = "datagram", **given: Any) -> Engine:
    """Return an engine in plain Python whose flows have just started."""
    network = fat_tree(2, 2, "100Gbps")
    flows = flow_table([(0, 2, 50_000, 0), (1, 3, 50_000, 0), (2, 1, 9_000, 0)])
    engine = build(network, flows, transport, **{"fabric": DROP_TAIL, "jit": False, **given})
    engine.advance(3, INF)
    return engine


@pytest.mark.parametrize(
    "given",
    [{"transport": "roce", "fabric": LOSSLESS}, {"trace": [0]}],
    ids=["other records", "one more group"],
)
def test_snapshot_of_another_kind_of_engine_is_rejected(given: dict[str, Any]) -> None:
    engine, other = small(), small(**given)
    before = engine.digest()
    with pytest.raises(ForeignSnapshotError):
        engine.restore(other.snapshot())
    assert engine.digest() == before


def test_snapshot_stores_packets_but_not_free_space() -> None:
    engine = small()
    pool, packets = engine.state.links.pool, engine.conservation().packets.in_flight
    taken = engine.snapshot()["links.pool"]
    assert packets > 0
    assert taken.raw.size >= packets * pool.itemsize
    assert taken.raw.size < pool.nbytes / 100


def test_restored_snapshot_replaces_the_recorded_trace() -> None:
    engine, other = small(trace=[0]), small(trace=[0])
    recorded = kept(engine)
    assert other.drain_trace().entries.size > 0
    other.restore(recorded)
    assert np.array_equal(other.drain_trace().entries, engine.drain_trace().entries)


INNER = np.dtype([("count", "i8"), ("share", "f8")], align=True)
FIELDS = [("small", "u1"), ("many", "i8", (3,)), ("first", INNER), ("second", INNER)]
DTYPE = np.dtype(FIELDS, align=True)


def records(n: int = 2) -> RecordArray:
    return np.zeros(n, DTYPE).view(RecordArray)


def test_value_out_of_range_is_an_error():
    with raises(ValueError, "format"):
        records()[0].small = 300


@pytest.mark.parametrize("zeros", [aligned_zeros, untouched_zeros])
def test_zeroed_records_begin_on_a_cache_line(zeros) -> None:
    records = zeros(1000, np.dtype([("a", "i8"), ("b", "i4")], align=True))
    assert records.ctypes.data % 64 == 0
    assert not records["a"].any()
    assert not records["b"].any()
    records["b"][999] = 7
    assert records[999]["b"] == 7


USES = (
    bool,
    int,
    range,
    lambda value: value + 1,
    lambda value: 2 * value,
    lambda value: value == 3,
    lambda value: value < 3,
    lambda value: 1 << value,
    operator.index,
)


def test_unbound_constant_cannot_be_used():
    for name, constant in CONSTANTS.items():
        assert {**vars(handlers), **vars(specialization_constants)}[name] is constant
        uses = (lambda value: value(1, 2, 3),) if callable(constant) else USES
        for use in uses:
            with raises(UnboundConstantError, name):
                use(constant)


def test_every_handler_has_a_constant():
    programs = {f"program_{name}" for name in handlers.PROGRAM_HANDLERS}
    tables = handlers.HANDLERS, handlers.QUEUE_HANDLERS, handlers.ROUTING_HANDLERS
    expected = {*programs, "switch_step"}.union(*tables)
    assert {name for name in CONSTANTS if name.islower()} == expected


def test_handler_numbers_are_unique_and_map_to_names():
    names = {}
    for table in (handlers.HANDLERS, handlers.QUEUE_HANDLERS):
        assert table.name_of(handlers.NOTHING) == ""
        assert [table.name_of(h.number) for h in table.values()] == list(table)
        names |= {h.number: h.name for h in table.values()}
    assert len(names) == len(handlers.HANDLERS) + len(handlers.QUEUE_HANDLERS)


def test_handler_arguments_match_where_it_runs():
    for handler in handlers.HANDLERS.values():
        has_env = handler.arguments[0] == "env"
        assert has_env == (handler.runs_on != handlers.SWITCH)
        if handler.runs_on not in (handlers.BEFORE, handlers.SWITCH, handlers.ANY_HOST):
            assert handler.side == {"source": "tx", "destination": "rx"}[handler.runs_on]


def test_engine_records_each_handler_that_it_calls():
    """Errors can then name the handler. A handler without `env` cannot break a rule."""
    for name, row in {**handlers.HANDLERS, **handlers.QUEUE_HANDLERS}.items():
        kernels = Path(netsim.engine.kernels.__file__).parent.glob("*.py")
        texts = [path.read_text("utf-8") for path in kernels if path.stem != "handlers"]
        call = re.compile(rf"(?<!def )\b{name}\(")
        calling = [text for text in texts if call.search(text)]
        assert calling
        if row.runs_on == handlers.BOTH_ENDS:
            assert "env" not in row.arguments
            continue
        node = "switch" if row.runs_on == handlers.SWITCH else "host"
        assert any(f"{node}.handler = IN_{name.upper()}\n" in text for text in calling)
