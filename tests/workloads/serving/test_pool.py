"""Memory pooling: reads of an iteration, their time, and the memory that pooling frees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from served import US, Served, all_served_once, cost, decode_ps, deployment, prefill_ps

from netsim.workloads.inference import load_deployment
from netsim.workloads.inference.roofline import weight_bytes

HALVES = {"prefill_instances": 1, "decode_instances": 1}
PACKETS: dict[str, Any] = {
    "all_reduces": "packets",
    "all_reduces_per_iteration": 2,
    "max_iterations": 6,
}
TOKEN = 128
"""Bytes of a token's KV cache at each of two GPUs."""


def at_rate(n_bytes: float, mbps: int) -> int:
    """Return the picoseconds that this many bytes take at a rate in Mbps."""
    return int(n_bytes * 8 * 10**6 / mbps)


def test_kv_reads_by_formula_extend_decode_iterations(tmp_path: Path) -> None:
    given = {"instances": 1, "pooled": "kv", "pooled_fraction": 0.5, "pool_read_rate": "100Mbps"}
    run = Served(tmp_path, [(0, 100, 4)], **given)
    first = prefill_ps(cost(), 100)
    took = [end - begin for begin, end, _, _ in run.iterations()]
    reads = [at_rate(TOKEN / 2 * context, 100) for context in (101, 102, 103)]
    added = [decode_ps(cost(), 101 + k) - 100 * US for k in range(3)]
    assert took[0] == first
    # Reads take about 500 us; all-reduces add less than 1 us.
    assert took[1:] == pytest.approx(reads, abs=max(added))
    assert all(one >= read for one, read in zip(took[1:], reads, strict=True))
    fast = Served(tmp_path, [(0, 100, 4)], **{**given, "pool_read_rate": "100Gbps"})
    assert fast.iterations()[1][1] - first == decode_ps(cost(), 101)


@pytest.mark.parametrize("pool", [1, 3])
def test_pooled_kv_cache_is_sent_as_flows(tmp_path: Path, pool: int) -> None:
    run = Served(tmp_path, [(0, 400, 4)], instances=1, pool_hosts=pool, pooled="kv", **PACKETS)
    flows, states = run.load.flows, run.engine.flow_states()
    reads = (flows.kind == flows.kinds.index("pool")).reshape(-1)
    assert set(flows.src[reads].tolist()) == set(range(2, 2 + pool))
    assert set(flows.dst[reads].tolist()) == {0, 1}
    size = np.asarray(states.size_bytes)[reads].reshape(6, -1)
    there = np.asarray(states.done_ps)[reads].reshape(6, -1) >= 0
    assert there[:4].all()
    assert not there[4:].any()
    # A prefill reads nothing; decode reads are quantized to 1/65,536 of the longest, 404 tokens.
    assert (size[0] == 1).all()
    for slot, context in enumerate((401, 402, 403), start=1):
        assert size[slot].sum() == pytest.approx(2 * TOKEN * context, abs=8)
    all_served_once(run.plan, run)


def test_iteration_waits_for_pooled_weights(tmp_path: Path) -> None:
    # Sending 10 MB of weights from one host to two GPUs takes longer than everything else.
    table = deployment(model={"feed_forward": 200_000})
    given = {"deployment": table, "instances": 1, "pooled": "weights", **PACKETS}
    run = Served(tmp_path, [(0, 1, 2)], pool_hosts=1, pooled_fraction=0.1, **given)
    n_bytes = weight_bytes(load_deployment(table)) * 2 * 0.1
    alone = n_bytes * (4160 / 4096) * 80
    assert alone > 300 * US
    took = [end - begin for begin, end, _, _ in run.iterations()]
    assert took == pytest.approx([alone + 10 * US] * 2, abs=10 * US)
    both = Served(tmp_path, [(0, 1, 2)], pool_hosts=2, pooled_fraction=0.1, **given)
    took = [end - begin for begin, end, _, _ in both.iterations()]
    assert took == pytest.approx([alone / 2 + 10 * US] * 2, abs=10 * US)
