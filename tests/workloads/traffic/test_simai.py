"""Workloads and flow lists of SimAI, AICB, MSCCL, ns-3 and Opera as traffic; SimAI's files."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from engine_runs import US
from pipeline_time import work_through
from raises_input import mentions, raises_input
from task_times import simulated
from traffic_cases import GBPS, made, make, pairs

from netsim.model.workload import Workload
from netsim.workloads.collectives import closed_form_ps
from netsim.workloads.collectives.steps import CollectiveOptions, Wire
from netsim.workloads.job.schedules import make_schedule
from netsim.workloads.traffic.simai import Phase, SimaiRow, SimaiWorkload, read_simai

PACKET_PS = 4160 * 80
ONE_PACKET = 2 * (PACKET_PS + 1 * US)
WIRE = Wire(100 * GBPS, 2 * US + PACKET_PS, 4096, 64)
RINGS = dict.fromkeys(("all_reduce", "all_gather", "reduce_scatter"), "ring")
POLICY = "HYBRID_TRANSFORMER_FWD_IN_BCKWD"


def text(rows: list[str], **header: int) -> str:
    keys = {"model_parallel_NPU_group": 2, "ep": 1, "pp": 1, "vpp": 1, "ga": 1, "all_gpus": 4}
    words = " ".join(f"{key}: {value}" for key, value in {**keys, **header}.items())
    return "\n".join([f"{POLICY} {words}", str(len(rows)), *rows])


def simai(directory: Path, content: str, n_hosts: int = 4, **given: Any) -> Workload:
    (directory / "w.txt").write_text(content)
    more = {"algorithm": RINGS, **given}
    return made("simai", n_hosts, directory=directory, file="w.txt", **more)


def ring_ps(what: str, n: int, size: int) -> int:
    return closed_form_ps(what, n, size, WIRE, CollectiveOptions("ring"))


def test_row_runs_forward_then_backward(tmp_path: Path) -> None:
    """Each tensor-parallel pair of neighbors reduces, then each rank reduces with its replica."""
    row = "layer0 -1 1000 ALLREDUCE 8192 2000 ALLGATHER 16384 3000 ALLREDUCE 32768 100"
    load = simai(tmp_path, text([row]))
    spans = simulated(load, 4).by_name()
    forward = 1 * US + ring_ps("all_reduce", 2, 8192)
    backward = forward + 2 * US + ring_ps("all_gather", 2, 16384)
    weights = backward + 3 * US + ring_ps("all_reduce", 2, 32768)
    for rank in range(4):
        assert spans["compute", rank, "layer0 0 forward"] == (0, 1 * US)
        assert spans["all_reduce", rank, "layer0 0 forward"] == (1 * US, forward)
        assert spans["compute", rank, "layer0 0 input gradient"] == (forward, forward + 2 * US)
        assert spans["all_reduce", rank, "layer0 0 weight gradient"] == (backward + 3 * US, weights)
        assert spans["compute", rank, "layer0 0 update"] == (weights, weights + US // 10)
    pairs = set(zip(load.flows.src.tolist(), load.flows.dst.tolist(), strict=True))
    assert pairs == {(0, 1), (1, 0), (2, 3), (3, 2), (0, 2), (2, 0), (1, 3), (3, 1)}
    kinds = [load.flows.kinds[kind] for kind in load.flows.kind]
    assert {kind: kinds.count(kind) for kind in kinds} == {"tp": 4 * 2 + 4, "dp": 4 * 2}
    assert load.notes == ()


def test_weight_gradient_collectives_do_not_block_compute(tmp_path: Path) -> None:
    rows = ["a -1 1000 NONE 0 1000 NONE 0 1000 ALLREDUCE 8192 100"]
    rows += ["b -1 1000 NONE 0 1000 NONE 0 1000 ALLREDUCE 409600 100"]
    spans = simulated(simai(tmp_path, text(rows)), 4).by_name()
    assert spans["compute", 0, "a 0 weight gradient"] == (5 * US, 6 * US)
    first = spans["all_reduce", 0, "b 0 weight gradient"]
    assert first == (4 * US, 4 * US + ring_ps("all_reduce", 2, 409600))
    assert spans["all_reduce", 0, "a 0 weight gradient"][0] == first[1] > 6 * US


def test_expert_parallel_groups_match_mocknccl(tmp_path: Path) -> None:
    """Expert groups join neighboring tensor-parallel groups, as in SimAI's MockNccl."""
    rows = ["a -1 0 ALLTOALL_EP 65536 0 NONE 0 0 REDUCESCATTER_DP_EP 65536 0"]
    load = simai(tmp_path, text(rows, ep=2, all_gpus=8), 8)
    kind = np.array(load.flows.kinds)[load.flows.kind]
    pairs = {
        name: sorted(
            zip(load.flows.src[kind == name].tolist(), load.flows.dst[kind == name], strict=True)
        )
        for name in ("ep", "dp_ep")
    }
    assert pairs["ep"] == [(0, 2), (1, 3), (2, 0), (3, 1), (4, 6), (5, 7), (6, 4), (7, 5)]
    assert pairs["dp_ep"] == [(0, 4), (1, 5), (2, 6), (3, 7), (4, 0), (5, 1), (6, 2), (7, 3)]
    assert load.flows.size_bytes.tolist() == [32768] * 16


