"""Demand-aware circuits: which racks they connect, for how long, and the resulting FCTs."""

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
    """Return an experiment with demand-aware circuits; `given` are topology parameters."""
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
    """Return the fraction of time each rack pair has a circuit, summed over all switches."""
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


def test_greedy_connects_the_racks_with_most_demand(tmp_path: Path) -> None:
    traffic = flow_list(tmp_path, [(0, 1, 900), (1, 2, 500), (2, 3, 800), (3, 0, 100), (0, 2, 10)])
    network = prepare(point_of(tmp_path, traffic, racks=4, circuit_switches=2)).network
    # All uplinks are in use: 0-1 and 2-3, then 1-2 and 3-0 with the remaining ones.
    assert shares(network) == {
        pair: 1.0 for a, b in ((0, 1), (2, 3), (1, 2), (3, 0)) for pair in ((a, b), (b, a))
    }
    assert (
        network_of(point_of(tmp_path, traffic, racks=4, circuit_switches=2)).n_links
        == network.n_links
    )


def test_fct_over_own_circuit_matches_closed_form(tmp_path: Path) -> None:
    """Ten full packets in both directions at once over three links of equal rate."""
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
    # A control delay of 50 us and a night postpone the circuit; packets reach the switch before it.
    control = simulate(
        point_of(tmp_path, traffic, control_delay="50us", reconfiguration_delay="7us", **given)
    )
    first = 57 * US - 300_000
    assert control.flows["fct_ps"].tolist() == [first + 11 * send + delays - 100_000] * 3


@pytest.mark.parametrize(("algorithm", "switches"), [("bvn", 2), ("solstice", 1)])
def test_day_lengths_are_proportional_to_demand(
    tmp_path: Path, algorithm: str, switches: int
) -> None:
    """Two shift patterns of five racks, one with three times the bytes of the other: their days
    have that ratio, whatever the night; no day is shorter than `shortest_day`."""
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
    period = 100 * FULL * 80 // switches + 200 * US  # two days and two nights
    assert set(circuits.period_ps[circuits.ever].tolist()) == {period}
    for k, part in ((1, 75), (2, 25)):
        for rack in range(5):
            share = part * FULL * 80 / period  # summed over all switches
            assert shares(network)[rack, (rack + k) % 5] == pytest.approx(share, abs=1e-6)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_max_weight_schedule_delivers_all_traffic(tmp_path: Path, bidirectional: bool) -> None:
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


def test_flows_without_a_circuit_use_the_packet_fabric(tmp_path: Path) -> None:
    """Rack 1's only incoming uplink serves rack 0, so rack 2 uses packets, as do small messages."""
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
    # The packet fabric has half the rate, so each of its two links takes twice as long.
    assert small == (2 + 2 * 3) * send + 4_200_000
    assert other == (2 + 2 * 6) * send + 4_200_000


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


def test_adapt_must_not_change_the_host_count(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(OTHER)
    sections = {"traffic": 'kind = "permutation"', "top": 'transport = "datagram"'}
    experiment = load(tmp_path, text(topology='kind = "./other.py"\nleaves = [2, 3]', **sections))
    same, more = experiment.points()
    assert prepare(same).network.n_hosts == 4
    with raises_input("adapt()", "hosts"):
        prepare(more)
