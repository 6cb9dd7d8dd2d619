"""Files of other tools, truncated or altered, are read or rejected with a one-line error."""

from __future__ import annotations

from pathlib import Path

from foreign_chakra import COMP, RECV, SEND, Node, trace
from foreign_goal import CALC, Op, Rank, as_binary, as_text
from foreign_goal import RECV as GOAL_RECV
from foreign_goal import SEND as GOAL_SEND
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from traffic_cases import made

from netsim.errors import InputError

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
