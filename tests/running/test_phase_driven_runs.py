"""Circuit switches that follow the phases of a workload: rejected settings, reported figures."""

from pathlib import Path

import pytest
from experiment_text import load, text
from raises_input import mentions, raises_input

from netsim.errors import InputError
from netsim.experiment import Point
from netsim.reports.circuits import CIRCUIT_SLOTS
from netsim.results import load_result, write_result
from netsim.running.point import simulate

US = 10**6
CONTROL, DARK = 10 * US, 5 * US

TOPOLOGY = '''
"""Four racks of one host, paired in three slots; the flows of a level are a phase."""
from netsim.network import NetworkBuilder, Schedule
from netsim.params import Param

PARAMS = [
    Param("control", "time", "10us", "of an order"),
    Param("turned", "bool", False, "whether the second and the third matching change places"),
]
PAIRS = [[1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]]

def build(params):
    builder = NetworkBuilder()
    builder.add_hosts(4)
    tors = builder.add_switches(["tor0", "tor1", "tor2", "tor3"])
    pairs = [PAIRS[0], PAIRS[2], PAIRS[1]] if params["turned"] else PAIRS
    delays = {"control_delay_ps": params["control"], "reconfiguration_delay_ps": 5_000_000}
    ocs = builder.add_circuit_switch("ocs", Schedule(None, pairs, **delays))
    for host, tor in enumerate(tors):
        builder.cable(host, tor, 100 * 10**9, 1_000_000)
        builder.fiber(tor, ocs, 100 * 10**9, 1_000_000)
    return builder.build("phases")

def adapt(params, network, demand):
    return network.with_phases(demand.level)
'''
TRAFFIC = '''
"""Three exchanges; a flow starts `compute` after its source received the flow before."""
from netsim.flows import FlowTable
from netsim.params import Param

PARAMS = [
    Param("size", "bytes", "100KB", "of a flow"),
    Param("compute", "time", "0us", "between exchanges"),
]

def flows(params, network, rng, context):
    src = [host for turn in range(3) for host in range(4)]
    dst = [host ^ 1 + turn for turn in range(3) for host in range(4)]
    start = [0] * 4 + [params["compute"]] * 8
    table = FlowTable(src, dst, params["size"], start)
    table.wait_for([[k for k in range(f - f % 4) if dst[k] == src[f]] for f in range(12)])
    return table
'''
SECTIONS = {
    "top": 'transport = "datagram"',
    "topology": 'kind = "./phases.py"',
    "traffic": 'kind = "./exchanges.py"',
    "fabric": 'queue_bytes = "1GB"',
}


pytestmark = pytest.mark.usefixtures("plain_python")


def point_of(tmp_path: Path, *overrides: str) -> Point:
    (tmp_path / "phases.py").write_text(TOPOLOGY)
    (tmp_path / "exchanges.py").write_text(TRAFFIC)
    (point,) = load(tmp_path, text(**SECTIONS), *overrides).points()
    return point


def test_invalid_phase_settings_are_rejected(tmp_path):
    for override, message in [
        ("topology.control=1us", "a control delay of 1us"),
        ("fabric.circuits.indirect=vlb", "packets would need later slots"),
        ("topology.turned=true", "flow 4 (host 0 to host 2) has phase 1"),
    ]:
        with pytest.raises(InputError) as caught:
            simulate(point_of(tmp_path, override))
        assert message in str(caught.value)


def test_topology_without_adapt_is_rejected(tmp_path):
    point = point_of(tmp_path)
    (tmp_path / "phases.py").write_text(TOPOLOGY[: TOPOLOGY.index("def adapt")])
    (point,) = load(tmp_path, text(**SECTIONS)).points()
    with raises_input("flow", key="topology"):
        simulate(point)


def test_result_reports_slot_times_and_exposed_waits(tmp_path):
    point = point_of(tmp_path)
    result = simulate(point)
    written = load_result(write_result(tmp_path / "out", point, result))
    slots = written.circuit_slots
    assert slots is not None
    assert [column.name for column in CIRCUIT_SLOTS.columns] == slots.columns
    flows, n = result.flows, slots["slot"].to_numpy()
    ends = (flows["start_ps"] + flows["fct_ps"]).reshape(3, 4)
    assert n.tolist() == [0, 1, 2]
    assert slots["flows"].to_list() == [4, 4, 4]
    assert slots["bytes"].to_list() == [400_000] * 3
    assert slots["end_ps"].to_list() == ends.max(axis=1).tolist()
    begins = slots["reconfiguration_start_ps"].to_list()
    assert begins == [0, *(ends[:2].max(axis=1) + CONTROL).tolist()]
    assert slots["start_ps"].to_list() == flows["start_ps"].reshape(3, 4).min(axis=1).tolist()
    # Flows start at the last delivery; circuits are up after control delay and reconfiguration.
    waited = slots["exposed_wait_ps"].to_list()
    assert waited == [0, CONTROL + DARK, CONTROL + DARK]
    circuits = written.summary["circuits"]
    assert (circuits["slots"], circuits["exposed_wait_ps"]) == (3, sum(waited))
    end = written.summary["simulated_ps"]
    lit = [ends[0].max() + CONTROL, begins[2] - begins[1] - DARK, end - begins[2] - DARK]
    # Each pair has a circuit in one of the three slots.
    assert circuits["circuit_duty_cycle"] == pytest.approx(sum(lit) / 3 / end)


def test_unfinished_phase_is_reported(tmp_path):
    """A link loses all packets, and datagrams are not resent: the first phase never ends."""
    point = point_of(tmp_path, "faults.worn.links=tor2 -> tor3", "faults.worn.loss_rate=1")
    result = simulate(point)
    assert not result.complete
    assert result.reason is not None
    assert mentions(result.reason, "slot 1", "flow 2")
    assert result.circuit_slots is not None
    assert result.circuit_slots["reconfiguration_start_ps"].tolist() == [0, -1, -1]
    assert result.circuit_slots["end_ps"].tolist() == [-1, -1, -1]
    assert result.summary["circuits"]["slots"] == 1
