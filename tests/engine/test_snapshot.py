"""Snapshots: their size, traced flows, and rejection of those of other engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_case import kept
from engine_runs import DROP_TAIL, LOSSLESS, build, fat_tree, flow_table

from netsim.engine.engine import Engine
from netsim.engine.kernels.layout import INF
from netsim.engine.snapshot import ForeignSnapshotError


def small(transport: str = "datagram", **given: Any) -> Engine:
    """Return an engine in plain Python whose flows have just started."""
    network = fat_tree(2, 2, "100Gbps")
    flows = flow_table([(0, 2, 50_000, 0), (1, 3, 50_000, 0), (2, 1, 9_000, 0)])
    engine = build(network, flows, transport, **{"fabric": DROP_TAIL, "jit": False, **given})
    engine.advance(3, INF)
    return engine


@pytest.mark.parametrize(
    "given",
    [{"transport": "roce", "fabric": LOSSLESS}, {"trace": [0]}],
    ids=["other records", "one more group"],
)
def test_snapshot_of_another_kind_of_engine_is_rejected(given: dict[str, Any]) -> None:
    engine, other = small(), small(**given)
    before = engine.digest()
    with pytest.raises(ForeignSnapshotError):
        engine.restore(other.snapshot())
    assert engine.digest() == before


def test_snapshot_stores_packets_but_not_free_space() -> None:
    engine = small()
    pool, packets = engine.state.links.pool, engine.conservation().packets.in_flight
    taken = engine.snapshot()["links.pool"]
    assert packets > 0
    assert taken.raw.size >= packets * pool.itemsize
    assert taken.raw.size < pool.nbytes / 100


def test_restored_snapshot_replaces_the_recorded_trace() -> None:
    engine, other = small(trace=[0]), small(trace=[0])
    recorded = kept(engine)
    assert other.drain_trace().entries.size > 0
    other.restore(recorded)
    assert np.array_equal(other.drain_trace().entries, engine.drain_trace().entries)
