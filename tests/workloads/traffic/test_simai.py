"""Traffic from SimAI workloads: rows, groups, and the pipeline that SimAI does not simulate."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from engine_runs import US
from pipeline_time import work_through
from raises_input import mentions, raises_input
from task_times import simulated
from traffic_cases import GBPS, made

from netsim.model.workload import Workload
from netsim.workloads.collectives import CollectiveOptions, Wire, closed_form_ps
from netsim.workloads.job.schedules import make_schedule

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


def test_conflicting_parameters_are_rejected(tmp_path: Path) -> None:
    for header, given, message in [
        ({"all_gpus": 6, "pp": 2}, {}, ("w.txt:1", "6", "2")),
        ({"ep": 3}, {}, ("w.txt:1", "2", "3")),
        ({"pp": 2}, {}, ("w.txt:1", "2", "pp_comm")),
        ({"all_gpus": 8}, {}, ("8", "4")),
        ({"ep": 2}, {"replicas": 1}, ("traffic.replicas", "1", "2")),
        ({}, {"micro_batches": 2}, ("traffic.micro_batches", "2", "1")),
    ]:
        row = "a -1 1 ALLREDUCE 8192 1 NONE 0 1 NONE 0 1"
        with raises_input(message):
            simai(tmp_path, text([row], **header), **given)
