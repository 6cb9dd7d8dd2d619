"""Traffic from Chakra traces: dependencies, and closed forms of the common microbenchmarks."""

import json
from pathlib import Path
from typing import Any

import pytest
from engine_runs import US
from foreign_chakra import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    COLLECTIVE,
    COMP,
    RECV,
    REDUCE_SCATTER,
    SEND,
    Node,
    trace,
    write,
)
from raises_input import mentions, raises_input
from task_times import simulated
from traffic_cases import GBPS, made

from netsim.errors import InputError
from netsim.model.fabric import PacketFormat
from netsim.model.workload import Workload
from netsim.workloads.collectives import closed_form_ps
from netsim.workloads.collectives.steps import CollectiveOptions, Wire

PACKET_PS = 4160 * 80
ONE_PACKET = 2 * (PACKET_PS + 1 * US)

RINGS = dict.fromkeys(("all_reduce", "all_gather", "reduce_scatter"), "ring")
GPU = {"is_cpu_op": False}
HOST = {"is_cpu_op": True}


def chakra(directory: Path, ranks: list[list[Node]], n_hosts: int = 4, **given: Any) -> Workload:
    write(directory, "t", ranks)
    more = {"algorithm": RINGS, **given}
    return made("chakra", n_hosts, directory=directory, file="t", **more)


def collective(kind: int, size: int, **more: Any) -> dict[str, object]:
    return {**GPU, "comm_type": kind, "comm_size": size, **more}


def sends(dst: int, tag: int = 7, size: int = 4096) -> dict[str, object]:
    return {**GPU, "comm_size": size, "comm_dst": dst, "comm_tag": tag}


def takes(src: int, tag: int = 7, size: int = 4096) -> dict[str, object]:
    return {**GPU, "comm_size": size, "comm_src": src, "comm_tag": tag}


def test_send_waits_for_the_computation_it_depends_on(tmp_path: Path) -> None:
    """The trace computes for 5 us, then sends 4,096 B."""
    one = [Node(0, COMP, GPU, duration_us=5), Node(1, SEND, sends(1), data_deps=(0,))]
    load = chakra(tmp_path, [one, [Node(0, RECV, takes(0))]])
    assert load.notes == ()
    spans = simulated(load, 4).by_name()
    assert spans["compute", 0, ""] == (0, 5 * US)
    assert spans["receive", 1, ""][1] == 5 * US + ONE_PACKET


BENCHMARKS = {
    "all_reduce": ALL_REDUCE,
    "reduce_scatter": REDUCE_SCATTER,
    "all_gather": ALL_GATHER,
    "all_to_all": ALL_TO_ALL,
}
MIB = 1 << 20
LARGE = PacketFormat(payload_bytes=1 << 15)
LARGE_PS = ((1 << 15) + 64) * 80


def benchmark(directory: Path, what: str, n: int) -> Workload:
    """ASTRA-sim's microbenchmark WHAT/Nnpus_1MB, as its generator writes it.

    Each rank has one node with a comm_size of 1 MiB, whatever the collective means by that size.
    Node ids continue from rank to rank.
    """
    for rank in range(n):
        attributes = collective(BENCHMARKS[what], MIB)
        node = Node(rank, COLLECTIVE, attributes, name=f"{what}_{n}npus_1MB")
        (directory / f"{what}.{rank}.et").write_bytes(trace([node], "0.0.4"))
    return made("chakra", n, directory=directory, file=what, algorithm=RINGS)


@pytest.mark.parametrize("what", BENCHMARKS)
def test_microbenchmark_duration_equals_its_closed_form(tmp_path: Path, what: str) -> None:
    """1 MiB is the reduced buffer, the gathered shard, or the bytes that each rank sends to all."""
    n = 4
    load = benchmark(tmp_path, what, n)
    spans = simulated(load, n, packets=LARGE).by_name()
    took = max(end for _, end in spans.values())
    whole = MIB * n if what == "all_gather" else MIB
    wire = Wire(100 * GBPS, 2 * US + LARGE_PS, LARGE.payload_bytes, LARGE.header_bytes)
    assert took == closed_form_ps(
        what, n, whole, wire, CollectiveOptions(RINGS.get(what, "direct"))
    )
    message = whole // n // LARGE.payload_bytes * LARGE_PS
    if what == "all_to_all":  # messages leave one after another
        assert took == (n - 1) * message + wire.delay_ps
    else:
        assert took == (n - 1) * (2 if what == "all_reduce" else 1) * (message + wire.delay_ps)


