"""Traffic from AICB's CSV files: collectives of each row and messages between pipeline stages."""

from pathlib import Path
from typing import Any

import numpy as np
from engine_runs import US
from raises_input import raises_input
from task_times import simulated
from traffic_cases import GBPS, made

from netsim.model.workload import Workload
from netsim.workloads.collectives import closed_form_ps
from netsim.workloads.collectives.steps import CollectiveOptions, Wire

COLUMNS = "comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time,x"
RINGS = dict.fromkeys(("all_reduce", "all_gather", "reduce_scatter"), "ring")
WIRE = Wire(100 * GBPS, 2 * US + 4160 * 80, 4096, 64)


def row(what: str, group: str = "None", n: int = 1, size: int = 0, more: str = "") -> str:
    return f"CommType.{what},CommGroup.{group},{n},{size},step,None,None,{more},None,None"


def messages(of: list[tuple[str, int, str]]) -> list[str]:
    return [row(what, "pp_group", 1, size, to) for what, size, to in of]


def aicb(directory: Path, *lines: str, n_hosts: int = 4, **given: Any) -> Workload:
    (directory / "w.csv").write_text("\n".join(lines))
    return made("aicb", n_hosts, directory=directory, file="w.csv", algorithm=RINGS, **given)


def test_rows_run_one_after_another(tmp_path: Path) -> None:
    lines = [
        "[rank0 ~ rank3]",
        COLUMNS,
        row("all_reduce", "tp_group", 2, 8192),
        "CommType.computation,None,None,((1 2) (2 3)),step,None,None,,3000,None",
        row("all_gather", "dp_group", 2, 16384),
        row("epoch_end"),
    ]
    load = aicb(tmp_path, *lines)
    took = [closed_form_ps(what, 2, size, WIRE, CollectiveOptions("ring")) for what, size in
            (("all_reduce", 8192), ("all_gather", 16384))]  # fmt: skip
    assert simulated(load, 4).makespan == sum(took) + 3 * US
    pairs = set(zip(load.flows.src.tolist(), load.flows.dst.tolist(), strict=True))
    assert pairs == {(0, 1), (1, 0), (2, 3), (3, 2), (0, 2), (2, 0), (1, 3), (3, 1)}
    part = aicb(tmp_path, *lines, replicas=1)
    assert part.flows.dst.max() == 1
    # AICB's micro-benchmarks give no group size: the group is all hosts.
    whole = aicb(tmp_path, COLUMNS, row("all_reduce", "dp_group", 0, 8192))
    assert len(whole.flows) == 4 * 6


def test_pipeline_stages_exchange_messages(tmp_path: Path) -> None:
    """Two stages of two ranks run forward and backward, then all stages reduce together."""
    stages = [
        [("isend", 4096, "send_next"), ("irecv", 8192, "recv_next")],
        [("irecv", 4096, "recv_prev"), ("isend", 8192, "send_prev")],
    ]
    both = [row("all_reduce", "pp_group", 2, 100), row("all_reduce", "tp_group", 2, 50)]
    lines = [
        line
        for k, stage in enumerate(stages)
        for line in (
            f"[ pp_stage{k}: [rank{2 * k}, rank{2 * k + 1}] ]",
            COLUMNS,
            *messages(stage),
            *both,
        )
    ]
    load = aicb(tmp_path, *lines)
    flows = list(
        zip(load.flows.src.tolist(), load.flows.dst.tolist(), load.flows.size_bytes.tolist(),
            strict=True)
    )  # fmt: skip
    assert {one for one in flows if one[2] > 1000} == {
        *((0, 2, 4096), (1, 3, 4096)),
        *((2, 0, 8192), (3, 1, 8192)),
    }
    assert {one[:2] for one in flows if one[2] == 50} == {(0, 2), (2, 0), (1, 3), (3, 1)}
    assert {one[:2] for one in flows if one[2] == 25} == {(0, 1), (1, 0), (2, 3), (3, 2)}
    how = CollectiveOptions("binomial_tree")
    there = [np.int64(closed_form_ps("broadcast", 2, size, WIRE, how)) for size in (4096, 8192)]
    reduced = [
        closed_form_ps("all_reduce", 2, size, WIRE, CollectiveOptions("ring")) for size in (100, 50)
    ]
    # Stage 1 starts its reduction when its message is sent, before stage 0 has received it.
    assert sum(there) + max(reduced) < simulated(load, 4).makespan <= sum(there) + sum(reduced)
    with raises_input("stage 1", "0", "stage 0", "1"):
        aicb(tmp_path, *(line for line in lines if "send_prev" not in line))
    one_stage = [line for line in lines[:4] if not line.startswith("[")]
    with raises_input("w.csv:2"):
        aicb(tmp_path, *one_stage)