def test_pipeline_duration_matches_the_1f1b_schedule(tmp_path: Path) -> None:
    """Each stage has one rank: 3 us forward, 4 us backward, and one packet between stages."""
    for stages, batches in [(2, 1), (2, 4), (3, 4), (4, 6)]:
        block = ["embedding_layer -1 1000 NONE 0 1000 NONE 0 1000 NONE 0 0"]
        block += ["mlp -1 2000 NONE 0 1000 NONE 0 1000 NONE 0 0"]
        header = {"model_parallel_NPU_group": 1, "pp": stages, "ga": batches, "all_gpus": stages}
        load = simai(tmp_path, text(block * batches, **header, pp_comm=4096))
        assert len(load.flows) == 2 * (stages - 1) * batches
        assert set(load.flows.size_bytes.tolist()) == {4096}
        spans = simulated(load, 4).by_name()
        schedule = make_schedule("1f1b", stages, batches)
        expected = work_through(schedule, 3 * US, 2 * US, 2 * US, ONE_PACKET).makespan
        assert max(end for _, end in spans.values()) == expected
        assert mentions(load.notes, "w.txt", stages, "1")


def test_pipeline_stages_of_several_ranks_reduce_gradients_last(tmp_path: Path) -> None:
    """Each rank sends to its counterpart in the next stage; each stage reduces gradients last."""
    rows = ["grad_gather -1 0 NONE 0 0 NONE 0 0 ALLGATHER 8192 0"]
    rows += ["embedding_layer -1 1000 ALLREDUCE 8192 1000 NONE 0 1000 NONE 0 0"] * 2
    rows += ["optimizer1 -1 0 ALLREDUCE 4 0 NONE 0 0 NONE 0 0"]
    load = simai(tmp_path, text(rows, pp=2, ga=2, all_gpus=8, pp_comm=4096), 8)
    kind = np.array(load.flows.kinds)[load.flows.kind]
    sends = set(zip(load.flows.src[kind == "pp"], load.flows.dst[kind == "pp"], strict=True))
    assert sends == {(k, k + 4) for k in range(4)} | {(k + 4, k) for k in range(4)}
    spans = simulated(load, 8).by_name()
    last = max(end for (_, _, label), (_, end) in spans.items() if "embedding" in label)
    assert spans["all_gather", 0, "grad_gather weight gradient"][0] >= last


def test_replicas_and_micro_batches_limit_the_simulated_step(tmp_path: Path) -> None:
    rows = ["embedding_layer -1 1000 NONE 0 1000 NONE 0 1000 ALLREDUCE 8192 0"] * 4
    load = simai(tmp_path, text(rows, ga=4, all_gpus=16), replicas=2, micro_batches=1)
    assert load.flows.dst.max() == 3
    assert mentions(load.notes, "w.txt", "2", "8", "1", "4")
    large = text([row.replace("8192", "81920000") for row in rows * 50], ga=200, all_gpus=4096)
    with (
        patch("netsim.common.memory.available_bytes", return_value=10**9),
        raises_input("micro_batches", "200", key="traffic.file"),
    ):
        simai(tmp_path, large, 4096)


def step(number: int, kind: str, count: int = 1, after: tuple[int, int] = (-1, -1)) -> str:
    return (
        f'<step s="{number}" type="{kind}" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" '
        f'cnt="{count}" depid="{after[0]}" deps="{after[1]}" hasdep="0"/>'
    )


