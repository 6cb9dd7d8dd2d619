"""Files of other tools are read whole or rejected."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from foreign_chakra import COLLECTIVE, COMP, FIXED, MEMBERS, RECV, SEND, Node, trace, varint
from foreign_goal import CALC, Op, Rank, as_binary, as_text
from foreign_goal import RECV as GOAL_RECV
from foreign_goal import SEND as GOAL_SEND
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raises_input import mentions
from traffic_cases import made

from netsim.errors import InputError
from netsim.workloads.importers.chakra import MISSING, ChakraTrace, read_trace
from netsim.workloads.importers.matching import ANY, PostedMessages, match

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


def outcome(directory: Path, content: bytes) -> str:
    """Return the single error for a trace, "" if it has several, "read" if it has none."""
    try:
        read(directory, content)
    except InputError as error:
        return "" if len(error.errors) > 1 else str(error)
    return "read"


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


def with_length(*parts: bytes) -> bytes:
    return b"".join(varint(len(part)) + part for part in parts)


def test_invalid_traces_are_rejected(tmp_path: Path) -> None:
    for content, message in [
        (b"", "t.0.et: is empty"),
        (b'{"workload_graph": []}', "is JSON, which is not supported"),
        (b"\x1f\x8b\x08broken", "is a damaged gzip file"),
        (gzip.compress(RANK_0, mtime=0)[:-9], "is a damaged gzip file"),
        (gzip.compress(bytes(10**8), 1), "bytes of gzip expand to more than"),
        (trace([Node(0, COMP)], "0.0.1"), "is of the schema 0.0.1, which numbers kinds of nodes"),
        (
            trace([Node(0, 0)]),
            "node 0 (INVALID): has an unknown kind (of the schema 1.0.0; 1.0.0 is read)",
        ),
        (
            trace([Node(0, 8)]),
            "node 0 (kind 8): has an unknown kind (of the schema 1.0.0; 1.0.0 is read)",
        ),
        (trace([Node(0, COMP), Node(0, COMP)]), "node 0 (COMP): has the id of another node"),
        (
            trace([Node(1, COMP, data_deps=(2,), ctrl_deps=(3, 4), name="x")]),
            'node 1 (COMP "x"): waits for node 3, which is not in th',
        ),
        (trace([Node(1, COMP, data_deps=(1,))]), "node 1 (COMP): waits for itself"),
        (trace([Node(1, COLLECTIVE, {"comm_size": 1})]), "node 1 (COMM_COLL): has no comm_type"),
        (trace([Node(1, COLLECTIVE, {"comm_type": 0})]), "node 1 (COMM_COLL): has no comm_size"),
        (
            trace([Node(1, COLLECTIVE, {"comm_type": 10, "comm_size": 1})]),
            "node 1 (COMM_COLL): has an unknown comm_type (of the sc",
        ),
        (
            trace([Node(1, SEND, {"comm_size": -1})]),
            "node 1 (COMM_SEND): comm_size must be 0 B to 1 PiB (of",
        ),
        (trace([Node(1, SEND, {"comm_size": "8"})]), "message 1: comm_size is not an integer"),
        (trace([Node(1, COMP, duration_us=2**40)]), "node 1 (COMP): lasts 20 h or more"),
        (trace([Node(1, COMP)]) + b"\x00" + b"\x00", "message 2: is empty but not the last one"),
        (with_length(b"", b"\x08"), "message 0: is empty but not the last one"),
        (with_length(b"\x0a\x01x", b"\x08"), "message 1: ends within a number"),
        (with_length(b"\x0a\x01x", b"\x12\x05ab"), "message 1: ends within its field 2"),
        (with_length(b"\x0a\x01x", b"\x0b"), "message 1: has field 1 of wire type 3"),
        (with_length(b"\x0a\x01x", b"\x08" + b"\xff" * 10), "has a number above 64 bits"),
        (with_length(b"\x0a\x01x", b"\x52\x02\x0a\x05"), "message 1: an attribute ends within its"),
        (b"\xff" * 6, "message 0: its length is truncated or above 32 bits"),
        (b"\x05ab", "message 0: has 5 bytes, but 2 remain in the file"),
    ]:
        assert message in outcome(tmp_path, content)


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