def test_rank_runs_one_cpu_and_one_gpu_computation_at_a_time(tmp_path: Path) -> None:
    nodes = [
        Node(0, COMP, HOST, duration_us=2, name="h0"),
        Node(1, COMP, HOST, duration_us=2, name="h1"),
        Node(2, COMP, GPU, duration_us=3, name="g0"),
        Node(3, COMP, GPU, duration_us=3, name="g1"),
    ]
    load = [nodes, [Node(0, RECV, takes(2))], [Node(5, SEND, sends(1))]]
    spans = simulated(chakra(tmp_path, load), 4).by_name()
    assert spans["compute", 0, "h1"] == (2 * US, 4 * US)
    assert spans["compute", 0, "g1"] == (3 * US, 6 * US)
    spans = simulated(chakra(tmp_path, load, concurrency="all"), 4).by_name()
    assert spans["compute", 0, "h1"] == (0, 2 * US)
    assert spans["compute", 0, "g1"] == (0, 3 * US)


def test_stream_runs_ready_nodes_before_blocked_nodes_with_lower_ids(tmp_path: Path) -> None:
    """Node 0 has the lowest id, but waits for the answer to the message that node 2 sends."""
    one = [
        Node(0, COMP, GPU, (9,), duration_us=4, name="late"),
        Node(1, COMP, GPU, duration_us=3, name="early"),
        Node(2, SEND, sends(1), (1,)),
        Node(9, RECV, takes(1, 8)),
    ]
    other = [Node(0, RECV, takes(0)), Node(1, SEND, sends(0, 8), (0,))]
    spans = simulated(chakra(tmp_path, [one, other]), 4).by_name()
    assert spans["compute", 0, "early"] == (0, 3 * US)
    assert spans["compute", 0, "late"][0] == 3 * US + 2 * ONE_PACKET


def test_process_groups_are_read_from_metadata_nodes(tmp_path: Path) -> None:
    table = json.dumps([{"pg_name": "default_pg", "ranks": []}, {"pg_name": "7", "ranks": [1, 0]}])
    node = Node(1, COLLECTIVE, collective(ALL_GATHER, 4096, pg_name="7"))
    every = Node(2, COLLECTIVE, collective(ALL_GATHER, 4096, pg_name="default_pg"), (1,))
    meta = Node(0, 1, inputs=repr([table]))
    # Rank 2 starts 1 us later, so its first packet does not tie with one of the pair's.
    late = Node(1, COMP, GPU, duration_us=1)
    load = chakra(tmp_path, [[meta, node, every], [meta, node, every], [meta, late, every]])
    assert len(load.flows) == 2 + 3 * 2
    spans = simulated(load, 4).by_name()
    assert spans["all_gather", 2, ""][1] == 3 * ONE_PACKET


def test_compute_duration_follows_the_roofline_model(tmp_path: Path) -> None:
    nodes = [
        Node(0, COMP, {**GPU, "num_ops": 6 * 10**6, "tensor_size": 1}, duration_us=1, name="dense"),
        Node(1, COMP, {**GPU, "num_ops": 1, "tensor_size": 10**6}, duration_us=1, name="thin"),
        Node(2, COMP, GPU, duration_us=1, name="other"),
        Node(3, SEND, sends(1)),
    ]
    load = chakra(tmp_path, [nodes, [Node(0, RECV, takes(0))]], tflops=2, memory="8Tbps")
    lasts = {
        label: end - begin for (_, _, label), (begin, end) in simulated(load, 4).by_name().items()
    }
    assert (lasts["dense"], lasts["thin"], lasts["other"]) == (3 * US, 1 * US, 1 * US)
    assert mentions(load.notes, "t", "1", "5", "num_ops")


def test_deviations_from_the_traces_are_reported(tmp_path: Path) -> None:
    nodes = [
        Node(0, 2, {"tensor_size": 5}),
        Node(1, COMP, GPU),
        Node(2, SEND, sends(0, 1, 0)),
        Node(3, RECV, takes(0, 1, 0)),
        Node(4, COLLECTIVE, collective(5, 4096)),
    ]
    load = chakra(tmp_path, [nodes, [nodes[-1]]])
    assert mentions(load.notes, "t", "1", "6", "GPU", "traffic.tflops", "send 0", "2")


PAIR = collective(ALL_REDUCE, 8192)
SHORT = collective(ALL_REDUCE, 4096)