def block(number: int, send: int, receive: int, *steps: str) -> str:
    inner = "\n".join(steps)
    return f'<tb id="{number}" send="{send}" recv="{receive}" chan="0">\n{inner}\n</tb>'


def algo(gpus: list[list[str]], chunks: int, coll: str = "allreduce") -> str:
    inner = "".join(f'<gpu id="{k}">{"".join(blocks)}</gpu>\n' for k, blocks in enumerate(gpus))
    head = f'<algo name="mine" nchunksperloop="{chunks}" ngpus="{len(gpus)}" coll="{coll}">'
    return f"{head}\n{inner}</algo>"


def ring(n: int) -> str:
    """Return a ring all-reduce as msccl-tools writes it: one thread block sends and reduces."""
    kinds = ["s", *["rrc", "s"] * (n - 1), *["r", "s"] * (n - 2), "r"]
    steps = [step(k, kind) for k, kind in enumerate(kinds)]
    return algo([[block(0, (k + 1) % n, (k - 1) % n, *steps)] for k in range(n)], n)


def msccl(directory: Path, text: str, n_hosts: int = 4, **given: Any) -> Workload:
    (directory / "a.xml").write_text(text)
    return made("msccl", n_hosts, directory=directory, file="a.xml", **given)


def test_ring_duration_equals_its_closed_form(tmp_path: Path) -> None:
    for n in [2, 4, 8]:
        load = msccl(tmp_path, ring(n), n, size=f"{n * 8192}B")
        assert len(load.flows) == n * 2 * (n - 1)
        assert simulated(load, n).makespan == closed_form_ps(
            "all_reduce", n, n * 8192, WIRE, CollectiveOptions("ring")
        )
        assert mentions(load.notes, "a.xml", "mine", len(load.flows))


def test_thread_blocks_run_in_parallel_and_honor_dependencies(tmp_path: Path) -> None:
    """GPU 1 copies the data from GPU 0, then forwards it to GPU 2 in another thread block."""
    gpus = [
        [block(0, 1, -1, step(0, "s", 2))],
        [
            block(0, -1, 0, step(0, "r", 2), step(1, "cpy")),
            block(1, 2, -1, step(0, "nop", 0, (0, 1)), step(1, "s")),
            block(2, 3, -1, step(0, "s")),
        ],
        [block(0, -1, 1, step(0, "r"))],
        [block(0, -1, 1, step(0, "r"))],
    ]
    load = msccl(tmp_path, algo(gpus, 2), size="8192B")
    assert load.flows.size_bytes.tolist() == [8192, 4096, 4096]
    assert simulated(load, 4).makespan == PACKET_PS + 2 * ONE_PACKET


def test_receive_copy_send_step_forwards_its_data(tmp_path: Path) -> None:
    gpus = [
        [block(0, 1, -1, step(0, "s"))],
        [block(0, 2, 0, step(0, "rcs"))],
        [block(0, -1, 1, step(0, "r"))],
    ]
    load = msccl(tmp_path, algo(gpus, 1, "broadcast"), size="4096B")
    assert simulated(load, 4).makespan == 2 * ONE_PACKET


NS3 = "2\n0 2 3 100 1000000 2.000000000\n1 2 3 100 1000000 2.000000000\n"


def ns3(directory: Path, text: str, n_hosts: int = 4, **given: object) -> Workload:
    (directory / "flow.txt").write_text(text)
    return made(
        "ns3_flows", n_hosts, directory=directory, n_traffic_classes=2, file="flow.txt", **given
    )


def test_flow_txt_is_read(tmp_path: Path) -> None:
    load = ns3(tmp_path, NS3)
    assert pairs(load.flows) == [(0, 2), (1, 2)]
    assert load.flows.size_bytes.tolist() == [10**6, 10**6]
    assert load.flows.start_ps.tolist() == [2 * 10**12] * 2
    assert load.notes == ()
    assert ns3(tmp_path, NS3, start_times="from_zero").flows.start_ps.tolist() == [0, 0]


def test_lines_after_the_announced_flows_are_counted(tmp_path: Path) -> None:
    load = ns3(tmp_path, f"{NS3}0 3 3 100 1 2.0\nFirst line: # of flows\n")
    assert pairs(load.flows) == [(0, 2), (1, 2)]
    assert mentions(load.notes, "flow.txt", "2")


