"""Rerouting after failures: the routing tables over time, and the packets lost meanwhile."""

from dataclasses import replace

import networkx as nx
import numpy as np
from engine_runs import DROP_TAIL, US, build, fat_tree, flow_table, run
from hypothesis import given, settings
from hypothesis import strategies as st
from raises_input import raises_input
from small_networks import networks

from netsim.engine.engine import Engine
from netsim.model.arithmetic import PURPOSE_PERMUTATION, below, mix, salt
from netsim.model.fabric import routing_spec
from netsim.model.faults import LinkFault, LinkFaults, combine, follow_failures
from netsim.model.network import Network
from netsim.model.routing import COUNT_BITS, COUNT_MASK, NEVER, NO_ROUTE, RouteChanges
from netsim.reports.links import conserve

NETWORK = fat_tree(2, 2, "100Gbps")
"""Two leaves and two spines; a full packet takes SEND and then 1 us on every link."""
SEND = 332_800
HOP = SEND + US


def ports_between(network: Network, a: str, b: str) -> np.ndarray:
    """Return the ports of the links between two nodes, in both directions."""
    names = np.array([network.node_name(node) for node in range(network.n_nodes)])
    near, far = names[network.port_node], names[network.port_node[network.port_peer]]
    return np.flatnonzero(((near == a) & (far == b)) | ((near == b) & (far == a)))


def faults_with_routes(
    network: Network, faults: list[LinkFault], convergence_delay_ps: int | np.ndarray
) -> LinkFaults:
    found = combine(faults, network.n_ports)
    times = np.broadcast_to(np.int64(convergence_delay_ps), network.n_switches)
    return replace(found, routes=follow_failures(network, found, times))


def candidates(routes: RouteChanges, switch: int, group: int, time_ps: int) -> list[int] | None:
    """Return the local candidate ports of a switch at a time; None without a route."""
    begin, end = routes.row_ptr[switch], routes.row_ptr[switch + 1]
    row = begin + np.flatnonzero(routes.row_from_ps[begin:end] <= time_ps)[-1]
    entry = int(routes.route[routes.row_first[row] + group])
    if entry == NO_ROUTE:
        return None
    offset = entry >> COUNT_BITS
    return routes.route_ports[offset : offset + (entry & COUNT_MASK)].tolist()


@given(networks(), st.data())
@settings(max_examples=60)
def test_rerouted_tables_are_shortest_paths_of_the_remaining_links(
    network: Network, data: st.DataObject
) -> None:
    """Compare with a breadth-first search of the graph without the failed links."""
    fabric = np.flatnonzero(network.port_node >= network.n_hosts).tolist()
    some = st.lists(st.sampled_from(fabric), max_size=12)
    times = st.tuples(st.integers(0, 50), st.integers(1, 50)).map(lambda t: (t[0], t[0] + t[1]))
    cut = data.draw(st.lists(st.tuples(some, times), min_size=1, max_size=3))
    faults = [LinkFault(np.array(ports, int), outages_ps=(time,)) for ports, time in cut]
    converge = np.array(data.draw(st.lists(st.integers(0, 30), min_size=9, max_size=9)))
    converge = converge[: network.n_switches]
    routes = faults_with_routes(network, faults, converge).routes
    assert routes is not None
    peer_switch = (network.port_node[network.port_peer] - network.n_hosts).tolist()
    for time in data.draw(st.lists(st.integers(0, 150), min_size=1, max_size=3)):
        for switch in range(network.n_switches):
            then = time - converge[switch]
            dead = {p for ports, (down, up) in cut for p in ports if down <= then < up}
            graph = nx.DiGraph()
            graph.add_nodes_from(range(network.n_switches))
            for port in set(fabric) - dead:
                if peer_switch[port] >= 0:  # reversed: toward the destination
                    near = int(network.port_node[port]) - network.n_hosts
                    graph.add_edge(peer_switch[port], near)
            first, end = network.node_first_port[network.n_hosts + switch :][:2].tolist()
            for group, edge in enumerate(network.edge_switch.tolist()):
                far_from = nx.single_source_shortest_path_length(graph, edge)
                expected = None
                if switch in far_from:
                    expected = [
                        port - first
                        for port in range(first, end)
                        if port not in dead
                        and peer_switch[port] >= 0
                        and far_from.get(peer_switch[port], -2) == far_from[switch] - 1
                    ]
                assert candidates(routes, switch, group, time) == expected


def datagrams(n: int, faults: LinkFaults | None) -> Engine:
    """Run a flow whose packets alternate between the two spines."""
    fabric = replace(DROP_TAIL, routing=routing_spec("spray_round_robin"))
    flows = flow_table([(0, 2, n * 4096, 0)])
    return run(build(NETWORK, flows, "datagram", fabric, faults=faults, jit=False))


def test_failed_spine_loses_packets_until_routes_converge() -> None:
    for convergence_delay_ps in [0, 5 * US, 12 * US + 1, NEVER]:
        n, down_ps, up_ps = 200, 20 * US, 40 * US
        dead = [
            LinkFault(ports_between(NETWORK, leaf, "spine1"), outages_ps=((down_ps, up_ps),))
            for leaf in ("leaf0", "leaf1")
        ]
        engine = datagrams(n, faults_with_routes(NETWORK, dead, convergence_delay_ps))
        counters = engine.link_counters()
        up, other = (
            int(ports_between(NETWORK, "leaf0", spine)[0]) for spine in ("spine1", "spine0")
        )
        # Packet k reaches the leaf at k SEND + HOP and the far leaf two hops later.
        at_leaf = np.arange(n) * SEND + HOP
        changed = down_ps + convergence_delay_ps, up_ps + convergence_delay_ps
        one_path = (changed[0] <= at_leaf) & (at_leaf < changed[1])
        turn = np.cumsum(~one_path) - 1  # the number of choices made before
        entity = np.array(
            [2 * int(NETWORK.port_peer[0]) + 1]
        )  # data that arrives at the host's port
        first = below(mix(salt(1, PURPOSE_PERMUTATION, entity) ^ (turn // 2)), 2)
        to_dead = ~one_path & ((turn + first) % 2 == 1)
        assert counters.sent_packets[up] == to_dead.sum()
        assert counters.sent_packets[other] == n - to_dead.sum()
        under_way = to_dead & (at_leaf + 2 * HOP > down_ps)
        # Sent before up_ps and undelivered at down_ps: lost on the first or the second link.
        lost = under_way & (at_leaf < up_ps)
        assert counters.lost_packets.sum() == lost.sum() > 0
        assert counters.unroutable_packets.sum() == 0
        conserve(engine)


def test_looping_packets_are_dropped_after_255_hops() -> None:
    """Spines return packets for leaf1 to leaf0, which sends them up again."""
    row = faults_with_routes(NETWORK, [], 0)
    routes = row.routes
    assert routes is not None
    spines = [2, 3]
    route = routes.route.copy()
    for switch in spines:
        first = routes.row_first[routes.row_ptr[switch]]
        route[first + 1] = route[first]  # to leaf1 as to leaf0
    circle = replace(row, routes=replace(routes, route=route))
    engine = datagrams(3, circle)
    links = engine.link_counters()
    assert links.unroutable_packets.sum() == 3
    assert links.sent_packets.sum() == 3 * 255
    conserve(engine)


def test_too_many_route_changes_are_rejected() -> None:
    times = tuple((k, k + 1) for k in range(0, 100_000, 2))
    down = LinkFault(ports_between(NETWORK, "leaf0", "spine0"), outages_ps=times)
    with raises_input("100,000", key="routing.convergence_delay"):
        faults_with_routes(NETWORK, [down], US)
