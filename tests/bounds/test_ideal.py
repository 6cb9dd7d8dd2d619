"""Lower bounds: ideal times, fair shares, chains."""

import itertools
from itertools import pairwise

import numpy as np
import pytest
from engine_runs import DROP_TAIL, build, run
from engine_runs import fat_tree as tree_of
from hypothesis import given, settings
from hypothesis import strategies as st
from raises_input import raises_input
from small_networks import networks, rails

from netsim.model.builder import NetworkBuilder
from netsim.model.fabric import Nic, PacketFormat, packet_counts
from netsim.model.flows import FlowTable
from netsim.model.ideal import (
    NO_LINK,
    ecmp_paths,
    hashed_paths,
    hashed_times,
    ideal_times,
    longest_chain_ps,
    max_min_rates,
)
from netsim.model.network import Network
from netsim.model.port_pairs import pairs_used, port_pairs_of
from netsim.model.workload import COMPUTE, RECEIVE, SEND, TaskTable
from netsim.plugins.registry import find
from netsim.workloads.operations import CollectiveOptions, Operations

GBPS = 10**9
US = 10**6
formats = st.builds(
    PacketFormat,
    payload_bytes=st.sampled_from([1, 100, 1000, 4096]),
    header_bytes=st.integers(0, 100),
    control_bytes=st.integers(1, 100),
    cut_through_bytes=st.none() | st.integers(1, 2000),
    nic=st.none() | st.builds(Nic, *(st.integers(0, 10**6) for _ in range(4))),
)


@st.composite
def chains(draw: st.DrawFn) -> Network:
    """Draw two hosts joined by 1 to 4 switches in a row, with random rates and delays."""
    n_switches = draw(st.integers(1, 4))
    builder = NetworkBuilder()
    builder.add_hosts(2)
    switches = [builder.add_switch(latency_ps=draw(st.integers(0, 500))) for _ in range(n_switches)]
    nodes = [0, *switches, 1]
    for a, b in pairwise(nodes):
        gbps = draw(st.sampled_from((100, 100, 400)) | st.integers(1, 800))
        builder.cable(a, b, gbps * GBPS, draw(st.integers(1, 10**5)))
    return builder.build("chain")


def wire_sizes(size: int, packets: PacketFormat) -> list[int]:
    full, rest = divmod(size, packets.payload_bytes)
    payloads = [packets.payload_bytes] * full + ([rest] if rest else [])
    return [payload + packets.header_bytes for payload in payloads]


def send_ps(network: Network, port: int, size: int) -> int:
    """Return how long a packet occupies the link of a port."""
    return (size * round(8e12 * 2**20 / int(network.port_rate_bps[port]))) >> 20


def cross_ps(network: Network, packets: PacketFormat, port: int, size: int) -> int:
    """Return the time from the start of a transmission to the packet's arrival."""
    node = int(network.port_node[network.port_peer[port]])
    rates = network.port_rate_bps[network.port_node == node]
    cuts = node >= network.n_hosts and (network.port_rate_bps[port] >= rates).all()
    if cuts and packets.cut_through_bytes is not None:
        size = min(size, packets.cut_through_bytes)
    return send_ps(network, port, size) + int(network.port_delay_ps[port])


def processed(network: Network, nic: tuple[int, int], port: int, arrivals: list[int]) -> int:
    """Return when the last of the packets sent by a port has been processed, if at a host, by a
    server with this interval and delay."""
    if network.port_node[network.port_peer[port]] >= network.n_hosts:
        return max(arrivals)
    free = 0
    for arrival in arrivals:
        free = max(free, arrival) + nic[0]
    return free + nic[1]


def of_data(packets: PacketFormat) -> tuple[int, int]:
    nic = packets.nic or Nic()
    return nic.data_interval_ps, nic.data_delay_ps


def of_acks(packets: PacketFormat) -> tuple[int, int]:
    nic = packets.nic or Nic()
    return nic.ack_interval_ps, nic.ack_delay_ps


