"""The engine against closed forms and queueing theory."""

from itertools import permutations

import pytest
from engine_runs import (
    DROP_TAIL,
    LOSSLESS,
    NS,
    PACKET,
    TRIM,
    US,
    acked_ps,
    assert_conserved,
    build,
    counter,
    fat_tree,
    fct_ps,
    flow_table,
    keep_sent,
    packets_sent,
    run,
)

from netsim.model.builder import NetworkBuilder
from netsim.model.fabric import Fabric
from netsim.model.network import Network

PAYLOAD = 4096
G = 10**9


def send_ps(n_bytes: int, rate_bps: int) -> int:
    """Return the serialization time, which is exact at the rates used here."""
    return n_bytes * 8 * 10**12 // rate_bps


# -- single packets ------------------------------------------------------------------------------


def uneven_tree() -> Network:
    """Return three leaves with two hosts each and three spines; all cables differ."""
    builder = NetworkBuilder()
    hosts = builder.add_hosts(6)
    leaves = [builder.add_switch(f"leaf{i}", tier=0, latency_ps=300 * NS) for i in range(3)]
    spines = [builder.add_switch(f"spine{i}", tier=1, latency_ps=700 * NS) for i in range(3)]
    for h in hosts:
        builder.cable(h, leaves[h // 2], rate_bps=100 * G, delay_ps=(100 + h) * NS)
    for i, leaf in enumerate(leaves):
        for j, spine in enumerate(spines):
            rate = (100, 200, 400)[(i + j) % 3] * G
            builder.cable(leaf, spine, rate_bps=rate, delay_ps=(500 + 10 * i + j) * NS)
    return builder.build("uneven")


def all_paths(network: Network, src: int, dst: int) -> set[tuple[int, ...]]:
    """Return every path that the routing tables allow, as global ports."""
    paths = {(int(network.node_first_port[src]),)}
    while True:
        longer = set()
        for path in paths:
            node = int(network.port_node[network.port_peer[path[-1]]])
            if node == dst:
                return paths
            switch, group = node - network.n_hosts, int(network.host_group[dst])
            locals_ = network.candidates(switch, group)
            if not locals_.size:
                locals_ = network.host_port[[dst]]
            start = int(network.node_first_port[node])
            longer |= {(*path, start + int(port)) for port in locals_}
        paths = longer


def test_single_packet_takes_the_delay_of_its_path() -> None:
    """Exactly the serialization, propagation and switch latency of its links, on every path."""
    network = uneven_tree()
    pairs = list(permutations(range(6), 2))
    flows = flow_table(
        [(*pairs[i % 30], 1 + 37 * i % PAYLOAD, i * 100 * US) for i in range(30 * 40)]
    )
    engine = run(keep_sent(build(network, flows, "datagram", DROP_TAIL, jit=False)))
    links_of: dict[int, list[tuple[int, int]]] = {f: [] for f in range(len(flows))}
    for p in range(network.n_ports):
        for pkt in packets_sent(engine, p):
            links_of[int(pkt["flow"])].append((int(pkt["time"]), p))
    times = fct_ps(engine)
    seen: dict[tuple[int, int], set[tuple[int, ...]]] = {pair: set() for pair in pairs}
    for f, links in links_of.items():
        path = tuple(port for _, port in sorted(links))
        seen[int(flows.src[f]), int(flows.dst[f])].add(path)
        size = int(flows.size_bytes[f]) + 64
        closed_form = sum(
            send_ps(size, int(network.port_rate_bps[p])) + int(network.port_delay_ps[p])
            for p in path
        )
        assert times[f] == closed_form
    for (src, dst), paths in seen.items():
        assert paths == all_paths(network, src, dst)


# -- queues -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_senders", "rate", "gbps"), [(8, "100Gbps", 100), (32, "800Gbps", 800)])
@pytest.mark.parametrize(
    ("transport", "fabric", "within"), [("roce", LOSSLESS, 0.01), ("ndp", TRIM, 0.03)]
)
def test_incast_takes_the_time_of_the_receiver_link(
    transport: str, fabric: Fabric, within: float, n_senders: int, rate: str, gbps: int
) -> None:
    """N senders to one host finish after N * size / rate + RTT, without drops."""
    network = fat_tree(8, 8, rate)
    n = 250
    flows = flow_table([(63 - i, 0, n * PAYLOAD, 0) for i in range(n_senders)])
    engine = run(build(network, flows, transport, fabric))
    rtt = 4 * (send_ps(PACKET, gbps * G) + send_ps(64, gbps * G) + 2 * US)
    ideal = n_senders * n * send_ps(PACKET, gbps * G) + rtt
    assert acked_ps(engine).max() == pytest.approx(ideal, rel=within)
    assert counter(engine, "drops") == 0
    assert (counter(engine, "trims") == 0) == (transport == "roce")
    assert_conserved(engine)


# -- PFC -----------------------------------------------------------------------------------------


def victim_fct(congested: bool) -> int:
    """Return the completion time of a flow that shares one link, fast enough for all, with others.

    Hosts 0 to 3 are on one switch, 4 and 5 on the other; the three other flows all go to host 4.
    """
    builder = NetworkBuilder()
    hosts = builder.add_hosts(6)
    left, right = builder.add_switch(), builder.add_switch()
    for h in hosts:
        builder.cable(h, left if h < 4 else right, rate_bps=100 * G, delay_ps=US)
    builder.cable(left, right, rate_bps=400 * G, delay_ps=US)
    network = builder.build("victim")
    size = 500 * PAYLOAD
    others = [(h, 4, size, 0) for h in range(3)] if congested else []
    flows = flow_table([(3, 5, size, 0), *others])
    engine = run(build(network, flows, "roce", LOSSLESS))
    assert counter(engine, "drops") == 0
    return int(fct_ps(engine)[0])


def test_pfc_pauses_delay_a_victim_flow() -> None:
    """Pauses for other flows block it; without these flows it takes its ideal time."""
    alone = 500 * send_ps(PACKET, 100 * G) + send_ps(PACKET, 400 * G) + send_ps(PACKET, 100 * G)
    assert victim_fct(congested=False) == alone + 3 * US
    assert victim_fct(congested=True) > 2 * alone
