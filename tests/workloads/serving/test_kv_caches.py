"""KV transfers between instances: their flows, sizes and times, and the decode start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from served import US, Served, all_served_once, cost, decode_ps, deployment, prefill_ps

from netsim.workloads.serving.workload import flows_between, partition

HALVES = {"prefill_instances": 1, "decode_instances": 1}
CONTROL = 2 * (256 + 64) * 80 + 2 * US
"""Time of a 256-byte message in an idle network: one switch, 100 Gbps, links of 1 us."""


def idle_ps(*n_bytes: int) -> int:
    """Return the time of one host's flows: all packets on its link, a full one on the next."""
    packets = sum(-(-size // 4096) for size in n_bytes)
    return (sum(n_bytes) + 64 * packets + min(max(n_bytes), 4096) + 64) * 80 + 2 * US


def test_kv_partition_balances_sources_and_sinks() -> None:
    for sources, sinks in [(1, 1), (2, 2), (4, 1), (1, 3), (8, 32), (3, 2), (6, 4)]:
        flows = partition(sources, sinks)
        assert len(flows) == flows_between(sources, sinks)
        whole = 12 * sources * sinks
        sizes = flows.sizes(np.array([whole]), 2)[0]
        assert sizes.sum() == whole
        sent = np.bincount(flows.source, weights=sizes.sum(0))
        came = np.bincount(flows.sink, weights=sizes.sum(0))
        assert set(sent.tolist()) == {whole / sources}
        assert set(came.tolist()) == {whole / sinks}
        # Source and sink of a flow both own the part that it carries.
        part = flows.bounds[:-1] + 0.5
        assert (part * sources // flows.bounds[-1] == flows.source).all()
        assert (part * sinks // flows.bounds[-1] == flows.sink).all()


def test_kv_transfer_between_single_gpus_matches_hand_calculation(tmp_path: Path) -> None:
    run = Served(tmp_path, [(3, 100, 3)], deployment=deployment(1), **HALVES)
    one = cost(1)
    first = 3 * US + prefill_ps(one, 100)
    there = first + idle_ps(100 * 256)
    second = there + decode_ps(one, 101)
    assert run.times("first token") == {0: first}
    assert run.times("kv transfer end") == run.times("decode start") == {0: there}
    assert run.iterations(1) == [
        (there, second, 0, 1),
        (second, second + decode_ps(one, 102), 0, 1),
    ]
    assert run.load.flows.size_bytes.tolist() == [100 * 256]
    assert (run.plan.kv_first_flow.tolist(), run.plan.kv_flows.tolist()) == ([0], [1])
    all_served_once(run.plan, run)


def test_layerwise_kv_transfer_overlaps_prefill(tmp_path: Path) -> None:
    table = deployment(1)
    given: dict[str, Any] = {"deployment": table, **HALVES}
    requests = [(0, 4000, 2), (0, 2000, 2)]
    after = Served(tmp_path, requests, token_budget=8000, **given)
    layers = Served(
        tmp_path, requests, token_budget=8000, kv_transfer="layerwise", kv_layer_groups=4, **given
    )
    end = layers.times("first token")[0]
    assert end == after.times("first token")[0]
    # The two caches share the link; the last quarter of both is sent when the prefill ends.
    assert max(layers.times("kv transfer end").values()) - end == idle_ps(4000 * 64, 2000 * 64)
    assert max(after.times("kv transfer end").values()) - end == idle_ps(4000 * 256, 2000 * 256)
    starts = layers.engine.flow_states().start_ps.reshape(2, 4)
    begin, length = layers.iterations()[0][0], layers.iterations()[0][1]
    assert (starts == [begin + length // 4 * k for k in (1, 2, 3)] + [length]).all()
    all_served_once(layers.plan, layers)


def test_kv_transfer_between_instances_of_different_sizes(tmp_path: Path) -> None:
    run = Served(
        tmp_path,
        [(20 * k, 100 + k, 1 + k % 4) for k in range(6)],
        deployment=deployment(3, options={"kv_replicated": False}),
        decode_deployment=deployment(2),
        prefill_instances=1,
        decode_instances=2,
        kv_transfer="layerwise",
        kv_layer_groups=3,
    )
    # Four requests have more than one token; each has 3 layer groups of 4 flows.
    assert run.plan.kv_flows.tolist() == [0, 12, 12, 12, 0, 12]
    assert run.plan.decode_instance.tolist() == [-1, 1, 2, 1, -1, 2]
    caches = run.load.flows.size_bytes[run.load.flows.kind == 0].sum()
    assert caches == 256 * sum(100 + k for k in (1, 2, 3, 5))
    all_served_once(run.plan, run)
