"""`port_queue_bytes`: ports with another queue size than the rest."""

import numpy as np
import pytest
from engine_runs import NS, PACKET, build, counter, fabric_with, flow_table, run
from experiment_text import load, messages, text
from raises_input import raises_input
from small_networks import rails

from netsim.experiment.scenario import prepare
from netsim.model.fabric import PacketFormat, port_sizes

GB = 10**9


def of_ports(tmp_path, *queues: str, discipline: str = "drop_tail"):
    """Return a network and the queue size of each port for this `port_queue_bytes`."""
    table = "{" + ", ".join(queues) + "}"
    fabric = f'queue_discipline = "{discipline}"\nport_queue_bytes = {table}'
    (point,) = load(tmp_path, text(top='transport = "datagram"', fabric=fabric)).points()
    scenario = prepare(point)
    sizes = [one.queue.params["queue_bytes"] for one in scenario.sizes.fabrics]
    return scenario.network, np.array(sizes)[scenario.sizes.kind]


def test_patterns_of_links_tiers_and_ports_choose_ports(tmp_path):
    network, sizes = of_ports(
        tmp_path, '"leaf* -> spine*" = "1GB"', '"spine0:*" = "2MB"', '"leaf1:0" = "3MB"'
    )
    names = np.array([network.node_name(node) for node in range(network.n_nodes)])
    near, far = names[network.port_node], names[network.port_node[network.port_peer]]
    usual = 1000 * PACKET
    for port in range(network.n_host_ports, network.n_ports):
        expected = GB if near[port][:4] == "leaf" and far[port][:5] == "spine" else usual
        expected = 2_000_000 if near[port] == "spine0" else expected
        if near[port] == "leaf1" and port == network.node_first_port[network.port_node[port]]:
            expected = 3_000_000
        assert sizes[port] == expected


def test_size_in_bdp_is_that_of_the_port(tmp_path):
    network, sizes = of_ports(tmp_path, '"spine*:*" = "2bdp"')
    _, one = of_ports(tmp_path, '"spine*:*" = "1bdp"')
    at = network.port_node >= network.n_hosts + 4
    assert (np.abs(sizes[at] - 2 * one[at]) <= 1).all()
    assert (sizes[at] > one[at]).all()


@pytest.mark.parametrize(("deep_packets", "drops"), [(52, 0), (51, 1), (10, 42)])
def test_deep_port_holds_the_burst_that_others_would_drop(deep_packets: int, drops: int) -> None:
    """Two senders of 51 packets each: the port sends one packet while two arrive, so it ends with
    52 packets. Other ports have room for one packet."""
    network, n = rails(3, [100], 500 * NS), 51
    out = np.array([int(network.port_peer[2])])
    fabric = fabric_with("drop_tail", queue_bytes=PACKET)
    sizes = port_sizes(fabric, network, PacketFormat(), None, [(out, deep_packets * PACKET)])
    flows = flow_table([(0, 2, n * 4096, 0), (1, 2, n * 4096, 0)])
    engine = run(build(network, flows, "datagram", fabric, port_sizes=sizes, jit=False))
    assert counter(engine, "drops") == drops
    assert engine.link_counters().max_queue_bytes[out] == deep_packets * PACKET


def test_unknown_ports_and_disciplines_without_queues_are_refused(tmp_path):
    with raises_input(key='fabric.port_queue_bytes."leef*"'):
        of_ports(tmp_path, '"leef*" = "1GB"')
    with raises_input(key='fabric.port_queue_bytes."host1"'):
        of_ports(tmp_path, '"host1" = "1GB"')
    for value, discipline, part in (
        ('{"leaf*" = "1GB"}', "lossless", "has no effect with"),
        ('{"leaf*" = 5}', "drop_tail", 'for "leaf*"'),
        ('"1GB"', "drop_tail", "not a table"),
        ('{"leaf*" = "10B"}', "drop_tail", "less than one packet"),
    ):
        fabric = f'queue_discipline = "{discipline}"\nport_queue_bytes = {value}'
        experiment = text(top='transport = "datagram"', fabric=fabric)
        if part == "less than one packet":
            (point,) = load(tmp_path, experiment).points()
            with raises_input(key="fabric.queue_bytes"):
                prepare(point)
            continue
        (line,) = messages(tmp_path, experiment)
        assert "fabric.port_queue_bytes" in line
        assert part in line
