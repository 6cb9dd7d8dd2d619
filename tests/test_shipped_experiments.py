"""Every completion time of the shipped experiments equals its recorded value, to the picosecond.

Changes of speed or structure must not change any of them. A change of the model that does must name
the affected experiments and record new digests:

    python tests/test_shipped_experiments.py
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from netsim.experiment import Experiment, Point, built_in
from netsim.running.point import simulate

DIGESTS = Path(__file__).parent / "data" / "completion_times.json"
"""Experiment -> point -> digest; experiments that take minutes are left out."""

QUICK = ("all_to_all", "incast", "topologies")
"""They need no compiled engine, or one of two that other tests also compile."""

LEFT_OUT = (
    "buffers",
    "days_e1",
    "own_cluster",
    "training_networks",
    "p2p_8192",
    "p2p_fabrics_8192",
    "p2p_ocs_8192",
    "planes_striped",
    "roce_pfc",
    "scale_up",
    "scale_up_lossless",
    "serving_lite_256",
    "serving_load",
    "scale_out_cost",
    "step_flaps",
    "wide_area",
    "locality",
    "planes_and_rails",
    "spraying",
)

LARGER_PACKETS = ("inference_", "serving_fabrics")
"""Name prefixes of experiments that run with packets twice as large here, and half as many."""


def shipped(name: str) -> Experiment:
    """Return an experiment by name, as it is simulated here."""
    larger = ["packets.payload_bytes=16KiB"] if name.startswith(LARGER_PACKETS) else []
    return Experiment.load(built_in()[name], larger)


def digest(point: Point) -> str:
    """Return a digest of every flow's delivery and acknowledgment time. For a serving run, it
    includes the first and last token times of each request."""
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


def digests(name: str, left_out: str = "") -> dict[str, str]:
    """Return the digest of every point of an experiment except one transport's."""
    points = shipped(name).points()
    return {
        point.name: digest(point)
        for point in points
        if point.transport.name.partition(":")[0] != left_out
    }


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name in built_in()
        if name not in LEFT_OUT
    ],
)
def test_completion_times_match_the_recorded_digests(name: str) -> None:
    assert digests(name) == json.loads(DIGESTS.read_text())[name]


def test_quick_completion_times_match() -> None:
    """Two engines that other tests also compile simulate them."""
    known = json.loads(DIGESTS.read_text())["p2p_512"]
    assert digests("p2p_512", "dcqcn").items() <= known.items()


@pytest.mark.slow
def test_constant_rates_send_as_many_packets_as_days_reports() -> None:
    sent = {}
    for point in shipped("days_e1").points():
        summary = simulate(point, threads=1).summary
        assert summary["drops"] == 0
        sent[summary["conservation"]["packets"]["sent"]] = summary["packet_hops"]
    assert list(sent) == [139_264, 401_408, 802_816, 1_196_032]
    assert list(sent.values()) == [712_660, 2_028_412, 3_290_159, 4_015_421]


if __name__ == "__main__":
    chosen = sys.argv[1:] or [name for name in built_in() if name not in LEFT_OUT]
    known = json.loads(DIGESTS.read_text()) if DIGESTS.exists() else {}
    for name in chosen:
        known[name] = digests(name)
        print(name, len(known[name]), "points", flush=True)
    DIGESTS.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")
