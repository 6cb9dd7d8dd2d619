"""Circuits that follow the traffic: what they join, for how long, and what a message then takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiment_text import load, text
from raises_input import raises_input

from netsim.experiment.scenario import network_of, prepare
from netsim.model.circuit_times import duty
from netsim.network import Network
from netsim.running.point import simulate

US = 10**6
FULL = 4160
"""Bytes of a full packet on the wire."""


pytestmark = pytest.mark.usefixtures("plain_python")


def point_of(
    tmp_path: Path, traffic: str, seed: int = 1, transport: str = "datagram", **given: Any
):
    """An experiment of demand-aware circuits; `given` are their parameters."""
    table = {"kind": "ocs", "hosts_per_rack": 1, "schedule": "demand_aware", **given}
    topology = "\n".join(
        f"{key} = {str(value).lower() if isinstance(value, bool) else repr(value)}"
        for key, value in table.items()
    )
    top = f'transport = "{transport}"\nseed = {seed}'
    sections = {"traffic": traffic, "fabric": 'queue_bytes = "1GB"'}
    (point,) = load(tmp_path, text(top=top, topology=topology, **sections)).points()
    return point


def flow_list(tmp_path: Path, rows: list[tuple[int, int, int]]) -> str:
    lines = ["src,dst,size_bytes", *(",".join(map(str, row)) for row in rows)]
    (tmp_path / "flows.csv").write_text("\n".join(lines))
    return 'kind = "flow_list"\nfile = "flows.csv"'


def shares(network: Network) -> dict[tuple[int, int], float]:
    """For what share of the time light passes from a rack to another, by all switches together."""
    circuits = network.circuits
    assert circuits is not None
    share = duty(circuits)
    found: dict[tuple[int, int], float] = {}
    for port in np.flatnonzero(circuits.of_port >= 0).tolist():
        if circuits.ever_up is None or circuits.ever_up[port]:
            ends = network.port_node[[port, int(network.port_peer[port])]] - network.n_hosts
            pair = (int(ends[0]), int(ends[1]))
            found[pair] = found.get(pair, 0) + share[port]
    return found


def test_greedy_circuits_join_who_sends_most(tmp_path: Path) -> None:
    traffic = flow_list(tmp_path, [(0, 1, 900), (1, 2, 500), (2, 3, 800), (3, 0, 100), (0, 2, 10)])
    network = prepare(point_of(tmp_path, traffic, racks=4, circuit_switches=2)).network
    # All uplinks are in use: 0 and 1, 2 and 3, and with what is left 1 and 2, 3 and 0.
    assert shares(network) == {
        pair: 1.0 for a, b in ((0, 1), (2, 3), (1, 2), (3, 0)) for pair in ((a, b), (b, a))
    }
    assert (
        network_of(point_of(tmp_path, traffic, racks=4, circuit_switches=2)).n_links
        == network.n_links
    )


def test_a_message_over_its_own_circuit_takes_the_closed_form(tmp_path: Path) -> None:
    """Both ways at once, ten full packets, over three links of one rate."""
    traffic = flow_list(tmp_path, [(0, 3, 40960), (3, 0, 40960), (1, 2, 40960)])
    given = {"racks": 4, "host_latency": "100ns", "fiber_latency": "300ns"}
    result = simulate(point_of(tmp_path, traffic, **given))
    send = FULL * 80
    delays = 100_000 + 600_000 + 100_000
    assert result.flows["fct_ps"].tolist() == [12 * send + delays] * 3
    figures = result.summary["circuits"]
    assert (
        figures["circuits"] > 0,
        figures["circuit_duty_cycle"],
        figures["no_circuit_drops"],
    ) == (True, 1, 0)
    # With a control plane light passes 50 us and a night later; its way to the switch is earlier.
    control = simulate(
        point_of(tmp_path, traffic, control_delay="50us", reconfiguration_delay="7us", **given)
    )
    first = 57 * US - 300_000
    assert control.flows["fct_ps"].tolist() == [first + 11 * send + delays - 100_000] * 3


def test_what_is_not_answered_needs_no_way_back(tmp_path: Path) -> None:
    """Light from rack 0 to rack 1 alone: datagrams take the closed form, NDP is refused."""
    (tmp_path / "ways.txt").write_text("0 0 1\n")
    given = {"racks": 2, "schedule": "static", "bidirectional": False, "matching_file": "ways.txt"}
    point = point_of(tmp_path, flow_list(tmp_path, [(0, 1, 40960)]), **given)
    result = simulate(point)
    assert result.flows["fct_ps"].tolist() == [12 * FULL * 80 + 2 * 500_000 + 2 * 500_000]
    with raises_input("host 1", "host 0"):
        prepare(point_of(tmp_path, flow_list(tmp_path, [(0, 1, 1)]), transport="ndp", **given))


@pytest.mark.parametrize(("algorithm", "switches"), [("bvn", 2), ("solstice", 1)])
def test_days_are_as_long_as_the_demand_needs(
    tmp_path: Path, algorithm: str, switches: int
) -> None:
    """Two shifts of five racks, one with three times the bytes of the other, however long nights
    are; but no day is shorter than `shortest_day`."""
    rows = [(r, (r + k) % 5, size * 4096) for r in range(5) for k, size in ((1, 75), (2, 25))]
    given = {
        "racks": 5, "circuit_switches": switches, "bidirectional": False, "algorithm": algorithm,
        "reconfiguration_delay": "100us", "day_margin": 0.0,
    }  # fmt: skip
    traffic = flow_list(tmp_path, rows)
    longer = prepare(point_of(tmp_path, traffic, shortest_day="30us", **given)).network
    assert shares(longer)[0, 1] == pytest.approx(shares(longer)[0, 2])
    network = prepare(point_of(tmp_path, traffic, **given)).network
    circuits = network.circuits
    assert circuits is not None
    period = 100 * FULL * 80 // switches + 200 * US  # of both shifts, and two nights
    assert set(circuits.period_ps[circuits.ever].tolist()) == {period}
    for k, part in ((1, 75), (2, 25)):
        for rack in range(5):
            share = part * FULL * 80 / period  # by all switches together
            assert shares(network)[rack, (rack + k) % 5] == pytest.approx(share, abs=1e-6)


def test_a_period_stretches_days_and_keeps_nights(tmp_path: Path) -> None:
    rows = [(r, (r + k) % 5, size * 4096) for r in range(5) for k, size in ((1, 75), (2, 25))]
    given = {
        "racks": 5,
        "bidirectional": False,
        "algorithm": "solstice",
        "reconfiguration_delay": "1us",
    }
    traffic = flow_list(tmp_path, rows)
    network = prepare(point_of(tmp_path, traffic, period="10us", **given)).network
    assert shares(network)[0, 1] == pytest.approx(0.6, abs=1e-6)
    assert shares(network)[0, 2] == pytest.approx(0.2, abs=1e-6)
    slow = prepare(point_of(tmp_path, traffic, period="10us", control_delay="2us", **given)).network
    assert shares(slow)[0, 1] == pytest.approx(0.45, abs=1e-6)
    with raises_input("2", key="topology.period") as caught:
        prepare(point_of(tmp_path, traffic, period="2us", **given))
    assert caught.value.key == "topology.period"


@pytest.mark.parametrize("bidirectional", [True, False])
def test_everything_arrives_with_the_best_matching_of_each_slot(
    tmp_path: Path, bidirectional: bool
) -> None:
    point = point_of(
        tmp_path, 'kind = "all_to_all"\nsize = "20KB"', racks=5, circuit_switches=2,
        bidirectional=bidirectional,
        algorithm="max_weight", slot="8us", reconfiguration_delay="1us",
    )  # fmt: skip
    scenario = prepare(point)
    assert set(shares(scenario.network)) == {(a, b) for a in range(5) for b in range(5) if a != b}
    result = simulate(point)
    assert result.complete
    assert result.summary["lost"] == 0


def test_at_most_so_many_slots_are_kept(tmp_path: Path) -> None:
    traffic = 'kind = "all_to_all"\nsize = "20KB"'
    given = {"racks": 6, "bidirectional": False, "algorithm": "solstice", "max_matchings": 3}
    network = prepare(point_of(tmp_path, traffic, **given)).network
    assert len(shares(network)) == 3 * 6


def test_a_wrong_prediction_has_other_circuits_and_the_same_sum(tmp_path: Path) -> None:
    traffic = flow_list(tmp_path, [(r, (r + 1) % 8, 409600) for r in range(8)])
    given = {"racks": 8, "bidirectional": False, "algorithm": "bvn", "reconfiguration_delay": "1us"}
    right = shares(prepare(point_of(tmp_path, traffic, **given)).network)
    assert right == {(r, (r + 1) % 8): 1.0 for r in range(8)}
    wrong = [
        shares(prepare(point_of(tmp_path, traffic, seed, prediction_error=0.4, **given)).network)
        for seed in (1, 1, 2)
    ]
    assert wrong[0] == wrong[1] != wrong[2]
    assert set(wrong[0]) > set(right)
    assert all(wrong[0][pair] < 0.9 for pair in right)


def test_traffic_that_stays_in_racks_has_no_circuits(tmp_path: Path) -> None:
    traffic = flow_list(tmp_path, [(0, 1, 4096), (2, 3, 4096)])
    for algorithm in ("greedy", "bvn", "solstice", "max_weight"):
        point = point_of(
            tmp_path, traffic, racks=2, hosts_per_rack=2, bidirectional=False, algorithm=algorithm
        )
        assert shares(prepare(point).network) == {}
        assert simulate(point).complete


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    for given, key, message in [
        ({"stagger": True}, "stagger", "greedy"),
        ({"static_pattern": "ring"}, "static_pattern", ""),
        ({"slot": "1us"}, "slot", "greedy"),
        ({"algorithm": "bvn"}, "algorithm", "circuit"),
        ({"algorithm": "max_weight", "slot": "10us"}, "slot", "day"),
        ({"schedule": "rotor", "control_delay": "1us"}, "control_delay", "rotor"),
        ({"schedule": "static", "prediction_error": 0.1}, "prediction_error", ""),
        ({"small_message_max": "1KB"}, "small_message_max", "packet_uplink_rate"),
    ]:
        with raises_input(message) as caught:
            prepare(point_of(tmp_path, 'kind = "permutation"', racks=4, **given))
        assert caught.value.key == f"topology.{key}"


def test_what_has_no_circuit_goes_by_packets(tmp_path: Path) -> None:
    """Rack 1 has one uplink in, which is that of rack 0; and a small message takes no circuit."""
    rows = [(0, 1, 40960), (1, 0, 8192), (2, 1, 20480), (3, 2, 40960)]
    given = {
        "racks": 4,
        "packet_uplink_rate": "50Gbps",
        "small_message_max": "10KB",
        "bidirectional": False,
    }
    given |= {"host_latency": "100ns", "fiber_latency": "300ns", "packet_latency": "2us"}
    point = point_of(tmp_path, flow_list(tmp_path, rows), **given)
    network = prepare(point).network
    assert shares(network) == {(0, 1): 1.0, (3, 2): 1.0}
    assert network.switch_names[4:] == ("spine0",)
    flows = simulate(point).flows
    assert flows["routing_table"].tolist() == ["circuits", "packets", "packets", "circuits"]
    send = FULL * 80
    circuit, small, other, _ = flows["fct_ps"].tolist()
    assert circuit == 12 * send + 800_000
    # At half the rate a packet takes twice as long on the two links of the packet fabric.
    assert small == (2 + 2 * 3) * send + 4_200_000
    assert other == (2 + 2 * 6) * send + 4_200_000


def test_racks_that_no_circuit_joins_are_told(tmp_path: Path) -> None:
    """One uplink each joins 0 and 1, 2 and 3, and nobody else."""
    traffic = flow_list(tmp_path, [(0, 1, 900), (2, 3, 900), (1, 2, 10)])
    with raises_input("flow 2", key="topology"):
        prepare(point_of(tmp_path, traffic, racks=4))


OTHER = '''
"""A topology that changes its mind."""
from netsim.network import build_topology
from netsim.params import Param

PARAMS = [Param("leaves", "count", 2, "leaves")]


def build(params):
    return build_topology("fat_tree", hosts_per_leaf=2, leaves=2)


def adapt(params, network, demand):
    assert demand.n_edges == 2
    return build_topology("fat_tree", hosts_per_leaf=2, leaves=params["leaves"])
'''


def test_any_topology_may_adapt_but_keeps_its_hosts(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(OTHER)
    sections = {"traffic": 'kind = "permutation"', "top": 'transport = "datagram"'}
    experiment = load(tmp_path, text(topology='kind = "./other.py"\nleaves = [2, 3]', **sections))
    same, more = experiment.points()
    assert prepare(same).network.n_hosts == 4
    with raises_input("adapt()", "hosts"):
        prepare(more)


def test_presets_run_with_what_belongs_to_them(tmp_path: Path) -> None:
    for topology, packets, circuits in [
        ('kind = "ocs:rotornet"\ncircuit_switches = 2', "", 'indirect = "opportunistic"'),
        (
            'kind = "ocs:opera"\ncircuit_switches = 4\ndrain_time = "20us"\nsmall_message_max = '
            '"15KB"',
            "",
            "",
        ),
        ('kind = "ocs:sirius"\ncircuit_switches = 2', 'payload_bytes = "448B"', 'indirect = "vlb"'),
        ('kind = "ocs:mems"\ncircuit_switches = 2', "", ""),
        ('kind = "ocs:piezo"\ncircuit_switches = 2\ncontrol_delay = "20us"', "", ""),
    ]:
        content = text(
            top='transport = { kind = "datagram", data_class = 1 }',
            topology=f"{topology}\nracks = 8\nhosts_per_rack = 1",
            traffic='kind = "all_to_all"\nsize = "10KB"\ngroup_size = 2',
            packets=packets,
            fabric='n_traffic_classes = 2\nqueue_bytes = "1GB"',
            **{"fabric.circuits": circuits} if circuits else {},
        )
        (point,) = load(tmp_path, content).points()
        result = simulate(point)
        assert result.complete
        assert result.summary["lost"] == 0
