"""All-reduces of iterations sent as packets: time, sizes set during the run, and iterations."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from raises_input import raises_input
from served import US, Served, all_served_once, cost, deployment
from traffic_cases import star

from netsim.units import format_time
from netsim.workloads.collectives import closed_form_ps
from netsim.workloads.collectives.steps import ONE_WAY, CollectiveOptions
from netsim.workloads.inference.deployment import all_reduce_bytes, compute_ps, prompt_pairs
from netsim.workloads.operations import Wires

HALVES = {"prefill_instances": 1, "decode_instances": 1}
PACKETS = {"all_reduces": "packets", "all_reduces_per_iteration": 4}
WIRE = Wires(star(8), 4096, 64).wire(ONE_WAY, np.arange(4))


def idle_ps(tp: int, rows: int, how: CollectiveOptions, merged: int = 1) -> int:
    """Return the time of an all-reduce of this many tokens in an idle network."""
    size = all_reduce_bytes(cost(tp), rows) * merged
    return closed_form_ps("all_reduce", tp, size, WIRE, how)


def test_iteration_time_is_compute_plus_all_reduces(tmp_path: Path) -> None:
    for algorithm in ["ring", "direct", "halving_doubling"]:
        # Blocks are whole packets, so that the closed form includes the exact time at the switch.
        given: dict[str, Any] = {
            "instances": 1,
            "latency": "1us",
            "algorithm": algorithm,
            **PACKETS,
        }
        run = Served(tmp_path, [(0, 512, 1)], deployment=deployment(4), max_iterations=1, **given)
        computing = compute_ps(cost(4), 512, prompt_pairs(True, 0, 512), 0, 0)
        wanted = computing + 4 * idle_ps(4, 512, CollectiveOptions(algorithm, latency_ps=US))
        # The other GPUs begin when the control message reaches them.
        control = 2 * US + 2 * 3 * 5000 * 80
        assert wanted <= run.iterations()[0][1] <= 1.005 * wanted + control
        all_served_once(run.plan, run)


def test_all_reduce_and_control_sizes_follow_iteration_tokens(tmp_path: Path) -> None:
    given: dict[str, Any] = {"instances": 1, "algorithm": "direct", **PACKETS}
    run = Served(tmp_path, [(0, 400, 2)], deployment=deployment(4), max_iterations=2, **given)
    flows, states = run.load.flows, run.engine.flow_states()
    sent = (flows.kind == flows.kinds.index("all_reduce")).reshape(-1)
    size = np.asarray(states.size_bytes)[sent].reshape(2, 4, -1)
    # Each GPU sends two blocks of a quarter of the buffer to each other GPU.
    assert size.shape[2] == 2 * 12
    assert size[0].sum() == 4 * 2 * 3 * all_reduce_bytes(cost(4), 400)
    assert size[1].sum() == 4 * 2 * 3 * all_reduce_bytes(cost(4), 1)
    control = (flows.kind == flows.kinds.index("control")).reshape(-1)
    rows = np.asarray(states.size_bytes)[control].reshape(2, 3, 2)[:, :, 0]
    assert rows.tolist() == [[256 + 8 * 400] * 3, [256 + 8] * 3]


def left_out(tp: int) -> str:
    """Return the reported omitted latency: that of three all-reduces of one byte."""
    how = CollectiveOptions("ring", latency_ps=3 * US)
    return format_time(3 * closed_form_ps("all_reduce", tp, 1, WIRE, how), 3)


@pytest.mark.parametrize("kv", ["after_prefill", "layerwise"])
def test_split_instances_with_all_reduces_serve_all_requests(tmp_path: Path, kv: str) -> None:
    asked = [(30 * k, 300 + 40 * k, 1 + k % 4) for k in range(5)]
    more = {"kv_layer_groups": 3} if kv == "layerwise" else {}
    run = Served(
        tmp_path, asked, kv_transfer=kv, deployment=deployment(4), **more, **HALVES, **PACKETS
    )
    all_served_once(run.plan, run)
    first, there = run.times("first token"), run.times("kv transfer end")
    assert all(there[k] > first[k] for k in there)
    if kv == "layerwise":
        starts = run.engine.flow_states().start_ps
        begin = [row["start_ps"] for row in run.told("iteration", 0)]
        flow = int(run.plan.kv_first_flow[1])
        part = starts[flow : flow + 12].reshape(3, 4)[:, 0]
        assert begin[0] < part[0] < part[1] < part[2] == first[1]


def test_instances_sharing_a_network_serve_all_requests(tmp_path: Path) -> None:
    asked = [(20 * k, 50 + 30 * k, 2 + k % 4) for k in range(6)]
    run = Served(
        tmp_path,
        asked,
        instances=2,
        gpu_stride=2,
        deployment=deployment(4),
        token_budget=100,
        max_batch=3,
        **PACKETS,
    )
    assert max(batch for _, _, _, batch in run.iterations(0)) > 1
    all_served_once(run.plan, run)


def test_insufficient_max_iterations_is_rejected_before_the_run(tmp_path: Path) -> None:
    for given, asked, need in [
        ({"instances": 1}, [(0, 10, 9)], 9),
        ({"instances": 1, "token_budget": 5}, [(0, 11, 9)], 11),
        ({**HALVES, "token_budget": 5}, [(0, 10, 1), (0, 11, 1), (0, 9, 2)], 6),
        ({"instances": 1, "token_budget": 5, "chunked": False}, [(0, 11, 3)], 3),
        ({"instances": 2}, [(0, 10, 4), (0, 10, 6), (0, 10, 5)], 6),
        (HALVES, [(0, 10, 9)], 8),
        ({**HALVES, "token_budget": 2}, [(0, 9, 3)], 5),
    ]:
        with raises_input(need - 1, need, key="traffic.max_iterations"):
            Served(tmp_path, asked, max_iterations=need - 1, **given, **PACKETS)
        all_served_once(
            (run := Served(tmp_path, asked, max_iterations=need, **given, **PACKETS)).plan, run
        )
