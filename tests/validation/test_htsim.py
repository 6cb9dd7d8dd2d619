"""htsim's files, options and output; other programs as children."""

import sys
import time
from pathlib import Path

import numpy as np
import pytest
from raises_input import raises_input
from traffic_cases import made

from netsim.experiment import Experiment, Point
from netsim.experiment.scenario import prepare
from netsim.model.trees import Tree, format_topo, read_topo
from netsim.validation import against
from netsim.validation.htsim import PEERS, PeerOutput, peer_input

TEXT = """
name = "small"
seed = 1
[topology]
kind = "fat_tree"
hosts_per_leaf = 2
leaves = 4
[transport]
kind = "{transport}:800g"
[traffic]
kind = "permutation"
size = "100KB"
"""


def point(directory: Path, transport: str, *changes: str) -> Point:
    path = directory / "small.toml"
    path.write_text(TEXT.format(transport=transport))
    return Experiment.load(path, [*changes]).points()[0]


OPTIONS = {
    # 200 packets of 4160 bytes are 204 htsim packets of 4096; the window is 1.5 * 816,896 bytes.
    "htsim_ndp": "-strat perm -mtu 4096 -q 204 -cwnd 295",
    "htsim_roce": "-strat ecmp_host -paths 1 -mtu 4096 -q 1000000 -pfc_thresholds 97 122",
    "htsim_uec": "-strat ecmp_host -sender_cc_only -sender_cc_algo nscc -load_balancing_algo reps"
    " -paths 64 -mtu 4160 -q 197 -ecn 40 158",
}


def test_experiment_becomes_htsim_files_and_options(tmp_path: Path) -> None:
    for program in PEERS:
        one = point(tmp_path, PEERS[program].transport)
        given = peer_input(PEERS[program], one)
        words = given.write(tmp_path, 1000)
        assert " ".join(words) == (
            "-topo peer.topo -tm peer.cm -nodes 8 -linkspeed 800000 -seed 1 "
            f"{OPTIONS[program]} -end 1000 -o peer.log"
        )
        tree = read_topo(tmp_path / "peer.topo")
        assert (tree.children, tree.parents, tree.rates_bps[0]) == ((2, 4), (2,), 800 * 10**9)
        flows = made("htsim_cm", 8, directory=tmp_path, file="peer.cm").flows
        own = prepare(one).flows
        for name in ("src", "dst", "size_bytes", "start_ps"):
            np.testing.assert_array_equal(getattr(flows, name), getattr(own, name))
        assert given.flows.total() == len(own)


@pytest.mark.parametrize(
    "tree",
    [
        Tree((4, 6), (2,), (1,), (10**11,) * 2, (10**6, 2 * 10**6), (0, 5000)),
        Tree((8, 4, 3), (2, 4), (2, 1), (8 * 10**11,) * 3, (10**6,) * 3, (0, 0, 1000)),
    ],
)
def test_topo_file_round_trips(tmp_path: Path, tree: Tree) -> None:
    path = tmp_path / "tree.topo"
    path.write_text(format_topo(tree))
    assert read_topo(path) == tree


FLOWS = {(0, 1): 2, (1, 0): 1}
PRINTED = [
    b"Starting simulation",
    b"Flow ndp_0_1 flow_id 1 finished at 1.5 total bytes 4096",
    b".Flow Roce_0_1 1871 finished at 2 total bytes 4096",
    b"Flow Uec_1_0 flowId 3 uecSrc finished at 1e+01 total packets 1 RTS 0 total bytes 4096",
]


def read(lines: list[bytes], end_us: int = 1000) -> PeerOutput:
    output = PeerOutput(FLOWS, end_us)
    for number, line in enumerate(lines, 1):
        output.read(float(number), line)
    output.check(Path("htsim_ndp"))
    return output


def test_htsim_output_is_parsed() -> None:
    output = read([b"pathcount 8", *PRINTED, b"Flow 3 is idle", b"\xff", b"Done"])
    assert output.times_us == [1.5, 2.0, 10.0]
    assert (output.began_s, output.ended_s) == (2.0, 5.0)


def test_invalid_htsim_output_is_rejected() -> None:
    for lines, value in [
        ([], "no completion times"),
        (PRINTED[1:], "no completion times"),
        (PRINTED[:1], "no completion times"),
        (PRINTED[:3], "1 of 3"),
        ([*PRINTED, PRINTED[3]], "Uec_1_0"),
        ([*PRINTED[:3], PRINTED[3].replace(b"_0", b"_7")], "Uec_1_7"),
        ([*PRINTED[:3], PRINTED[3].replace(b"1e+01", b"1e+99")], "1e+99"),
        ([*PRINTED[:3], PRINTED[3].replace(b"1e+01", b"0")], "at 0"),
        ([*PRINTED[:3], PRINTED[3].replace(b"1e+01", b"1.2.3")], "1.2.3"),
    ]:
        with raises_input(value):
            read(lines)


def run(directory: Path, code: str, limit_s: float = 60.0, **given: object) -> against.Usage:
    argv = [sys.executable, "-I", "-S", "-c", code]
    return against.run(argv, directory, [], limit_s, **given)  # type: ignore[arg-type]


def test_failing_programs_are_reported(tmp_path: Path) -> None:
    for code, value in [
        ("print('no such file'); raise SystemExit(3)", "no such file"),
        ("import os; os.abort()", "signal 6"),
        ("import time; print('still here', flush=True); time.sleep(60)", "0.5 s"),
        ("import time\nwhile time.sleep(0.1) is None: print('here', flush=True)", "0.5 s"),
    ]:
        with raises_input(value, file=Path(sys.executable).name):
            run(tmp_path, code, 0.5 if "sleep" in code else 60.0)


def test_ctrl_c_kills_the_child(tmp_path: Path) -> None:
    def read(_: float, __: bytes) -> None:
        raise KeyboardInterrupt

    code = """
import time
print("here", flush=True)
while True:
    with open("beats", "a") as file:
        file.write("x")
    time.sleep(0.01)
"""
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, code, read=read)
    beats = tmp_path / "beats"
    size = beats.stat().st_size if beats.exists() else 0
    time.sleep(0.2)
    assert (beats.stat().st_size if beats.exists() else 0) == size
