"""Optical circuit switches: rotors, static and demand-aware circuits, phases."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_runs import DROP_TAIL, US, build, fct_ps, flow_table, resolve, run
from experiment_text import load, text
from fuzz.experiments import text_of
from raises_input import raises_input

from netsim.experiment.scenario import network_of, prepare
from netsim.model.circuit_times import duty
from netsim.network import Network, pairs_by_circuits, random_rounds
from netsim.plugins import registry
from netsim.running.point import simulate

G = 10**9


def ocs(**given: Any) -> Network:
    """Build the topology from parameters as a user writes them."""
    plugin = registry.find("topology", "ocs")
    network: Network = plugin.module.build(resolve(plugin, given))
    return network


@pytest.mark.parametrize("racks", [2, 5, 8])
@pytest.mark.parametrize("switches", [1, 2])
def test_each_rack_pair_has_one_circuit(racks: int, switches: int) -> None:
    if racks == 2 and switches == 2:
        with raises_input("2", "1", key="topology.circuit_switches"):
            ocs(racks=racks, hosts_per_rack=1, circuit_switches=switches)
        return
    network = ocs(racks=racks, hosts_per_rack=3, circuit_switches=switches)
    circuits = network.circuits
    assert circuits is not None
    assert network.n_hosts == 3 * racks
    ports = np.flatnonzero(circuits.of_port >= 0)
    pairs = {
        (int(network.port_node[p]), int(network.port_node[network.port_peer[p]])) for p in ports
    }
    assert len(ports) == len(pairs) == racks * (racks - 1)
    assert network.diameter == 3
    assert np.unique(circuits.of_port[ports]).tolist() == list(range(switches))
    assert set(circuits.names) == {f"rotor{k}" for k in range(switches)}


def test_rotor_connects_a_rack_to_one_peer_per_slot() -> None:
    times = {"slot": "10us", "reconfiguration_delay": "1us", "sync_delay": "1us"}
    network = ocs(racks=9, hosts_per_rack=1, circuit_switches=3, **times)
    circuits = network.circuits
    assert circuits is not None
    assert circuits.period_ps.tolist() == [30 * US] * 36
    for fiber in range(27):
        own = np.flatnonzero(circuits.fiber == fiber)
        calendars = circuits.calendar[own]
        days = sorted(circuits.days_ps[circuits.first_day[c]].tolist() for c in calendars)
        begins = [begin for begin, _ in days]
        assert len(set(begins)) == len(begins)
        assert all(end - begin == 8 * US and begin % (10 * US) == 2 * US for begin, end in days)


def test_staggered_rotors_reconfigure_at_different_times() -> None:
    times = {"slot": "10us", "reconfiguration_delay": "1us", "stagger": True}
    network = ocs(racks=6, hosts_per_rack=1, circuit_switches=2, **times)
    circuits = network.circuits
    assert circuits is not None
    for number in (0, 1):
        calendars = circuits.calendar[circuits.of_port == number]
        begins = circuits.days_ps[circuits.first_day[calendars], 0]
        assert set(begins % (10 * US)) == {US + number * 5 * US}


@pytest.mark.parametrize(
    ("given", "key", "message"),
    [
        ({"racks": 4, "circuit_switches": 4}, "topology.circuit_switches", ("4", "3")),
        ({"racks": 4, "slot": "10us"}, "topology.slot", ("slot 0", "10us")),
    ],
)
def test_invalid_parameters_are_rejected(given: dict[str, Any], key: str, message: str) -> None:
    with raises_input(message, key=key):
        ocs(hosts_per_rack=1, **given)


def up_ports(network: Network) -> np.ndarray:
    """Return the ports whose circuit is ever up."""
    circuits = network.circuits
    assert circuits is not None
    ports = np.flatnonzero(circuits.of_port >= 0)
    return ports if circuits.ever_up is None else ports[circuits.ever_up[ports]]


def ways_of(network: Network) -> set[tuple[int, str, str]]:
    """Return the circuit switch and both racks of every link that is ever up."""
    circuits = network.circuits
    assert circuits is not None
    up = up_ports(network)
    names = [network.node_name(int(node)) for node in network.port_node]
    return {(int(circuits.of_port[p]), names[p], names[network.port_peer[p]]) for p in up}


def joined(*pairs: tuple[int, int, int], both: bool = True) -> set[tuple[int, str, str]]:
    ways = {(switch, f"tor{a}", f"tor{b}") for switch, a, b in pairs}
    return ways | {(switch, b, a) for switch, a, b in ways} if both else ways


def test_static_patterns_have_the_documented_circuits() -> None:
    fixed = {"hosts_per_rack": 1, "schedule": "static"}
    ring = ocs(racks=4, circuit_switches=2, static_pattern="ring", **fixed)
    assert ways_of(ring) == joined((0, 0, 1), (0, 2, 3), (1, 1, 2), (1, 3, 0))
    one_way = ocs(racks=3, static_pattern="ring", bidirectional=False, **fixed)
    assert ways_of(one_way) == joined((0, 0, 1), (0, 1, 2), (0, 2, 0), both=False)
    pairs = ocs(racks=4, circuit_switches=2, static_pattern="pairs", **fixed)
    assert ways_of(pairs) == joined(*((s, a, a + 1) for s in (0, 1) for a in (0, 2)))
    mesh = ocs(racks=6, circuit_switches=5, **fixed)
    assert {way[1:] for way in ways_of(mesh)} == {
        (f"tor{a}", f"tor{b}") for a in range(6) for b in range(6) if a != b
    }
    assert mesh.circuits is not None
    assert not mesh.circuits.change


def test_invalid_group_parameters_are_rejected() -> None:
    fixed = {"racks": 8, "hosts_per_rack": 1, "circuit_switches": 2, "schedule": "static"}
    for given, words in [
        ({"static_pattern": "ring", "group_size": 3}, "group_size: groups of 3 do not divide 8"),
        ({"static_pattern": "mesh", "group_size": 4}, "group_size: has no effect without a ring"),
        ({"pair_switches": 3}, "pair_switches: 3 of 2 switches cannot"),
        ({"racks": 6, "static_pattern": "hypercube"}, "static_pattern: 6 racks form no hypercube"),
        ({"schedule": "rotor", "pair_switches": 1}, "pair_switches: has no effect"),
    ]:
        with raises_input(f"topology.{words}"):
            ocs(**fixed | given)


def test_matching_file_defines_the_circuits(tmp_path: Path) -> None:
    path = tmp_path / "ways.txt"
    path.write_text("# switch, two racks\n0 0 2\n0 1 3\n1, 0, 1\n")
    given = {"racks": 4, "hosts_per_rack": 1, "circuit_switches": 2, "schedule": "static"}
    network = ocs(matching_file=str(path), **given)
    assert ways_of(network) == joined((0, 0, 2), (0, 1, 3), (1, 0, 1))
    path.write_text("0 0 2\n0 2 0\n1 3 0\n")
    network = ocs(matching_file=str(path), bidirectional=False, **given)
    assert ways_of(network) == joined((0, 0, 2), (0, 2, 0), (1, 3, 0), both=False)
    for words, message in (
        ("0 0 1\n\n0 1 2", "ways.txt:3: switch 0 already joins rack 1"),
        ("2 0 1", "ways.txt:1: unknown circuit switch 2"),
        ("0 0 4", "unknown rack 4"),
        ("0 0", '"0 0" is not a circuit'),
        ("0 zero 1", '"0 zero 1" is not a circuit'),
    ):
        path.write_text(words)
        with raises_input(message):
            ocs(matching_file=str(path), **given)
    path.write_text("0 0 1\n0 2 1")
    with raises_input("port 0", "port 2", "port 1"):
        ocs(matching_file=str(path), bidirectional=False, **given)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_fct_over_permanent_circuit_matches_closed_form(bidirectional: bool) -> None:
    """Ten full packets in sequence over three links of equal rate."""
    network = ocs(
        racks=4, hosts_per_rack=1, schedule="static", circuit_switches=2, static_pattern="ring",
        bidirectional=bidirectional,
        host_latency="100ns", fiber_latency="300ns", switch_latency="50ns",
    )  # fmt: skip
    flows = flow_table([(k, (k + 1) % 4, 40960, 0) for k in range(4)])
    engine = run(build(network, flows, "datagram", DROP_TAIL, jit=False))
    send = 4160 * 80
    delays = 150_000 + 650_000 + 100_000
    assert fct_ps(engine).tolist() == [12 * send + delays] * 4


def test_parameters_of_another_schedule_are_rejected() -> None:
    rotor = {"racks": 4, "hosts_per_rack": 1}
    for given, key in (
        ({"static_pattern": "ring"}, "static_pattern"),
        ({"schedule": "static", "slot": "1us"}, "slot"),
        ({"schedule": "static", "stagger": True}, "stagger"),
    ):
        with raises_input("schedule", key=f"topology.{key}"):
            ocs(**rotor, **given)
    with raises_input("5", "1", key="topology.static_pattern"):
        ocs(racks=5, hosts_per_rack=1, schedule="static", static_pattern="ring")


@pytest.mark.parametrize("racks", [7, 256])
def test_random_matchings_pair_racks_once_with_short_paths(racks: int) -> None:
    """Any five matchings of 256 racks give paths of 3.74 circuits on average and 6 at most, as five
    random matchings do; the circle method gives 4.45 and up to 12."""
    rng = np.random.default_rng(1)
    rounds = random_rounds(racks, rng)
    met = np.zeros((racks, racks), int)
    for matching in rounds:
        here = np.flatnonzero(matching >= 0)
        assert here.size == racks - racks % 2
        assert (matching[matching[here]] == here).all()
        met[here, matching[here]] += 1
    assert (met == 1 - np.eye(racks)).all()
    for _ in range(5 if racks == 256 else 0):
        some = rounds[rng.choice(len(rounds), 5, replace=False)]
        counts = pairs_by_circuits(some.T)
        assert sum(counts) == racks * (racks - 1)
        assert len(counts) == 6
        mean = sum(k * count for k, count in enumerate(counts, 1)) / sum(counts)
        assert mean == pytest.approx(3.74, abs=0.03)


def test_packet_fabric_reaches_racks_without_a_circuit() -> None:
    """In a unidirectional ring, the circuits' routing table reaches only the next rack."""
    ring = {"racks": 5, "hosts_per_rack": 2, "schedule": "static", "static_pattern": "ring"}
    network = ocs(**ring, bidirectional=False, packet_uplink_rate="10Gbps", packet_switches=2)
    assert network.policy is not None
    assert network.policy.names == ["circuits", "packets"]
    hosts = np.arange(10)
    for way, reached in ((0, {0, 1}), (1, {0, 1, 2, 3, 4})):
        for host in hosts:
            to = network.address(hosts, np.full(10, way))
            found = network.reaches(np.full(10, host), to)
            assert {(int(h) // 2 - host // 2) % 5 for h in hosts[found]} == reached
    alone = ocs(**ring, bidirectional=False)
    assert alone.reaches(np.zeros(10, int), hosts).all()


def test_small_messages_take_multi_hop_paths_immediately() -> None:
    """Opera: a small message finds a path at any time; large messages wait for direct circuits."""
    network = ocs(
        racks=8, hosts_per_rack=1, circuit_switches=4, stagger=True, slot="80us",
        reconfiguration_delay="2us", shuffle_seed=1,
        drain_time="5us", small_message_max="8KB", host_latency="100ns", fiber_latency="300ns",
    )  # fmt: skip
    circuits = network.circuits
    assert circuits is not None
    # Seven matchings on four switches: two slots each; the last switch is idle in one of them.
    assert set(circuits.period_ps.tolist()) == {160 * US}
    starts = [7 * US * k for k in range(23)]
    small = [(k % 8, (k + 3) % 8, 4096, start) for k, start in enumerate(starts)]
    large = [(0, other, 8192, 0) for other in range(1, 8)]
    engine = run(build(network, flow_table(small + large), "datagram", DROP_TAIL, jit=False))
    fct = fct_ps(engine)
    send, hop = 4160 * 80, 600_000
    idle_network = [2 * send + 200_000 + hops * (send + hop) for hops in range(1, 7)]
    assert set(fct[:23].tolist()) <= set(idle_network)
    assert (fct[23:] > max(idle_network)).any()


def test_invalid_expander_parameters_are_rejected() -> None:
    drains = {"drain_time": "1us"}
    for given, message in [
        (drains | {"packet_uplink_rate": "10Gbps"}, "conflicts with packet_uplink_rate"),
        (drains | {"schedule": "static"}, 'has no effect with schedule = "static"'),
        ({"small_message_max": "1KB"},
         "has no effect without a packet_uplink_rate or a drain_time"),
        (drains, "topology.drain_time: at 299us circuits do not connect all racks: all"),
        (drains | {"racks": 8, "circuit_switches": 6, "stagger": True},
         "idle, as the rotors do not divide 7 matchings"),
        (drains | {"racks": 24, "circuit_switches": 4, "stagger": True},
         "two racks are 12 circuits apart: rotor0 reconfigures, rotor3 idle, as"),
    ]:  # fmt: skip
        with raises_input(message):
            ocs(**{"racks": 4, "hosts_per_rack": 1, **given})


FULL = 4160  # bytes of a full packet on the wire


def point_of(
    tmp_path: Path, traffic: str, seed: int = 1, transport: str = "datagram", **given: Any
):
    """Return an experiment with demand-aware circuits; `given` are topology parameters."""
    table = {"kind": "ocs", "hosts_per_rack": 1, "schedule": "demand_aware", **given}
    top = f'transport = "{transport}"\nseed = {seed}'
    sections = {"traffic": traffic, "fabric": 'queue_bytes = "1GB"'}
    (point,) = load(tmp_path, text(top=top, topology=text_of(table), **sections)).points()
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


@pytest.mark.usefixtures("plain_python")
def test_greedy_connects_the_racks_with_most_demand(tmp_path: Path) -> None:
    traffic = flow_list(tmp_path, [(0, 1, 900), (1, 2, 500), (2, 3, 800), (3, 0, 100), (0, 2, 10)])
    network = prepare(point_of(tmp_path, traffic, racks=4, circuit_switches=2)).network
    # All uplinks are in use: 0-1 and 2-3, then 1-2 and 3-0 with the remaining ones.
    assert shares(network) == {
        pair: 1.0 for a, b in ((0, 1), (2, 3), (1, 2), (3, 0)) for pair in ((a, b), (b, a))
    }
    unadapted = network_of(point_of(tmp_path, traffic, racks=4, circuit_switches=2))
    assert unadapted.n_links == network.n_links


@pytest.mark.usefixtures("plain_python")
def test_fct_over_own_circuit_matches_closed_form(tmp_path: Path) -> None:
    """Ten full packets in both directions at once over three links of equal rate."""
    traffic = flow_list(tmp_path, [(0, 3, 40960), (3, 0, 40960), (1, 2, 40960)])
    given = {"racks": 4, "host_latency": "100ns", "fiber_latency": "300ns"}
    result = simulate(point_of(tmp_path, traffic, **given))
    send = FULL * 80
    delays = 100_000 + 600_000 + 100_000
    assert result.flows["fct_ps"].tolist() == [12 * send + delays] * 3
    figures = result.summary["circuits"]
    assert (figures["circuit_duty_cycle"], figures["no_circuit_drops"]) == (1, 0)
    assert figures["circuits"] > 0
    # A control delay of 50 us and a night postpone the circuit; packets reach the switch before it.
    control = simulate(
        point_of(tmp_path, traffic, control_delay="50us", reconfiguration_delay="7us", **given)
    )
    first = 57 * US - 300_000
    assert control.flows["fct_ps"].tolist() == [first + 11 * send + delays - 100_000] * 3


@pytest.mark.usefixtures("plain_python")
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


@pytest.mark.usefixtures("plain_python")
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


@pytest.mark.usefixtures("plain_python")
def test_flows_without_a_circuit_use_the_packet_fabric(tmp_path: Path) -> None:
    """Rack 1's only incoming uplink serves rack 0, so rack 2 uses packets, as do small messages."""
    rows = [(0, 1, 40960), (1, 0, 8192), (2, 1, 20480), (3, 2, 40960)]
    given = {"racks": 4, "packet_uplink_rate": "50Gbps", "small_message_max": "10KB"}
    given |= {"bidirectional": False}
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


@pytest.mark.usefixtures("plain_python")
def test_adapt_must_not_change_the_host_count(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(OTHER)
    sections = {"traffic": 'kind = "permutation"', "top": 'transport = "datagram"'}
    experiment = load(tmp_path, text(topology='kind = "./other.py"\nleaves = [2, 3]', **sections))
    same, more = experiment.points()
    assert prepare(same).network.n_hosts == 4
    with raises_input("adapt()", "hosts"):
        prepare(more)


UNEVEN = """
def adapt(params, network, demand):
    \"\"\"A quarter of the rate at the second spine.\"\"\"
    made = build(params)
    slow = made.node_first_port[-2]
    rate = made.port_rate_bps.copy()
    rate[slow:] //= 4
    rate[made.port_peer[slow:]] //= 4
    return replace(made, port_rate_bps=rate)
"""


def test_routes_of_an_adapted_network_have_weights(tmp_path: Path) -> None:
    other = "from dataclasses import replace\n" + OTHER[: OTHER.index("def adapt")] + UNEVEN
    (tmp_path / "other.py").write_text(other.replace("leaves=2)", "leaves=2, spines=2)"))
    sections = {"traffic": 'kind = "permutation"', "fabric": 'routing = "wcmp"'}
    (point,) = load(tmp_path, text(topology='kind = "./other.py"', **sections)).points()
    assert prepare(point).network.candidates(0, 1).tolist() == [2, 2, 2, 2, 3]