def test_out_of_order_lines_keep_their_start_times_and_are_reported(tmp_path: Path) -> None:
    load = ns3(tmp_path, "3\n0 1 3 1 9 0.2\n1 2 3 1 9 0.1\n2 3 3 1 9 0.2\n")
    assert load.flows.start_ps.tolist() == [2 * 10**11, 10**11, 2 * 10**11]
    assert mentions(load.notes, "flow.txt", "1", "3")


def test_opera_flow_list_is_read(tmp_path: Path) -> None:
    (tmp_path / "f.htsim").write_text("0 3 1000000 0\n3 1 24000 1500\n")
    flows = make("opera_flows", 4, directory=tmp_path, file="f.htsim")
    assert pairs(flows) == [(0, 3), (3, 1)]
    assert flows.size_bytes.tolist() == [1_000_000, 24_000]
    assert flows.start_ps.tolist() == [0, 1_500_000]


HEADER = (
    f"{POLICY} model_parallel_NPU_group: 2 ep: 1 pp: 1 vpp: 1 ga: 1 all_gpus: 4 "
    "checkpoints: 0 checkpoint_initiates: 0 pp_comm: 0"
)
LAYER = "layer0\t-1\t1000\tALLREDUCE\t4194304\t1000\tNONE\t0\t1000\tALLREDUCE\t8388608\t100"
MINIMAL = f"{HEADER}\n1\n{LAYER}"


def read(directory: Path, text: str | bytes) -> SimaiWorkload:
    path = directory / "w.txt"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_simai(path)


def test_minimal_workload_is_read(tmp_path: Path) -> None:
    """The file has no final newline, like SimAI's own files."""
    work = read(tmp_path, MINIMAL)
    assert work.policy == POLICY
    assert work.header == {
        **dict.fromkeys(("ep", "pp", "vpp", "ga"), 1),
        "tp": 2,
        "all_gpus": 4,
        "pp_bytes": 0,
    }
    assert work.left_out == ()
    reduce = Phase(1000, "all_reduce", "", 4194304)
    weights = Phase(1000, "all_reduce", "", 8388608)
    row = SimaiRow(3, "layer0", reduce, Phase(1000, "", "", 0), weights, 100)
    assert work.rows == [row]
    assert work.micro_batches == [[row]]


def rows(*names: str, columns: str = "-1 1 NONE 0 1 NONE 0 1 NONE 0 100") -> str:
    return "\n".join([str(len(names)), *(f"{name} {columns}" for name in names)])


def test_micro_batches_are_separated_from_rows_of_the_step(tmp_path: Path) -> None:
    names = ("grad_gather", *("embedding_layer", "mlp_row") * 3, "cross_entropy1", "optimizer4")
    work = read(tmp_path, HEADER.replace("ga: 1", "ga: 3") + "\n" + rows(*names))
    assert [row.name for row in work.before] == ["grad_gather"]
    batches = [[row.name for row in batch] for batch in work.micro_batches]
    assert batches == [["embedding_layer", "mlp_row"]] * 3
    assert [row.name for row in work.behind] == ["cross_entropy1", "optimizer4"]
    assert [row.line for row in work.rows] == list(range(3, 12))
    plain = read(tmp_path, HEADER.replace("ga: 1", "ga: 2") + "\n" + rows("a", "b", "a", "b"))
    assert [len(batch) for batch in plain.micro_batches] == [2, 2]
    twice = read(tmp_path, HEADER + "\n" + rows("embedding_layer", "embedding_layer"))
    assert [len(batch) for batch in twice.micro_batches] == [2]  # as microAllReduce.txt has it


def test_headers_of_other_versions_are_read(tmp_path: Path) -> None:
    """Keys come in any order, lack a colon or are missing; sizes may end in ".0"."""
    text = "pp_comm 25165824.0 ga: 1 model_parallel_NPU_group: 8 checkpoints: 0"
    work = read(tmp_path, f"{POLICY} {text}\n{rows('a')}")
    assert (work.header["pp_bytes"], work.header["tp"], work.header["ep"]) == (25165824, 8, 1)
    assert work.left_out == ("ep", "pp", "vpp", "all_gpus")
    assert read(tmp_path, f"MICRO\n{rows('a')}").left_out == ()
