"""Shipped inference experiments give the results that their comments state. Compiled."""

from collections.abc import Iterator

import pytest

from netsim.experiment import Experiment, Point, built_in
from netsim.running.point import simulate
from netsim.workloads.collectives import closed_form_ps
from netsim.workloads.collectives.steps import CollectiveOptions, Wire
from netsim.workloads.inference.deployment import (
    all_reduce_bytes,
    compute_ps,
    iteration_cost,
    load_deployment,
    network_ps,
    prompt_pairs,
)

pytestmark = pytest.mark.slow


def points(name: str, *overrides: str, **axes: object) -> Iterator[Point]:
    """Return the points with these values on the axes."""
    for point in Experiment.load(built_in()[name], overrides).points():
        if all(point.axes.get(axis) == value for axis, value in axes.items()):
            yield point


def step_ps(point: Point) -> float:
    return float(simulate(point, threads=1).summary["job"]["step_ps"])


@pytest.mark.parametrize("algorithm", ["ring", "direct"])
def test_layer_time_matches_closed_form(algorithm: str) -> None:
    """Compute time plus two undisturbed all-reduces, within one percent."""
    cost = iteration_cost(load_deployment("llama3_70b_h100"))
    way_ps = 200_000 + 8256 * 8000 // 3600
    wire = Wire(3600 * 10**9, way_ps, 8192, 64)
    computing = {
        "prefill": compute_ps(cost, 1500, prompt_pairs(True, 0, 1500), 0, 0),
        "decode": compute_ps(cost, 32, 0, 32, 32 * 1500),
    }
    for phase, tokens, chunk in (("prefill", 1500, 1 << 19), ("decode", 32, None)):
        size = all_reduce_bytes(cost, tokens)
        reduce_ps = closed_form_ps("all_reduce", 8, size, wire, CollectiveOptions(algorithm, chunk))
        expected = computing[phase] / 80 + 2 * reduce_ps
        axes = {"traffic": phase, "traffic.algorithm": algorithm}
        (point,) = points("inference_h100", **axes)
        assert step_ps(point) == pytest.approx(expected, rel=0.01)


def test_half_batches_overlap_compute_and_network() -> None:
    cost = iteration_cost(load_deployment("llama3_70b_h100"))
    computing = 2 * compute_ps(cost, 1500, prompt_pairs(True, 0, 1500), 0, 0) / 20
    sending = network_ps(cost, 3000) / 20
    axes = {"traffic": "prefill", "traffic.algorithm": "direct", "topology.link_latency": "50ns"}
    took = {
        str(point.axes["traffic.overlap"]): step_ps(point)
        for point in points("inference_overlap", **axes)
    }
    assert took["none"] == pytest.approx(computing + sending, rel=0.03)
    assert max(computing, sending) < took["half_batches"] < 1.16 * max(computing, sending)


def test_packets_win_decode_and_circuit_rings_suit_prefill() -> None:
    def took(fabric: str, phase: str, algorithm: str) -> float:
        axes = {"topology": fabric, "traffic": phase, "traffic.algorithm": algorithm}
        (point,) = points("inference_fabrics", "packets.payload_bytes=16KiB", **axes)
        return step_ps(point)

    assert took("rings", "prefill", "ring") < 1.5 * took("packets", "prefill", "ring")
    packets = took("packets", "decode", "direct")
    assert took("rings", "decode", "direct") > 2 * packets
    assert took("hybrid", "decode", "direct") < 1.25 * packets
