"""Inference steps: closed forms of single steps, dependencies and errors."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from raises_input import raises_input
from task_times import operations_of, run_alone, simulated, steps_of
from traffic_cases import GBPS, made

from netsim.flows import Workload
from netsim.workloads.collectives import closed_form_ps
from netsim.workloads.collectives.steps import CollectiveOptions, Wire
from netsim.workloads.inference.deployment import (
    all_reduce_bytes,
    compute_ps,
    iteration_cost,
    kv_bytes_of_token,
    load_deployment,
    network_ps,
    prompt_pairs,
)

RATE = 100 * GBPS
MODEL = {
    "layers": 4,
    "hidden": 1024,
    "heads": 8,
    "kv_heads": 4,
    "sequence": 2048,
    "vocabulary": 1000,
    "feed_forward_matrices": 3,
}
PREFILL_ROWS = {"tokens": 512, "pairs": prompt_pairs(True, 0, 512), "batch": 0, "context": 0}
FEW_ROWS = {"tokens": 32, "pairs": prompt_pairs(True, 0, 32), "batch": 0, "context": 0}


def deployed(tp: int = 4, **overheads: Any) -> dict[str, Any]:
    given = {"iteration_overhead": "30us", "layer_overhead": "2us", **overheads}
    return {"model": MODEL, "machine": "h100", "options": {"tp": tp}, "overheads": given}


def inference(n_hosts: int, tp: int = 4, **given: Any) -> Workload:
    return made("inference", n_hosts, **{"deployment": deployed(tp), **given})


def of_kind(load: Workload, kind: str) -> NDArray[np.bool_]:
    """Return bool[n_flows]: which flows have that kind."""
    assert load.flows.kind is not None
    return load.flows.kind == load.flows.kinds.index(kind)


def kinds(load: Workload) -> set[str]:
    """Return the kinds of all flows."""
    return {kind for kind in load.flows.kinds if of_kind(load, kind).any()}


def wire(last_bytes: int) -> Wire:
    """Return two links of 1 us and a switch between them, which sends the last packet again."""
    return Wire(RATE, (last_bytes + 64) * 80 + 2 * 10**6, 4096, 64)


@pytest.mark.parametrize("algorithm", ["ring", "direct", "halving_doubling"])
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_step_duration_is_compute_plus_all_reduces(phase: str, algorithm: str) -> None:
    cost = iteration_cost(load_deployment(deployed()))
    tokens, batch, times = 32, 32, 2 if algorithm == "ring" else 1
    given: dict[str, Any] = {"phase": phase, "batch": {phase: 1 if phase == "prefill" else batch}}
    given |= {"prompt": 32} if phase == "prefill" else {"context": 100}
    load = inference(4, algorithm=algorithm, latency="1us", steps=times, **given)
    shard = all_reduce_bytes(cost, tokens) // 4
    how = CollectiveOptions(algorithm, latency_ps=10**6)
    reduce_ps = closed_form_ps("all_reduce", 4, 4 * shard, wire(4096), how)
    if phase == "prefill":
        computing = compute_ps(cost, **FEW_ROWS)
    else:
        computing = compute_ps(cost, batch, 0, batch, batch * 100)
    assert shard % 4096 == 0
    expected = times * (computing + 8 * reduce_ps)
    assert simulated(load, 4).makespan == expected


def test_formula_all_reduces_take_the_time_of_the_deployment() -> None:
    load = inference(
        8, fidelity="formula", phase="split", kv_transfer="after_prefill", prompt=512, tokens=0
    )
    cost = iteration_cost(load_deployment(deployed()))
    times = run_alone(load)
    its = times.rows("all_reduce", "tp")
    begin, end = times.span(its)
    assert set((end - begin).tolist()) == {network_ps(cost, 512) // 8}
    assert times.span(times.rows("compute"))[1].max() == pytest.approx(
        compute_ps(cost, **PREFILL_ROWS) + network_ps(cost, 512) * 7 / 8, abs=8
    )
    assert kinds(load) == {"kv"}


def test_kv_transfer_is_complete_and_takes_its_closed_form() -> None:
    for tp, decode_tp in [(4, 4), (4, 8), (8, 4), (2, 1)]:
        other = {"decode_deployment": deployed(decode_tp)}
        how = {"phase": "split", "tokens": 0, "fidelity": "formula", "batch": {"prefill": 2}}
        load = inference(tp + decode_tp, tp, **how, **other, prompt=512)
        n_bytes = kv_bytes_of_token(load_deployment(deployed(tp))) * 512 * 2
        assert load.flows.size_bytes.sum() == n_bytes
        assert len(load.flows) == max(tp, decode_tp)
        assert set(load.flows.src.tolist()) == set(range(tp))
        assert set(load.flows.dst.tolist()) == set(range(tp, tp + decode_tp))
        times = simulated(load, tp + decode_tp)
        begin, end = times.span(times.rows("receive", "kv"))
        sent = times.span(times.rows("send", "kv"))[0]
        a_gpu = int(n_bytes) // min(tp, decode_tp)  # through its port
        on_wire = wire(4096).send_ps(a_gpu) + wire(4096).delay_ps
        took = end.max() - sent.max()
        assert took == pytest.approx(on_wire, rel=0.01)
        assert begin.max() <= end.max()


def test_layerwise_kv_transfer_overlaps_later_layers() -> None:
    given = {"phase": "split", "tokens": 0, "prompt": 512}
    times = {}
    for kv in ("after_prefill", "layerwise"):
        load = inference(8, kv_transfer=kv, **given)
        times[kv] = run_alone(load, lambda *_: RATE)
        assert load.flows.size_bytes[of_kind(load, "kv")].sum() == 512 * 4 * 2 * 512
    one, other = times["after_prefill"], times["layerwise"]
    assert other.makespan < one.makespan
    over = other.span(other.rows("compute"))[1].max()
    sends = np.unique(other.span(other.rows("send", "kv"))[0])
    assert sends.size == 4  # one per layer
    assert sends[-1] < over == one.span(one.rows("compute"))[1].max()


def test_decode_waits_for_the_kv_transfer_of_the_previous_step() -> None:
    load = inference(8, phase="split", tokens=2, steps=3, prompt=512, kv_transfer="layerwise")
    times = run_alone(load, lambda *_: RATE)
    decode = times.rows("compute", "decode")
    for step in (1, 2):
        its = decode[steps_of(load).step[decode] == step]
        assert its.size == 4 * 2 * 4 * 2  # ranks, iterations, layers, blocks
        arrived = times.rows("receive", "kv")
        arrived = arrived[steps_of(load).step[arrived] == step - 1]
        assert times.span(its)[0].min() >= times.span(arrived)[1].max()
    first = decode[steps_of(load).step[decode] == 0]
    assert times.span(first)[0].min() == 0


def test_half_batches_overlap_compute_and_network() -> None:
    slow = {"layer_overhead": "200us", "iteration_overhead": "0us"}
    given: dict[str, Any] = {"batch": {"prefill": 2}, "prompt": 512, "algorithm": "direct"}
    given["deployment"] = deployed(**slow)
    one, two = (inference(4, overlap=overlap, **given) for overlap in ("none", "half_batches"))
    cost = iteration_cost(load_deployment(deployed(**slow)))
    half = compute_ps(cost, **PREFILL_ROWS)
    times = run_alone(two, lambda *_: RATE)
    shard_ps = all_reduce_bytes(cost, 512) // 4 * 80
    # Only the last all-reduce is exposed.
    assert times.makespan == 2 * half + 2 * shard_ps
    whole = compute_ps(cost, 1024, 2 * PREFILL_ROWS["pairs"], 0, 0)
    alone = run_alone(one, lambda *_: RATE)
    assert alone.makespan == whole + 8 * 2 * 2 * shard_ps


@pytest.mark.parametrize("fidelity", ["packets", "formula"])
def test_chunks_hide_all_but_the_last_all_reduce_of_a_block(fidelity: str) -> None:
    given: dict[str, Any] = {"prompt": 512, "fidelity": fidelity, "overlap": "chunks"}
    given |= {"deployment": deployed(layer_overhead="200us")}
    if fidelity == "formula":
        given |= {"phase": "split", "tokens": 0}  # KV caches are packets in either fidelity
    else:
        given |= {"algorithm": "direct"}
    load = inference(8 if fidelity == "formula" else 4, block_chunks=8, **given)
    cost = iteration_cost(load_deployment(given["deployment"]))
    times = run_alone(load, lambda *_: RATE)
    reduce_ps = 2 * (all_reduce_bytes(cost, 512) // 4 // 8) * 80
    if fidelity == "formula":
        reduce_ps = round(cost.reduced_row_ps * 512 / 8)
    over = times.span(times.rows("all_reduce"))[1].max()
    launched = cost._replace(layers_ps=8 * cost.layers_ps)
    assert over == pytest.approx(compute_ps(launched, **PREFILL_ROWS) + 8 * reduce_ps, abs=16)
    if fidelity == "packets":
        assert load.flows.size_bytes.sum() == 8 * 2 * 3 * all_reduce_bytes(cost, 512)
    else:
        assert load.flows.size_bytes.sum() == 512 * 4 * 2 * 512
        assert load.flows.size_bytes.size == 4 * 8


def test_context_grows_by_one_token_per_iteration() -> None:
    load = inference(
        4, phase="decode", context=5000, batch={"decode": 64}, context_grows=True, steps=2
    )
    times = run_alone(load)
    rows = times.rows("compute")
    took = times.span(rows)[1] - times.span(rows)[0]
    cost = iteration_cost(load_deployment(deployed()))
    for step in (0, 1):
        own = rows[(steps_of(load).step[rows] == step) & (operations_of(load).rank[rows] == 0)]
        assert took[np.searchsorted(rows, own)].sum() == compute_ps(
            cost, 64, 0, 64, 64 * (5000 + step)
        )


@pytest.mark.parametrize("read", ["prefetch", "on_demand"])
def test_pooled_kv_is_prefetched_or_read_on_demand(read: str) -> None:
    given: dict[str, Any] = {"phase": "decode", "fidelity": "formula", "batch": {"decode": 64}}
    load = inference(
        6, pool_hosts=2, pooled_fraction=0.5, pool_read=read, context=1000, steps=2, **given
    )
    flows = load.flows
    layer = 64 * 1000 * kv_bytes_of_token(load_deployment(deployed())) / 4 * 0.5
    pooled = of_kind(load, "pool")
    assert flows.size_bytes[pooled].sum() == 2 * 4 * layer
    assert set(flows.src[pooled].tolist()) == {4, 5}
    cost = iteration_cost(load_deployment(deployed()))
    batch = compute_ps(cost, 64, 0, 64, 64_000) + network_ps(cost, 64)
    times = run_alone(load, lambda *_: RATE)
    a_read = int(layer) // 4 * 80 + 64 * 80
    layers_ps = 2 * batch // 4 / 2
    expected = {
        "on_demand": 8 * (layers_ps + a_read),
        "prefetch": a_read + 8 * max(layers_ps, a_read) if a_read < layers_ps else 8 * a_read,
    }[read]
    assert times.makespan == pytest.approx(expected, rel=0.01)


def test_more_iterations_than_fit_in_memory_are_rejected() -> None:
    with raises_input(key="traffic.steps"):
        inference(8, steps=2**31 - 1)