def follow_in_order(
    network: Network,
    packets: PacketFormat,
    ports: list[int],
    sizes: list[int],
    nic: tuple[int, int] | None = None,
) -> int:
    """Return when the last packet arrives if all queue at every port in order."""
    arrivals = [0] * len(sizes)
    for port in ports:
        free = 0
        for index, size in enumerate(sizes):
            begin = max(free, arrivals[index])
            free = begin + send_ps(network, port, size)
            arrivals[index] = begin + cross_ps(network, packets, port, size)
    return processed(network, nic or of_data(packets), ports[-1], arrivals)


def follow_sprayed(
    network: Network, packets: PacketFormat, ports: list[int], sizes: list[int]
) -> int:
    """Return when all packets have arrived if they queue only at the first and last port."""
    free, at_last = 0, []
    for size in sizes:
        crossing = sum(cross_ps(network, packets, port, size) for port in ports[:-1])
        at_last.append((free + crossing, size))
        free += send_ps(network, ports[0], size)
    free, arrivals = 0, []
    for arrival, size in sorted(at_last):
        free = max(free, arrival) + send_ps(network, ports[-1], size)
        arrivals.append(free + int(network.port_delay_ps[ports[-1]]))
    return processed(network, of_data(packets), ports[-1], arrivals)


def fabric_bound(
    network: Network, packets: PacketFormat, ports: list[int], sizes: list[int]
) -> int:
    """Return the bound of the fabric links: the busiest link of a hop carries its whole share."""
    bounds = [0]
    width = 1
    for at in range(1, len(ports) - 1):
        switch = int(network.port_node[ports[at]]) - network.n_hosts
        group = int(network.host_group[int(network.port_node[network.port_peer[ports[-1]]])])
        width *= len(network.candidates(switch, group))
        share = -(-len(sizes) // width)
        crossing = follow_in_order(network, packets, ports[:at], sizes[:1])
        busy = follow_in_order(network, packets, [ports[at]], sizes[:1] * (share - 1) + sizes[-1:])
        rest = follow_in_order(network, packets, ports[at + 1 :], sizes[-1:])
        bounds.append(crossing + busy + rest)
    return max(bounds)


def follow_spread(
    network: Network, packets: PacketFormat, ports: list[int], sizes: list[int]
) -> int:
    given = network, packets, ports, sizes
    return max(follow_sprayed(*given), fabric_bound(*given))


@given(chains(), formats, st.integers(1, 20_000))
@settings(max_examples=300)
def test_single_path_ideal_time_matches_packet_by_packet_calculation(
    network, packets, size
) -> None:
    size = min(size, 40 * packets.payload_bytes)
    times = ideal_times(network, FlowTable([0], [1], size), packets)
    expected = follow_in_order(network, packets, network.path(0, 1), wire_sizes(size, packets))
    assert times.fct_ps[0] == expected
    ack = [packets.control_bytes]
    back = follow_in_order(network, packets, network.path(1, 0), ack, of_acks(packets))
    assert times.acked_ps[0] == expected + back


@given(chains(), formats, st.integers(1, 20_000))
@settings(max_examples=500)
def test_multipath_ideal_time_matches_packet_by_packet_calculation(network, packets, size) -> None:
    size = min(size, 40 * packets.payload_bytes)
    times = ideal_times(network, FlowTable([0], [1], size), packets, multipath=True)
    expected = follow_spread(network, packets, network.path(0, 1), wire_sizes(size, packets))
    # A short packet in the middle may leave a slow NIC idle, which the bound ignores.
    assert times.fct_ps[0] <= expected
    assert times.fct_ps[0] == expected or packets.nic is not None
    in_order = ideal_times(network, FlowTable([0], [1], size), packets)
    assert times.fct_ps[0] <= in_order.fct_ps[0]


@given(networks(), formats, st.data())
@settings(max_examples=100)
def test_ideal_time_ignores_other_flows(network, packets, data) -> None:
    if network.n_hosts < 2:
        return
    hosts = st.integers(0, network.n_hosts - 1)
    pairs = data.draw(
        st.lists(st.tuples(hosts, hosts).filter(lambda p: p[0] != p[1]), min_size=1, max_size=20)
    )
    sizes = [data.draw(st.integers(1, 20 * packets.payload_bytes)) for _ in pairs]
    src, dst = zip(*pairs, strict=True)
    for multipath, follow in ((False, follow_in_order), (True, follow_spread)):
        times = ideal_times(network, FlowTable(src, dst, sizes), packets, multipath=multipath)
        for flow, (a, b) in enumerate(pairs):
            expected = follow(
                network, packets, network.path(a, b), wire_sizes(sizes[flow], packets)
            )
            assert times.fct_ps[flow] <= expected
            assert times.fct_ps[flow] == expected or (packets.nic is not None and multipath)


@given(st.integers(1, 10**7), st.integers(1, 9000))
def test_packet_count_matches_the_list_of_packets(size: int, payload: int) -> None:
    packets = PacketFormat(payload_bytes=payload)
    assert packet_counts(np.array([size]), packets)[0] == len(wire_sizes(size, packets))


def test_fabric_bottleneck_bounds_sprayed_flows() -> None:
    """Two hosts at 100 Gbps joined over two switches by two parallel cables of 10 Gbps."""
    builder = NetworkBuilder()
    builder.add_hosts(2)
    left, right = builder.add_switch("left"), builder.add_switch("right")
    builder.cable(0, left, rate_bps=100 * GBPS, delay_ps=US)
    builder.cable(1, right, rate_bps=100 * GBPS, delay_ps=US)
    for _ in range(2):
        builder.cable(left, right, rate_bps=10 * GBPS, delay_ps=US)
    network = builder.build("narrow")
    n = 1000
    times = ideal_times(network, FlowTable([0], [1], n * 4096), PacketFormat(), multipath=True)
    slot_ps = 4160 * 8 * 1000 // 10  # one packet on one of the parallel cables
    # Each cable carries every other packet; the first one arrives after its time at 100 Gbps.
    assert times.fct_ps[0] == slot_ps // 10 + US + n // 2 * slot_ps + US + slot_ps // 10 + US


PACKETS = PacketFormat()
SHORT = 100  # payload of a short last packet, in bytes


def shortest_time(rates: tuple[int, ...], n: int) -> int:
    """Return the shortest time for `n` packets, the last one short, over all distributions."""
    best = []
    for counts in itertools.product(range(n), repeat=len(rates)):
        if sum(counts) != n - 1:
            continue
        for last in range(len(rates)):
            times = []
            for port_pair, rate in enumerate(rates):
                size = counts[port_pair] * 4096 + SHORT * (port_pair == last)
                if size:
                    flow = FlowTable([0], [1], size)
                    times.append(int(ideal_times(rails(2, (rate,)), flow, PACKETS).fct_ps[0]))
            best.append(max(times))
    return min(best)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("n_pairs", [2, 3])
def test_ideal_time_over_equal_port_pairs_is_the_optimum(n: int, n_pairs: int) -> None:
    rates = (100,) * n_pairs
    flow = FlowTable([0], [1], (n - 1) * 4096 + SHORT)
    (found,) = ideal_times(rails(2, rates), flow, PACKETS).fct_ps
    assert found == shortest_time(rates, n)


@pytest.mark.parametrize("n", [1, 2, 3, 6])
@pytest.mark.parametrize("rates", [(100, 25), (100, 40, 10)])
def test_ideal_time_over_unequal_port_pairs_is_a_tight_bound(
    n: int, rates: tuple[int, ...]
) -> None:
    flow = FlowTable([0], [1], (n - 1) * 4096 + SHORT)
    (found,) = ideal_times(rails(2, rates), flow, PACKETS).fct_ps
    best = shortest_time(rates, n)
    assert found <= best <= found + 2 * 4160 * 8 * 1000 // rates[0]


def test_fair_share_adds_all_port_pairs() -> None:
    """Two flows into one host share each of its ports."""
    flows = FlowTable([0, 1], [2, 2], 4096 * 100)
    network, on_wire = rails(3, (100, 100)), 4160 * 100
    first, second = hashed_times(network, flows, PACKETS, port_pairs_of(network, flows), seed=1)
    ideal = ideal_times(network, flows, PACKETS).fct_ps[0]
    assert first == second == pytest.approx(ideal + 8e12 * on_wire * (1 / 100e9 - 1 / 200e9))


def test_evenly_striped_flow_waits_for_the_slowest_port_pair() -> None:
    """Half of the flow takes the 25 Gbps plane, so the total rate is 50 instead of 125 Gbps."""
    flow = FlowTable([0], [1], 4096 * 100)
    network = rails(2, (100, 25))
    ideal = ideal_times(network, flow, PACKETS).fct_ps[0]
    best, even = (
        hashed_times(network, flow, PACKETS, port_pairs_of(network, flow), 1, evenly=evenly)[0]
        for evenly in (False, True)
    )
    assert best == pytest.approx(ideal)
    assert even == pytest.approx(ideal + 8e12 * 4160 * 100 * (1 / 50e9 - 1 / 125e9))


G = 10**9


def fat_tree(leaves, hosts_per_leaf, spines, rate=100 * G, fabric_rate=100 * G):
    builder = NetworkBuilder()
    hosts = builder.add_hosts(leaves * hosts_per_leaf)
    tops = [builder.add_switch(f"leaf{i}", 0) for i in range(leaves)]
    middle = [builder.add_switch(f"spine{i}", 1) for i in range(spines)]
    for host in hosts:
        builder.cable(host, tops[host // hosts_per_leaf], rate_bps=rate, delay_ps=10**6)
    for leaf in tops:
        for spine in middle:
            builder.cable(leaf, spine, rate_bps=fabric_rate, delay_ps=10**6)
    return builder.build("tree")


def permutation(network, rng, load=1.0):
    params = {"size": 2_000_000, "load": load}
    return find("traffic", "permutation").module.flows(params, network, rng, None)


def test_max_min_rates_match_a_hand_computed_example():
    # Three flows share link 0, and link 1 limits one of them; link 2 has spare capacity.
    links = np.array([[0, NO_LINK], [0, 2], [0, 1], [1, NO_LINK], [1, NO_LINK]])
    rates = max_min_rates(links, np.array([10.0, 6.0, 100.0]))
    np.testing.assert_allclose(rates, [4, 4, 2, 2, 2])


def test_every_flow_has_a_max_min_bottleneck():
    """Every flow crosses a full link on which no flow is faster, which defines the optimum."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        capacity = rng.uniform(1, 10, 12)
        links = np.array([rng.choice(12, 4, replace=False) for _ in range(60)])
        links[rng.random(links.shape) < 0.3] = NO_LINK
        links[:, 0] = rng.integers(0, 12, 60)
        links[:, 1:][links[:, 1:] == links[:, :1]] = NO_LINK
        rates = max_min_rates(links, capacity)
        used = np.array([rates[(links == link).any(axis=1)].sum() for link in range(12)])
        fastest = np.array([rates[(links == link).any(axis=1)].max() for link in range(12)])
        assert (used <= capacity * (1 + 1e-9)).all()
        full = used >= capacity * (1 - 1e-9)
        for flow, rate in enumerate(rates):
            crossed = links[flow][links[flow] != NO_LINK]
            assert any(full[link] and rate >= fastest[link] * (1 - 1e-9) for link in crossed)


def test_equal_size_flow_times_match_a_fluid_simulation():
    """The fluid simulation recomputes the shares whenever a flow ends; the times are equal."""
    network = fat_tree(8, 8, 8, fabric_rate=60 * G)
    rng = np.random.default_rng(3)
    flows = permutation(network, rng)
    paths = ecmp_paths(network, flows.src.astype(np.int64), flows.dst.astype(np.int64), rng)
    capacity = network.port_rate_bps / network.host_rate_bps
    left, done, now = np.ones(len(flows)), np.zeros(len(flows)), 0.0
    while (left > 0).any():
        going = np.flatnonzero(left > 0)
        rates = max_min_rates(paths[going], capacity)
        step = (left[going] / rates).min()
        now += step
        left[going] -= step * rates
        left[left < 1e-9] = 0
        done[going[left[going] == 0]] = now
    assert np.unique(done.round(6)).size > 4
    np.testing.assert_allclose(done, 1 / max_min_rates(paths, capacity))


def test_ecmp_paths_are_shortest_and_use_every_spine():
    network = fat_tree(4, 2, 4)
    src, dst = np.zeros(400, np.int64), np.full(400, 7)
    paths = ecmp_paths(network, src, dst, np.random.default_rng(1))
    assert paths.shape == (400, 4)
    assert np.unique(paths[:, 1], return_counts=True)[1].min() > 60
    to = network.port_node[network.port_peer[paths]]
    assert (network.port_node[paths][:, 1:] == to[:, :-1]).all()
    assert (to[:, -1] == 7).all()
    (same_leaf,) = ecmp_paths(network, np.array([0]), np.array([1]), np.random.default_rng(1))
    assert same_leaf.tolist() == [0, network.port_peer[1]]


@pytest.mark.parametrize("planes", [1, 2])
def test_hashed_paths_match_the_links_used_in_a_run(planes):
    """Datagrams have no acks, so each link sends only the packets of the flows that cross it."""
    network = tree_of(4, 4, "100Gbps", planes=planes)
    rng = np.random.default_rng(2)
    flows = FlowTable(rng.integers(0, 8, 60), rng.integers(8, 16, 60), 4 * 4096)
    port_pairs = pairs_used(network, flows, "hash", seed=7)
    engine = run(build(network, flows, "datagram", DROP_TAIL, seed=7, jit=False))
    paths = hashed_paths(network, port_pairs, seed=7)
    crossed = np.bincount(paths[paths != NO_LINK], minlength=network.n_ports)
    assert engine.link_counters().sent_packets.tolist() == (4 * crossed).tolist()
    times = hashed_times(network, flows, PACKETS, port_pairs, seed=7)
    assert (
        times.max() > 3 * ideal_times(network, flows, PACKETS, port_pairs=port_pairs).fct_ps.max()
    )


@pytest.mark.parametrize("flows", [
    FlowTable([0, 1], [2, 3], [1000, 2000]),
    FlowTable([0, 1], [2, 3], 1000, start_ps=[0, 5]),
])  # fmt: skip
def test_flows_of_different_size_or_start_are_rejected(flows):
    with raises_input("size"):
        network = fat_tree(2, 2, 1)
        hashed_times(network, flows, PACKETS, port_pairs_of(network, flows), seed=1)


FCT_PS, LEFT_PS = 1_000, 400


def longest(tasks: TaskTable, flows: FlowTable) -> int:
    times = np.full(len(flows), FCT_PS), np.full(len(flows), LEFT_PS)
    return longest_chain_ps(tasks, flows, *times)


def test_ring_all_reduce_chain_has_all_its_steps() -> None:
    for n in [2, 5, 64]:
        ops = Operations(n)
        how = CollectiveOptions("ring", latency_ps=7)
        ops.collective("all_reduce", np.arange(n)[None, :], 1 << 20, how=how)
        load = ops.lower(np.arange(n))
        assert load.tasks is not None
        assert longest(load.tasks, load.flows) == 2 * (n - 1) * (FCT_PS + 7)


def test_chain_adds_stream_order_messages_and_dependencies() -> None:
    """Host 0 computes twice and sends; host 1 receives and then computes."""
    tasks = TaskTable(
        [COMPUTE, COMPUTE, SEND, RECEIVE, COMPUTE],
        [0, 0, 0, 1, 1],
        [10, 20, 5, 3, 100],
        flow=[-1, -1, 0, 0, -1],
    )
    tasks.wait_for_pairs([1, 3], [2, 4])
    assert longest(tasks, FlowTable([0], [1], 4096)) == 10 + 20 + 5 + FCT_PS + 3 + 100


def test_task_after_a_send_waits_until_the_data_left() -> None:
    tasks = TaskTable([SEND, COMPUTE], [0, 0], [5, 2_000], flow=[0, -1])
    tasks.wait_for_pairs([0], [1])
    assert longest(tasks, FlowTable([0], [1], 4096)) == 5 + LEFT_PS + 2_000
