"""Operations as tasks and flows; relays; the guide."""

from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import indent

import numpy as np
import pytest
from engine_runs import DROP_TAIL, build, run
from numpy.typing import NDArray
from operations_case import RANKS, random_operations
from raises_input import mentions, raises_input
from task_times import operations_of
from traffic_cases import star

import netsim.traffic
from netsim.errors import InputError
from netsim.flows import COMPUTE, Workload
from netsim.model.builder import NetworkBuilder
from netsim.model.network import Network
from netsim.model.relays import RelayRule, relayed
from netsim.workloads.operations import CollectiveOptions, Operations
from netsim.workloads.operations.table import WHATS

US = 10**6


def times(load: Workload, n_hosts: int = RANKS) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Simulate and return when each operation starts and ends."""
    load.validate(n_hosts)
    engine = build(star(n_hosts), load.flows, "datagram", DROP_TAIL, tasks=load.tasks, jit=False)
    states = run(engine).task_states()
    table = operations_of(load)
    assert (states.end_ps >= 0).all()
    return states.start_ps[table.begin_task], states.end_ps[table.end_task]


def test_random_operations_respect_streams_edges_and_messages() -> None:
    for seed in range(12):
        ops, after, after_start = random_operations(seed)
        load = ops.lower(range(RANKS))
        table = operations_of(load)
        assert table is not None
        assert len(table) == len(ops)
        begin, end = times(load)
        assert (begin <= end).all()
        for rank in range(RANKS):
            for stream in range(3):
                in_order = np.flatnonzero((table.rank == rank) & (table.stream == stream))
                # A receive may begin while its stream is busy; only its end follows the order.
                computes = table.what[in_order[1:]] != WHATS.index("receive")
                assert (
                    end[in_order[:-1]] <= np.where(computes, begin[in_order[1:]], INFINITE)
                ).all()
                assert (end[in_order[:-1]] <= end[in_order[1:]]).all()
        for one, then in after:
            assert end[one] <= end[then]
        for one, then in after_start:
            assert begin[one] <= end[then]
        for group in range(int(table.group.max()) + 1):
            members = np.flatnonzero(table.group == group)
            assert members.size == table.n[members[0]]
            what = WHATS[table.what[members[0]]]
            if what == "send":
                assert (
                    begin[members[0]] + US // 2 < end[members[1]]
                    or table.size_bytes[members[0]] == 1
                )
            elif what in ("all_reduce", "all_gather"):
                together = table.kinds[table.kind[members[0]]] == "packets"
                assert not together or end[members].min() >= begin[members].max()


INFINITE = np.int64(1) << 62


def test_set_order_determines_the_order_of_a_stream() -> None:
    ops = Operations(2)
    computes = ops.compute(0, [1 * US, 2 * US, 4 * US])
    sent, _ = ops.send(0, 1, 100, stream=0)
    ops.set_order([*computes.tolist(), sent], [3, 1, 2, 0])
    begin, end = times(ops.lower([0, 1]), 2)
    assert begin[sent] == 0
    assert begin[computes[[1, 2, 0]]].tolist() == [end[sent], end[computes[1]], end[computes[2]]]
    assert (end - begin)[computes].tolist() == [1 * US, 2 * US, 4 * US]


def test_after_start_waits_for_the_start_of_an_operation() -> None:
    ops = Operations(2)
    before, slow = ops.compute(0, [US, 9 * US])
    quick = ops.join(0)
    ops.after_start(slow, quick)
    sent, _ = ops.send(0, 1, 100)
    ops.after(quick, sent)
    begin, end = times(ops.lower([0, 1]), 2)
    assert begin[sent] == end[quick] == begin[slow] == end[before] == US


def test_flows_have_kinds_and_classes_and_skip_empty_messages() -> None:
    ops = Operations(3)
    matrix = np.array([[0, 10, 0], [0, 0, 0], [7, 5, 0]])
    ops.collective("all_to_all", [0, 1, 2], matrix, "direct", kind="ep", label="tokens")
    ops.collective("all_gather", [[0, 1], [1, 2]], [100, 200], "ring", kind="tp")
    load = ops.lower([4, 2, 0], {"tp": 1})
    load.validate(5)
    flows, table = load.flows, operations_of(load)
    assert table is not None
    assert sorted(zip(flows.src[:3], flows.dst[:3], flows.size_bytes[:3], strict=True)) == [
        (0, 2, 5),
        (0, 4, 7),
        (4, 2, 10),
    ]
    assert [flows.kinds[k] for k in flows.kind] == ["ep"] * 3 + ["tp"] * 4
    assert flows.size_bytes[3:].tolist() == [50, 50, 100, 100]
    assert flows.cls.tolist() == [0] * 3 + [1] * 4
    assert flows.label is not None
    assert list(flows.label) == ["tokens"] * 3 + [""] * 4
    assert table.size_bytes.tolist() == [10, 0, 12, 100, 100, 200, 200]
    assert table.group.tolist() == [0, 0, 0, 1, 1, 2, 2]
    with raises_input("pp"):
        ops.lower([4, 2, 0], {"pp": 1})


def test_collective_with_a_duration_sends_no_packets() -> None:
    ops = Operations(4)
    made = ops.collective("all_reduce", [[0, 1], [2, 3]], 8192, duration_ps=7 * US, stream=2)
    ops.send(0, 1, 4096)
    load = ops.lower(range(4))
    begin, end = times(load, 4)
    assert load.tasks is not None
    assert (load.tasks.kind[: made.size] == COMPUTE).all()
    assert ((end - begin)[made] == 7 * US).all()
    assert len(load.flows) == 1


def test_reduction_takes_time_at_reduce_bps() -> None:
    def last(reduce_bps: int | None) -> int:
        ops = Operations(2)
        ops.collective("all_reduce", [0, 1], 8192, CollectiveOptions("ring", reduce_bps=reduce_bps))
        return int(times(ops.lower([0, 1]), 2)[1].max())

    # Each rank reduces one shard of 4096 bytes and forwards the other.
    assert last(8 * 10**9) - last(None) == 4096 * 1000


def error_of(note: Callable[[Operations], object], hosts: Sequence[int] = (0, 1, 2)) -> str:
    def all_of_it() -> None:
        ops = Operations(3)
        note(ops)
        ops.lower(hosts)

    with pytest.raises(InputError) as error:
        all_of_it()
    return str(error.value)


def test_errors_name_the_invalid_operation() -> None:
    assert mentions(error_of(lambda ops: ops.compute(3, 1)), "rank 3", "0..2")
    assert mentions(error_of(lambda o: o.compute(1, -1, kind="x")), "rank 1", "-1 ps")
    assert mentions(error_of(lambda ops: ops.send(0, 1, 0)), "rank 0", "0")
    message = error_of(lambda ops: ops.send(0, 1, 1, kind="tp", label="a"), [0, 0, 1])
    assert mentions(message, "rank 0", "0", "1", "host 0")
    message = error_of(lambda ops: ops.collective("barrier", [0, 1, 1], 0))
    assert mentions(message, "rank 0", "rank 1")
    message = error_of(lambda ops: ops.after(ops.compute(0, 1), ops.join(1)))
    assert mentions(message, "rank 1", "rank 0")
    assert mentions(error_of(lambda ops: ops.after(7, ops.join(1))), "7")
    assert "operations take integers, not float64" in error_of(lambda ops: ops.compute(0, 1.5))
    assert mentions(error_of(lambda ops: ops.compute(0, 1, label=["", ""])), "2", "1")
    assert "streams are 0..32767" in error_of(lambda ops: ops.compute(0, 1, stream=-2))
    assert mentions(
        error_of(lambda ops: ops.collective("all_reduce", [0, 1, 2], np.ones((2, 3), int))),
        "2",
        "all_reduce",
        "3",
    )


def test_conflicting_collective_orders_name_both_collectives() -> None:
    ops = Operations(2)
    ops.collective("all_reduce", [0, 1], 1000, stream=0, kind="dp", label="layer 3")
    second = ops.collective("all_gather", [0, 1], 1000, stream=0, kind="tp")
    ops.set_order(second[1], -1)
    with raises_input() as error:
        ops.lower([0, 1])
    for rank in (0, 1):
        assert mentions(str(error.value), "all_reduce", "3", rank)
        assert mentions(str(error.value), "all_gather", rank)


RACK = 2


def rails() -> Network:
    """Return two racks of two hosts, with one switch each, and two rails."""
    builder = NetworkBuilder()
    hosts = np.array(builder.add_hosts(2 * RACK)).reshape(2, RACK)
    for rack in range(2):
        builder.cables(hosts[rack], builder.add_switch(f"up{rack}"), 400 * 10**9, US)
    for rail in range(RACK):
        switch = builder.add_switch(f"out{rail}")
        builder.cables(hosts[:, rail], switch, 100 * 10**9, US, nic=1)
    return builder.build("rails")


@pytest.mark.parametrize("chunk_bytes", [None, 4096])
def test_relayed_operations_end_with_their_last_chunk(chunk_bytes: int | None) -> None:
    ops = Operations(4)
    sent, received = ops.send(0, 3, 5 * 4096, kind="pp")  # another rack, another rail
    behind, then = ops.compute(0, US), ops.compute(3, US)
    ops.after(sent, behind)
    ops.after(received, then)
    ops.collective("all_reduce", range(4), 4 * 4096, "direct", kind="dp")
    load = ops.lower(range(4))
    load.validate(4)
    made, segments = relayed(load, RelayRule(RACK, chunk_bytes=chunk_bytes))
    assert segments is not None
    flows, table, tasks = made.flows, operations_of(made), made.tasks
    assert table is not None
    assert tasks is not None
    assert flows.kind is not None
    old = load.flows.kind
    assert old is not None
    assert flows.kind.tolist() == old[segments.message].tolist()
    assert flows.kinds == load.flows.kinds
    states = run(build(rails(), flows, "datagram", DROP_TAIL, tasks=tasks, jit=False)).task_states()
    begin, end = states.start_ps[table.begin_task], states.end_ps[table.end_task]
    assert (end >= 0).all()
    assert begin[behind] == end[sent]
    assert begin[then] == end[received]
    # Five packets of 83.2 ns leave through the rack's 400 Gbps network and may wait for others.
    assert end[sent] >= 5 * 83_200
    assert end[received] > end[sent]


def test_example_of_the_guide_runs() -> None:
    guide = Path(netsim.traffic.__path__[0]) / "README.md"
    section = guide.read_text("utf-8").partition("\n## Ranks\n")[2].partition("\n## ")[0]
    code = section.partition("```python\n")[2].partition("```")[0]
    text = f"def example(n_ranks):\n{indent(code, '    ')}\n"
    names = {"np": np, "Operations": Operations}
    exec(compile(text, str(guide), "exec"), names)
    load = names["example"](16)
    load.validate(16)
    assert load.flows.kinds[load.flows.kind[-1]] == "pp"
    assert len(operations_of(load)) == 16 + 16 + 2
