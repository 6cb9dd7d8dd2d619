"""Circuits of `ocs` that are reconfigured for each phase of the traffic."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiment_text import load, text
from fuzz.experiments import text_of

from netsim.experiment.scenario import prepare
from netsim.network import Network
from netsim.results.run_result import RunResult
from netsim.running.point import simulate

US = 10**6
SWITCHING, CONTROL = 25 * US, 20 * US


pytestmark = pytest.mark.usefixtures("plain_python")


def point_of(
    tmp_path: Path,
    transport: str = "datagram",
    sections: dict[str, str] | None = None,
    **given: Any,
):
    """Return an all-reduce of four one-host racks with partners at distance 2, 1, 1 and 2."""
    table = {"kind": "ocs", "racks": 4, "hosts_per_rack": 1, "schedule": "demand_aware"}
    table |= {"circuit_switches": 2, "reconfiguration_delay": "25us", "host_rate": "200Gbps"}
    sections = {"traffic": 'kind = "halving_doubling"\nsize = "400KB"'} | (sections or {})
    top = f'transport = "{transport}"'
    content = text(top=top, topology=text_of(table | given), **sections)
    (point,) = load(tmp_path, content).points()
    return point


def phased(tmp_path: Path, **given: Any) -> RunResult:
    return simulate(point_of(tmp_path, reconfigure="per_phase", **given))


def joined(network: Network, slot: int) -> dict[int, set[int]]:
    """Return the racks that each rack has a circuit to in a slot, through any switch."""
    circuits = network.circuits
    assert circuits is not None
    assert circuits.up_in_slot is not None
    found: dict[int, set[int]] = {}
    for port in np.flatnonzero((circuits.of_port >= 0) & circuits.up_in_slot[slot]).tolist():
        if circuits.ever_up is None or circuits.ever_up[port]:
            ends = network.port_node[[port, int(network.port_peer[port])]] - network.n_hosts
            found.setdefault(int(ends[0]), set()).add(int(ends[1]))
    return found


@pytest.mark.parametrize("bidirectional", [True, False])
def test_each_phase_uses_all_uplinks_for_its_circuits(tmp_path: Path, bidirectional: bool) -> None:
    network = prepare(
        point_of(tmp_path, reconfigure="per_phase", bidirectional=bidirectional)
    ).network
    partners = [2, 1, 2]
    for slot, away in enumerate(partners):
        assert joined(network, slot) == {rack: {rack ^ away} for rack in range(4)}
    assert network.phase_of_flow is not None
    # The two middle steps have the same partners, so they share a phase.
    assert network.phase_of_flow.reshape(4, 4).T.tolist() == [[0, 1, 1, 2]] * 4


def test_reconfiguration_starts_when_a_phase_is_delivered(tmp_path: Path) -> None:
    """This holds for transports with acknowledgments, too: these arrive before circuits change."""
    for transport in ["datagram", "ndp", "nscc", "dctcp"]:
        result = phased(tmp_path, transport=transport)
        assert result.complete
        assert result.circuit_slots is not None
        flows = result.flows
        ends = (flows["start_ps"] + flows["fct_ps"]).reshape(4, 4).max(axis=1)
        begins = result.circuit_slots["reconfiguration_start_ps"].tolist()
        assert begins == [0, ends[0] + CONTROL, ends[2] + CONTROL]
        starts = flows["start_ps"].reshape(4, 4).min(axis=1)
        waited = [
            begin + SWITCHING - start
            for begin, start in zip(begins[1:], starts[[1, 3]], strict=True)
        ]
        assert result.circuit_slots["exposed_wait_ps"].tolist() == [0, *waited]


def test_flows_without_a_circuit_in_their_phase_use_packets(tmp_path: Path) -> None:
    """Host 0 has two partners but one circuit, so one of its flows uses the packet fabric."""
    lines = ["src,dst,size_bytes,after", "0,1,40960,", "0,2,4096,", "1,0,8192,0 1", "2,3,9999,"]
    (tmp_path / "flows.csv").write_text("\n".join(lines))
    sections = {"traffic": 'kind = "flow_list"\nfile = "flows.csv"'}
    sections |= {"fabric": 'queue_bytes = "1GB"'}
    given = {"circuit_switches": 1, "packet_uplink_rate": "10Gbps"}
    result = phased(tmp_path, sections=sections, **given)
    assert result.complete
    assert result.flows["routing_table"].tolist() == ["slot 0", "packets", "slot 1", "slot 0"]
