"""The experiments that come with netsim end as they always did: every completion time, to the ps.

A change of speed or of structure moves none of them. A change of the model that does names the
experiments it moves, and writes the digests anew:

    python tests/test_shipped_experiments.py
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from netsim.experiment import Experiment, Point, built_in
from netsim.running.point import simulate

DIGESTS = Path(__file__).parent / "data" / "completion_times.json"
"""Experiment -> point -> digest; those that take minutes are left out."""

QUICK = ("all_to_all", "incast", "p2p_512", "pfc_victim", "topologies")
"""They share two specializations of the engine, which other tests need as well, or need none."""

LEFT_OUT = (
    "own_cluster",
    "training_networks",
    "p2p_8192",
    "p2p_fabrics_8192",
    "p2p_ocs_8192",
    "roce_pfc",
    "serving_lite_256",
    "serving_load",
)

LARGER_PACKETS = ("inference_", "serving_fabrics")
"""How experiments begin whose packets are twice as large here, and half as many."""


def shipped(name: str) -> Experiment:
    """An experiment by its name, as it is simulated here."""
    larger = ["packets.payload_bytes=16KiB"] if name.startswith(LARGER_PACKETS) else []
    return Experiment.load(built_in()[name], larger)


def digest(point: Point) -> str:
    """Of the completion time of every flow of a point, and of when its sender knew.

    Of a serving run also of when each request had its first token and its last one.
    """
    result = simulate(point, threads=1)
    assert result.complete, result.reason
    flows = result.flows
    hashed = hashlib.sha256()
    for name in ("fct_ps", "acked_ps"):
        hashed.update(np.ascontiguousarray(flows[name], np.int64).tobytes())
    if result.requests is not None:
        for name in ("first_token_ps", "end_ps"):
            hashed.update(np.ascontiguousarray(result.requests[name], np.int64).tobytes())
    return hashed.hexdigest()[:16]


def digests(name: str) -> dict[str, str]:
    """Of every point of an experiment."""
    return {point.name: digest(point) for point in shipped(name).points()}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name in built_in()
        if name not in LEFT_OUT
    ],
)
def test_completion_times_are_what_they_were(name: str) -> None:
    assert digests(name) == json.loads(DIGESTS.read_text())[name]


if __name__ == "__main__":
    chosen = sys.argv[1:] or [name for name in built_in() if name not in LEFT_OUT]
    known = json.loads(DIGESTS.read_text()) if DIGESTS.exists() else {}
    for name in chosen:
        known[name] = digests(name)
        print(name, len(known[name]), "points", flush=True)
    DIGESTS.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")
