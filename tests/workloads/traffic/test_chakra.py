"""Chakra traces: reading; dependencies, and closed forms of the common microbenchmarks."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_runs import US
from foreign_chakra import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    COLLECTIVE,
    COMP,
    FIXED,
    MEMBERS,
    RECV,
    REDUCE_SCATTER,
    SEND,
    Node,
    trace,
    write,
)
from foreign_goal import CALC, Op, Rank, as_binary, as_text
from foreign_goal import RECV as GOAL_RECV
from foreign_goal import SEND as GOAL_SEND
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raises_input import mentions, raises_input
from task_times import simulated
from traffic_cases import GBPS, made

from netsim.errors import InputError
from netsim.model.fabric import PacketFormat
from netsim.model.workload import Workload
from netsim.workloads.collectives import closed_form_ps
from netsim.workloads.collectives.steps import CollectiveOptions, Wire
from netsim.workloads.traffic._chakra_trace import MISSING, ChakraTrace, read_trace
from netsim.workloads.traffic._matching import ANY, PostedMessages, match

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


SAME_FILE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
RANK_0 = bytes.fromhex(
    "070a05312e302e301712016318043805520e0a0969735f6370755f6f70d8010046080112017318052a01"
    "00520e0a0969735f6370755f6f70d80100520e0a09636f6d6d5f73697a65488020520c0a08636f6d6d5f"
    "6473743801520c0a08636f6d6d5f7461673807"
)
RANK_1 = bytes.fromhex(
    "070a05312e302e30411201721806520e0a0969735f6370755f6f70d80100520e0a09636f6d6d5f73697a"
    "65488020520c0a08636f6d6d5f7372633800520c0a08636f6d6d5f7461673807"
)


def read(directory: Path, content: bytes) -> ChakraTrace:
    path = directory / "t.0.et"
    path.write_bytes(content)
    return read_trace(path)


def test_recorded_traces_are_written_and_read(tmp_path: Path) -> None:
    on_gpu = {"is_cpu_op": False}
    sends = {**on_gpu, "comm_size": 4096, "comm_dst": 1, "comm_tag": 7}
    takes = {**on_gpu, "comm_size": 4096, "comm_src": 0, "comm_tag": 7}
    compute = Node(0, COMP, on_gpu, duration_us=5, name="c")
    send = Node(1, SEND, sends, data_deps=(0,), name="s")
    assert trace([compute, send]).hex() == RANK_0.hex()
    assert trace([Node(0, RECV, takes, name="r")]).hex() == RANK_1.hex()
    for content in (RANK_0, gzip.compress(RANK_0)):
        one = read(tmp_path, content)
        assert one.version == "1.0.0"
        assert one.id.tolist() == [0, 1]
        assert one.kind.tolist() == [COMP, SEND]
        assert one.duration_us.tolist() == [5, 0]
        assert (one.first.tolist(), one.then.tolist()) == ([0], [1])
        numbers = one.attributes.numbers
        assert numbers["comm_size"].tolist() == [MISSING, 4096]
        assert numbers["comm_dst"].tolist() == [MISSING, 1]
        assert numbers["comm_tag"].tolist() == [MISSING, 7]
        assert numbers["is_cpu_op"].tolist() == [0, 0]
        assert mentions(one.name(1), "node 1", "COMM_SEND", "s")
    other = read(tmp_path, RANK_1)
    assert other.kind.tolist() == [RECV]
    assert other.attributes.numbers["comm_src"].tolist() == [0]


def test_attributes_of_all_integer_types_are_read(tmp_path: Path) -> None:
    for member in [*MEMBERS, *FIXED]:
        for value in (0, 1, 300, 2**31 - 2**7):
            node = Node(0, RECV, {"comm_size": (member, value)})
            assert read(tmp_path, trace([node])).attributes.numbers["comm_size"].tolist() == [value]
        if not member.startswith(("u", "fixed")):
            node = Node(0, RECV, {"comm_tag": (member, -5)})
            assert read(tmp_path, trace([node])).attributes.numbers["comm_tag"].tolist() == [-5]


@st.composite
def graphs(draw) -> list[Node]:
    ids = draw(st.lists(st.integers(0, 2**40), unique=True, max_size=8))
    nodes = []
    for k, one in enumerate(ids):
        deps = draw(st.lists(st.sampled_from(ids[:k]), unique=True)) if k else []
        cut = draw(st.integers(0, len(deps)))
        group = draw(st.sampled_from([None, "", "7", "default_pg", 12, "größe"]))
        more = {} if group is None else {"pg_name": group, "seq_id": 3, "scope": "forward"}
        nodes.append(
            Node(
                one,
                draw(st.sampled_from([COMP, RECV])),
                {"num_ops": draw(st.integers(0, 2**60)), **more},
                tuple(deps[:cut]),
                tuple(deps[cut:]),
                draw(st.integers(0, 10**9)),
                draw(st.text(max_size=5)),
                packed=draw(st.booleans()),
            )
        )
    return draw(st.permutations(nodes))


@settings(SAME_FILE, max_examples=50)
@given(nodes=graphs())
def test_random_trace_survives_a_round_trip(tmp_path: Path, nodes: list[Node]) -> None:
    one = read(tmp_path, trace(nodes))
    ids = [node.id for node in nodes]
    assert one.id.tolist() == ids
    assert one.kind.tolist() == [node.kind for node in nodes]
    assert one.duration_us.tolist() == [node.duration_us for node in nodes]
    assert one.attributes.numbers["num_ops"].tolist() == [n.attributes["num_ops"] for n in nodes]
    names = [one.attributes.groups[k] if k >= 0 else None for k in one.attributes.group]
    given = [node.attributes.get("pg_name") for node in nodes]
    assert names == [None if name is None else str(name) for name in given]
    pairs = {(ids[first], ids[then]) for first, then in zip(one.first, one.then, strict=True)}
    assert pairs == {(d, n.id) for n in nodes for d in (*n.data_deps, *n.ctrl_deps)}
    for k, node in enumerate(nodes):
        assert (repr(node.name)[1:-1] in one.name(k)) or not node.name.isalnum()


def test_comm_group_and_pytorch_group_tables_are_read(tmp_path: Path) -> None:
    table = '[\'[{"pg_name": "0", "ranks": [0, 1]}]\']'
    nodes = [Node(3, 1, inputs=table), Node(4, RECV, {"comm_group": 5})]
    one = read(tmp_path, trace(nodes))
    assert one.attributes.group.tolist() == [-1, 0]
    assert one.attributes.groups == ("5",)
    assert one.tables == (table,)


def test_gzip_that_expands_without_end_is_rejected(tmp_path: Path) -> None:
    with raises_input("bytes of gzip expand to more than"):
        read(tmp_path, gzip.compress(bytes(10**8), 1))


Row = tuple[int, int, int]


def ends(rows: list[Row]) -> PostedMessages:
    columns = np.array(rows, np.int64).reshape(-1, 3).T
    return PostedMessages(columns[0], columns[1], columns[2])


@st.composite
def exchanges(draw) -> tuple[list[Row], list[Row]]:
    """Draw sends (rank, peer, tag) and their receives in any order, some of them wildcards.

    Tags are also negative or large: only ANY is special. A matching always exists: a rank that
    receives any tag from a source has no other receives from it, and a rank that receives from any
    source receives only with wildcards.
    """
    row = st.tuples(st.integers(0, 2), st.integers(0, 2), st.sampled_from([-2, 0, 7, 2**40]))
    sends = draw(st.lists(row, max_size=12))
    loose = {rank: draw(st.sampled_from(["none", "tag", "both"])) for rank in range(3)}
    receives = []
    for src, dst, tag in draw(st.permutations(sends)):
        how = loose[dst]
        any_tag = how == "both" or (how == "tag" and src == 0)
        receives.append((dst, ANY if how == "both" else src, ANY if any_tag else tag))
    return sends, receives


@given(exchanges())
def test_every_receive_matches_a_message_in_fifo_order(rows: tuple[list[Row], ...]) -> None:
    sends, receives = rows
    taken = match(ends(sends), ends(receives)).tolist()
    assert sorted(taken) == list(range(len(sends)))
    for send, (dst, src, tag) in zip(taken, receives, strict=True):
        assert sends[send][1] == dst
        assert src in (ANY, sends[send][0])
        assert tag in (ANY, sends[send][2])
    for one in set(sends):
        of_one = [send for send in taken if sends[send] == one]
        assert of_one == sorted(of_one)


def test_wildcard_receive_leaves_messages_for_specific_receives() -> None:
    sends = ends([(1, 0, 5), (2, 0, 5), (1, 0, 6)])
    receives = ends([(0, ANY, ANY), (0, 1, 5), (0, ANY, 6)])
    assert match(sends, receives).tolist() == [1, 0, 2]


def test_unmatched_messages_are_counted_in_the_error() -> None:
    for sends, receives, message in [
        ([(0, 1, 7)], [], "from 0 to 1 with tag 7: 1 sent, 0 received"),
        ([], [(1, 0, 7)], "from 0 to 1 with tag 7: 0 sent, 1 received"),
        (
            [(0, 1, 7), (0, 1, 7)],
            [(1, 0, 8), (1, 0, 7)],
            "from 0 to 1 with tag 7: 2 sent, 1 received; from 0 to 1 with tag 8: 0 sent, 1 rec",
        ),
        ([(0, 1, 7)], [(1, 0, 7), (1, ANY, 7)], ": 1 wildcard receives take none"),
        ([(0, 1, 7), (0, 1, 8)], [(1, 0, ANY)], "tag 8: 1 sent, 0 received"),
        ([(0, 1, tag) for tag in range(9)], [], "; 5 more such"),
    ]:
        with pytest.raises(InputError) as caught:
            match(ends(sends), ends(receives))
        assert message in str(caught.value)


SAME_FOLDER = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=80
)
RANKS = [
    Rank([Op(CALC, 5000), Op(GOAL_SEND, 4096, 1, 7)], [(0, 1, False)]),
    Rank([Op(GOAL_RECV, 4096, 0, 7), Op(CALC, 2000)], [(0, 1, False)]),
]
SENDS = {"is_cpu_op": False, "comm_size": 4096, "comm_dst": 1, "comm_tag": 7}
TAKES = {"is_cpu_op": False, "comm_size": 4096, "comm_src": 0, "comm_tag": 7}
SIMAI = (
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 1 pp: 1 vpp: 1 ga: 1 "
    "all_gpus: 4 checkpoints: 0 checkpoint_initiates: 0 pp_comm: 0\n1\n"
    "layer0\t-1\t1000\tALLREDUCE\t4194304\t1000\tNONE\t0\t1000\tALLREDUCE\t8388608\t100"
)
AICB = (
    "[rank0 ~ rank3]\ncomm_type,comm_group,comm_group_size,msg_size,stage,additional\n"
    "CommType.all_reduce,CommGroup.tp_group,2,8192,step,\n"
)
MSCCL = '<algo name="mine" nchunksperloop="1" ngpus="2" coll="broadcast">' + "".join(
    f'<gpu id="{gpu}"><tb id="0" send="{to}" recv="{of}" chan="0"><step s="0" type="{kind}" '
    'cnt="1" depid="-1" deps="-1"/></tb></gpu>'
    for gpu, to, of, kind in ((0, 1, -1, "s"), (1, -1, 0, "r"))
)
FILES = {
    "goal": ("s.goal", as_text(RANKS).encode()),
    "goal of txt2bin": ("s.goal", as_binary(RANKS)),
    "chakra": ("t.0.et", trace([Node(0, COMP, {}, duration_us=5), Node(1, SEND, SENDS)])),
    "simai": ("w.txt", SIMAI.encode()),
    "aicb": ("w.csv", AICB.encode()),
    "msccl": ("a.xml", (MSCCL + "</algo>").encode()),
    "ns3_flows": ("flow.txt", b"2\n0 2 3 100 1000000 2.0\n1 2 3 100 1000000 2.0\n"),
    "opera_flows": ("f.htsim", b"0 3 1000000 0\n3 1 24000 1500\n"),
}
"""Traffic pattern -> name and content of an input file."""


def is_rejected(folder: Path, pattern: str, content: bytes) -> bool:
    """Return whether the file is rejected; the error is one line naming the file or a parameter."""
    kind, (name, _) = pattern.split(maxsplit=1)[0], FILES[pattern]
    (folder / "t.1.et").write_bytes(trace([Node(0, RECV, TAKES)]))
    (folder / name).write_bytes(content)
    try:
        made(kind, 4, directory=folder, file=name.removesuffix(".0.et"))
    except InputError as error:
        text = str(error)
        where = (str(folder / name.removesuffix(".0.et")), "traffic", "the traffic")
        assert text.startswith(where), (pattern, content, text)
        assert "\n" not in text
        return True
    return False


def test_intact_files_are_read(tmp_path: Path) -> None:
    assert not [pattern for pattern in FILES if is_rejected(tmp_path, pattern, FILES[pattern][1])]


def test_truncated_files_are_read_or_rejected_with_one_error(tmp_path: Path) -> None:
    whole = {}
    for pattern, (_, content) in FILES.items():
        cuts = range(0, len(content), max(1, len(content) // 20))
        whole[pattern] = [end for end in cuts if not is_rejected(tmp_path, pattern, content[:end])]
    for pattern in ("goal", "goal of txt2bin", "msccl"):
        assert not whole[pattern]


@SAME_FOLDER
@given(st.sampled_from(list(FILES)), st.floats(0, 1, exclude_max=True), st.binary(max_size=2))
def test_altered_files_are_read_or_rejected_with_one_error(
    tmp_path: Path, pattern: str, place: float, more: bytes
) -> None:
    content = FILES[pattern][1]
    at = int(place * len(content))
    is_rejected(tmp_path, pattern, content[:at] + more + content[at + 1 :])
