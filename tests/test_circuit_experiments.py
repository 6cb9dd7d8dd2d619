"""Circuit experiments give the results that their comments state. Compiled and slow."""

import pytest

from netsim.experiment import Experiment, Point, built_in
from netsim.running.point import simulate
from netsim.units import parse_time_ps

US = 10**6


def points(name: str) -> list[Point]:
    return Experiment.load(built_in()[name]).points()


@pytest.mark.slow
def test_circuit_throughput_matches_its_duty_cycle() -> None:
    """Each pair among five racks is connected in one of five slots, which have nights of 10 us."""
    for point in points("ocs_duty"):
        slot_ps = parse_time_ps(point.axes["topology.slot"])
        size = point.traffic.params["size"]
        send_ps = (size + -(-size // 4096) * 64) * 80
        expected_ps = 5 * send_ps * slot_ps / (slot_ps - 10 * US)
        flows = simulate(point, threads=1).flows
        assert flows["fct_ps"].max() == pytest.approx(expected_ps, rel=0.02)


@pytest.mark.slow
def test_accurate_predictions_match_a_packet_switch() -> None:
    """Pipeline and ring take at most 5 % longer; larger prediction errors take longer."""
    took: dict[tuple[str, str], dict[float, int]] = {}
    for point in points("ocs_demand"):
        fabric, traffic = point.axes["topology"], point.axes["traffic"]
        error = point.topology.params.get("prediction_error", 0.0)
        result = simulate(point, threads=1)
        assert result.complete
        took.setdefault((fabric, traffic), {})[error] = int(result.summary["simulated_ps"])
    for traffic in ("pipeline", "ring_all_reduce"):
        (packets,) = took["packets", traffic].values()
        assert took["circuits", traffic][0.0] < 1.05 * packets
    step = took["circuits", "pipeline"]
    assert [step[error] for error in sorted(step)] == sorted(set(step.values()))


@pytest.mark.slow
def test_circuits_for_every_message_avoid_trimming() -> None:
    """Messages share no circuit: none is trimmed, and the last ends no later than on a tree."""
    last = {}
    for point in points("p2p_ocs_512"):
        if point.transport.name != "ideal":
            result = simulate(point, threads=1)
            assert result.summary["trims"] == 0
            last[point.axes["topology"]] = int(result.flows["fct_ps"].max())
    assert last["circuits"] <= last["tree"]