def test_deadlocks_and_missing_references_are_rejected(tmp_path: Path) -> None:
    for ranks, message in [
        (
            [
                [Node(0, COLLECTIVE, PAIR), Node(1, COLLECTIVE, SHORT, name="x")],
                [Node(0, COLLECTIVE, PAIR), Node(1, COLLECTIVE, PAIR)],
            ],
            'process group "": collective 1 is ALL_REDUCE of 4096 B (node 1 (COMM_COLL "x") of '
            "rank 0) at rank 0, ALL_REDUCE of 8192 B (node 1 (COMM_COLL) of rank 1) at rank 1",
        ),
        (
            [[Node(0, COLLECTIVE, PAIR)], [Node(0, COMP)]],
            "collective 0 is ALL_REDUCE of 8192 B (node 0 (COMM_COLL) of rank 0) at rank 0, "
            "none at rank 1",
        ),
        (
            [[Node(0, COLLECTIVE, {**PAIR, "pg_name": "9"})], [Node(0, COMP)]],
            '1 nodes name unknown process groups ("9"): node 0 (COMM_COLL) of rank 0 '
            "(no groups are known; see groups)",
        ),
        (
            [[Node(k, SEND, {"comm_size": 4096}) for k in range(5)], [Node(0, RECV, takes(0))]],
            "5 nodes send and have no comm_dst: node 0 (COMM_SEND) of rank 0, node 1 (COMM_SEND) "
            "of rank 0, node 2 (COMM_SEND) of rank 0 and 2 others (traces converted from PyTorch",
        ),
        (
            [[Node(0, SEND, sends(1))], [Node(0, COMP)]],
            "from 0 to 1 with tag 7: 1 sent, 0 received",
        ),
        (
            [[Node(0, SEND, sends(1))], [Node(0, RECV, takes(0, size=5))]],
            "1 nodes receive sizes that differ from their sends: node 0",
        ),
        (
            [[Node(0, SEND, sends(2))], [Node(0, COMP)]],
            "1 nodes have a comm_dst that is not a rank: node 0 (COMM_SEND) of rank 0",
        ),
        (
            [[Node(0, SEND, {**sends(1), "comm_src": 1})], [Node(0, COMP)]],
            "1 nodes have a comm_src that is not their own rank",
        ),
        (
            [
                [Node(0, RECV, takes(1), (1,)), Node(1, COMP), Node(2, SEND, sends(1), (0,))],
                [Node(0, RECV, takes(0)), Node(1, SEND, sends(0), (0,))],
            ],
            "receive p2p of rank",
        ),
        ([[Node(0, COMP)]] * 5, "5 ranks exceed the network's 4 hosts"),
    ]:
        with pytest.raises(InputError) as caught:
            chakra(tmp_path, ranks)
        assert message in str(caught.value)
        assert len(caught.value.errors) == 1


def test_invalid_group_files_are_rejected(tmp_path: Path) -> None:
    ranks = [[Node(0, COLLECTIVE, {**PAIR, "pg_name": "1"})], [Node(0, COMP)]]
    for text, message in (
        ("{", "g.json:1: is not JSON"),
        ("[]", "g.json: is not an object"),
        ('{"1": 5}', 'g.json: process group "1": 5 is not a list of ranks'),
        ('{"1": [true]}', 'process group "1": [True] is not a list of ranks'),
        ('{"1": [0, 2]}', 'process group "1": unknown rank 2'),
        ('{"1": [0, 0]}', 'process group "1": duplicate rank'),
        ('{"1": [1]}', "1 nodes are collectives of process groups without their"),
        ('{"1": [0]}', "the traffic has no flows"),
    ):
        (tmp_path / "g.json").write_text(text)
        with pytest.raises(InputError) as caught:
            chakra(tmp_path, ranks, groups="g.json")
        assert message in str(caught.value)
    with raises_input("traffic.tflops", key="traffic.memory"):
        chakra(tmp_path, ranks, memory="1Tbps")


def test_collectives_of_a_subset_of_dimensions_are_rejected(tmp_path: Path) -> None:
    content = trace([Node(0, COLLECTIVE, PAIR)])
    for bits, refused in ((b"\x01\x01", False), (b"\x01\x00", True)):
        value = b"\x0a\x0cinvolved_dim\xe2\x01\x04\x0a\x02" + bits
        node = (
            b"\x18\x07" + content.partition(b"\x18\x07")[2] + b"\x52" + bytes([len(value)]) + value
        )
        for rank in range(2):
            head = content[: content.index(b"1.0.0") + 5]
            (tmp_path / f"t.{rank}.et").write_bytes(head + bytes([len(node)]) + node)
        if refused:
            with raises_input("2"):
                made("chakra", 2, directory=tmp_path, file="t")
        else:
            load = made("chakra", 2, directory=tmp_path, file="t.0.et", algorithm=RINGS)
            assert len(load.flows) == 4
