"""Experiments with circuits: rejected settings, links selected by faults, reported statistics."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from experiment_text import load, text
from raises_input import mentions, raises_input

from netsim.cli.trace_output import summary
from netsim.experiment import Point
from netsim.experiment.place_faults import link_faults
from netsim.experiment.scenario import prepare
from netsim.network import Network
from netsim.reports.links import LINKS
from netsim.results import load_result, write_result
from netsim.results.run_result import RunResult
from netsim.results.write import sweep_row
from netsim.running.estimate import code_needed, feature_set_of
from netsim.running.point import simulate
from netsim.tracing import trace_flow

US = 10**6

ROTOR = {
    "top": 'transport = "datagram"',
    "topology": 'kind = "ocs"\nracks = 4\nhosts_per_rack = 1\nslot = "20us"\n'
    'reconfiguration_delay = "2us"',
    "traffic": 'kind = "all_to_all"\nsize = "100KB"',
    "fabric": 'queue_bytes = "1GB"',
}


pytestmark = pytest.mark.usefixtures("plain_python")


def point_of(tmp_path: Path, sections: dict[str, str] = ROTOR, **more: str) -> Point:
    (point,) = load(tmp_path, text(**{**sections, **more})).points()
    return point


def test_lossless_fabric_with_circuits_is_rejected(tmp_path):
    point = point_of(tmp_path, top='transport = "roce"', fabric='queue_discipline = "lossless"')
    with raises_input(key="fabric.queue_discipline"):
        code_needed([point], [feature_set_of(prepare(point), point.packets)])


def test_run_warns_when_no_packet_can_go_indirectly(tmp_path, capsys):
    opportunistic = {"fabric.circuits": 'indirect = "opportunistic"'}
    result = simulate(
        point_of(tmp_path, fabric=ROTOR["fabric"] + "\nn_traffic_classes = 2", **opportunistic)
    )
    assert result.summary["circuits"]["indirect_packets"] == 0
    assert mentions(capsys.readouterr().err, "class 0")


MOVES = ("send", "forward", "receive")


def test_trace_shows_packets_through_an_intermediate_rack(tmp_path):
    point = point_of(
        tmp_path,
        top='[transport]\nkind = "datagram"\ndata_class = 1',
        fabric=ROTOR["fabric"] + "\nn_traffic_classes = 2",
        **{"fabric.circuits": 'indirect = "opportunistic"'},
    )
    result = simulate(point)
    assert result.summary["circuits"]["indirect_packets"] > 0
    write_result(tmp_path / "result", point, result)
    events = trace_flow(load_result(tmp_path / "result"), 0).events
    indirect = events.filter(pl.col("event") == "indirect")
    assert len(indirect) > 0
    assert set(indirect["node_name"]) == {"tor0"}
    assert set(indirect["to_name"]) == {"tor1"}
    for packet in indirect["packet"].to_list():
        way = events.filter((pl.col("packet") == packet) & pl.col("event").is_in(MOVES))
        names = way["node_name"].to_list()
        assert names[:2] == ["h0", "tor0"]
        assert names[2] in ("tor2", "tor3")
        assert names[3:] == ["tor1", "h1"]
    assert (events.filter(pl.col("event") == "forward")["wait_ps"].drop_nulls() > 0).any()


def ports_of(tmp_path: Path, fault: str) -> tuple[Network, list[str]]:
    """Return the network and the links that a fault selects, as "tor0-tor3"."""
    topology = ROTOR["topology"].replace("racks = 4", "racks = 7\ncircuit_switches = 3")
    point = point_of(tmp_path, topology=topology, **{"faults.dead": fault})
    network = prepare(point).network
    faults = link_faults(point, network)
    assert faults is not None
    faulty = np.flatnonzero(np.diff(faults.outage_ptr))
    names = [network.node_name(n) for n in network.port_node]
    links = [f"{names[p]}-{names[network.port_peer[p]]}" for p in faulty.tolist()]
    return network, links


def circuits_of(network: Network, rotor: int) -> set[str]:
    circuits = network.circuits
    assert circuits is not None
    names = [network.node_name(n) for n in network.port_node]
    ports = np.flatnonzero(circuits.of_port == rotor).tolist()
    return {f"{names[p]}-{names[network.port_peer[p]]}" for p in ports}


def test_fault_patterns_select_circuit_switches_and_fibers(tmp_path):
    down = '\ndown = "1us"\nup = "2us"'
    network, links = ports_of(tmp_path, 'node = "rotor1"' + down)
    assert set(links) == circuits_of(network, 1)
    own = {link for link in circuits_of(network, 1) if "tor2" in link}
    away = {link for link in own if link.startswith("tor2-")}
    for pattern, expected in (
        ("tor2 - rotor1", own),
        ("rotor1 - tor2", own),
        ("tor2 -> rotor1", away),
        ("rotor1 -> tor2", own - away),
        ("tor2 - tor3", {"tor2-tor3", "tor3-tor2"}),
    ):
        assert set(ports_of(tmp_path, f'links = "{pattern}"' + down)[1]) == expected, pattern


def test_all_circuits_of_a_fiber_fail_together(tmp_path):
    fault = 'links = "tor1 - rotor0"\nmtbf = "30us"\nmttr = "10us"\nuntil = "200us"'
    point = point_of(tmp_path, **{"faults.worn": fault})
    scenario = prepare(point)
    assert scenario.faults is not None
    ends = scenario.faults.outage_ptr
    times = {scenario.faults.outages_ps[a:b].tobytes() for a, b in pairwise(ends.tolist()) if b > a}
    assert len(times) == 1


def test_result_reports_circuit_statistics(tmp_path):
    lost = {"fabric.circuits": 'at_circuit_end = "drop"', "stop": 'max_time = "200us"'}
    point = point_of(tmp_path, **lost)
    result = simulate(point)
    figures = result.summary["circuits"]
    assert (figures["switches"], figures["circuits"]) == (1, 6)
    assert (
        figures["no_circuit_drops"]
        == result.links["no_circuit_drops"].sum()
        == result.summary["lost"]
        > 0
    )
    # Each circuit is up in one slot of three, after the reconfiguration delay.
    end = int(result.summary["simulated_ps"])
    days = [(slot * 20 * US + 2 * US, (slot + 1) * 20 * US) for slot in range(20)]
    lit = sum(min(end, down) - min(end, up) for up, down in days)
    assert figures["circuit_duty_cycle"] == pytest.approx(lit / 3 / end)
    write_result(tmp_path / "result", point, result)
    read = load_result(tmp_path / "result")
    assert {"circuit_switch", "no_circuit_drops", "no_circuit_bytes"} <= set(read.links.columns)
    assert {column.name for column in LINKS.columns} >= set(read.links.columns)
    row = sweep_row(point, read.summary)
    assert (row["no_circuit_drops"], row["circuit_duty_cycle"]) == (
        figures["no_circuit_drops"],
        figures["circuit_duty_cycle"],
    )


def test_waiting_for_a_long_circuit_cycle_is_not_a_stall(tmp_path):
    """Nothing moves for two slots of 80 ms, longer than the usual stall timeout."""
    topology = ROTOR["topology"].replace('"20us"', '"80ms"')
    result = simulate(
        point_of(tmp_path, topology=topology, traffic='kind = "all_to_all"\nsize = "4KB"')
    )
    assert (result.stop_reason, result.complete) == ("finished", True)
    assert result.flows["fct_ps"].max() > 160 * 10**9


ONCE = '''
"""Two racks with a circuit that is up for 20 us, once."""
from netsim.network import NetworkBuilder, Schedule

PARAMS = []

def build(params):
    builder = NetworkBuilder()
    builder.add_hosts(2)
    tors = builder.add_switches(["tor0", "tor1"])
    schedule = Schedule(20_000_000, [[1, 0], [-1, -1]], repeats=False)
    circuits = builder.add_circuit_switch("ocs", schedule)
    for host, tor in enumerate(tors):
        builder.cable(host, tor, 100 * 10**9, 1_000_000)
        builder.fiber(tor, circuits, 100 * 10**9, 1_000_000)
    return builder.build("once")
'''


def test_reason_names_ports_whose_circuit_never_returns(tmp_path):
    (tmp_path / "once.py").write_text(ONCE)

    def run_of(size: str) -> RunResult:
        traffic = f'kind = "all_to_all"\nsize = "{size}"'
        return simulate(point_of(tmp_path, topology='kind = "./once.py"', traffic=traffic))

    assert run_of("4KB").complete
    result = run_of("300KB")
    assert (result.stop_reason, result.complete) == ("undelivered", False)
    assert result.reason is not None
    assert mentions(result.reason, "tor0:1", "tor1:1")


HYBRID = f"""
\"\"\"Racks with circuits and a spine.\"\"\"

import sys

sys.path.insert(0, {str(Path(__file__).parent.parent)!r})
from hybrids import hybrid

PARAMS = []


def build(params):
    return hybrid(fallback="packets")
"""


def test_result_names_the_routing_table_of_each_flow(tmp_path):
    (tmp_path / "hybrid.py").write_text(HYBRID.lstrip())
    traffic = 'kind = "all_to_all"\nsize = "2KB"'
    point = point_of(tmp_path, topology='kind = "./hybrid.py"', traffic=traffic)
    result = load_result(write_result(tmp_path / "out", point, simulate(point)))
    flows = result.flows
    joined = flows["src"] + flows["dst"] == 3  # paired in the first slot
    tables = ["circuits" if one else "packets" for one in joined]
    assert flows["routing_table"].to_list() == tables
    assert set(tables) == {"circuits", "packets"}
    traced = trace_flow(result, 0)
    assert traced.routing_table == tables[0]
    assert f"h{flows['src'][0]} to h{flows['dst'][0]} by {tables[0]}, " in summary(traced)[0]
    assert "routing_table" not in simulate(point_of(tmp_path)).flows
