"""Graph topologies: several file formats, networkx graphs and weighted routing."""

import json
from pathlib import Path
from textwrap import dedent

import networkx
import numpy as np
import pytest
from engine_runs import fat_tree, resolve
from hypothesis import given, settings
from hypothesis import strategies as st
from raises_input import raises_input
from small_networks import networks

from netsim.errors import InputError
from netsim.flows import FlowTable
from netsim.model.inventory import shares_of_networks
from netsim.model.port_pairs import port_pairs_of
from netsim.network import GraphDefaults, Network, from_networkx
from netsim.plugins import registry

G = 10**9
US = 10**6
DEFAULTS = GraphDefaults(100 * G, US)


def built(path: Path, **params) -> Network:
    plugin = registry.find("topology", "graph")
    return plugin.module.build(resolve(plugin, {"file": str(path), **params}))


def written(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_text(dedent(text).lstrip("\n"))
    return path


def same(one: Network, other: Network) -> bool:
    """Return whether two networks are equal except for names."""
    arrays = ("node_first_port", "port_peer", "port_rate_bps", "port_delay_ps", "route", "tier")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays)


def test_network_survives_conversion_to_networkx_and_back():
    tree = fat_tree(3, 4, "100Gbps", fabric_rate="50Gbps", spines=3, uplinks=6)
    again = from_networkx(tree.to_networkx(), DEFAULTS)
    assert same(again, tree)
    assert again.switch_names == tree.switch_names


def test_graphml_and_json_files_restore_the_network(tmp_path):
    for form in ["graphml", "links", "edges"]:
        tree = fat_tree(2, 3, "400Gbps", spines=2, uplinks=2)
        graph = tree.to_networkx()
        for *_, values in graph.edges(data=True):
            values["delay_ps"] = values["delay_ps"][0]
            del values["ports"]
        path = tmp_path / ("tree.graphml" if form == "graphml" else "tree.json")
        if form == "graphml":
            networkx.write_graphml(graph, path)
        else:
            nodes = [{"id": node, **values} for node, values in graph.nodes(data=True)]
            edges = [
                {"source": a, "target": b, **values} for a, b, values in graph.edges(data=True)
            ]
            path.write_text(json.dumps({"directed": False, "nodes": nodes, form: edges}))
        assert same(built(path), tree)
        assert built(path).switch_names == tree.switch_names


EDGES = """
    # two racks
    a0 left
    a1 left 200Gbps
    left right 50Gbps 3us weight=2   # the long way
    left right rate=50Gbps delay=3us
    right b0 {"rate": "25Gbps"}
"""


def test_edge_list_sets_rates_and_delays(tmp_path):
    network = built(written(tmp_path, "racks.txt", EDGES), rate="100Gbps", latency="1us")
    assert (network.n_hosts, network.switch_names) == (3, ("left", "right"))
    assert network.name == "racks"
    assert network.port_rate_bps.tolist()[:3] == [100 * G, 200 * G, 25 * G]
    between = network.path(0, 2)[1]
    assert (network.port_rate_bps[between], network.port_delay_ps[between]) == (50 * G, 3 * US)
    assert network.candidates(0, 1).tolist() == [2, 3]  # both cables


def test_hosts_are_single_link_nodes_or_match_a_pattern(tmp_path):
    path = written(tmp_path, "line.txt", "h0 s0\nh0 s1\nh1 s0\nh1 s1\ns0 s2\n")
    assert built(path).n_hosts == 1  # s2, which has one cable
    network = built(path, hosts="h*")
    assert (network.n_hosts, network.switch_names) == (2, ("s0", "s1", "s2"))
    assert network.has_several_ports


SAMPLES = Path(__file__).parents[1] / "data" / "samples"


def test_hpcc_topology_file_is_read():
    network = built(SAMPLES / "hpcc.txt")
    assert (network.n_hosts, network.switch_names) == (4, ("switch4",))
    assert network.port_rate_bps[:4].tolist() == [100 * G, 100 * G, 25 * G, 100 * G]
    assert set(network.port_delay_ps.tolist()) == {US}


def test_simai_topology_file_is_read():
    network = built(SAMPLES / "simai.txt")
    assert network.n_hosts == 4
    assert network.switch_names == ("nvswitch4", "nvswitch5", "switch6", "switch7")
    assert network.port_nic.tolist() == [1, 0] * 4
    assert network.port_rate_bps[:2].tolist() == [2880 * G, 400 * G]
    assert network.port_delay_ps[:2].tolist() == [25_000, 500_000]
    # Flows within a server use NVLink, which is faster; flows between servers use the other NIC.
    flows = FlowTable([0, 0, 0], [1, 2, 1], [300, 100, 100], 0)
    flows.use_nics([-1, -1, 0])
    port_pairs = port_pairs_of(network, flows)
    assert network.port_nic[port_pairs.src_port].tolist() == [1, 0, 0]
    assert dict(shares_of_networks(network, flows, port_pairs)) == {
        "nvswitch4 and 1 alike (NIC 1)": 0.6,
        "switch6 (NIC 0)": 0.4,
    }


@given(network=networks(), data=st.data())
@settings(max_examples=60, deadline=None)
def test_routes_are_all_least_weight_paths(network, data):
    graph = network.to_networkx()
    for *_, values in graph.edges(data=True):
        values["cost"] = values["delay_ps"] = data.draw(st.integers(1, 4))
    weighted = from_networkx(graph, DEFAULTS, weight="cost")
    cost = weighted.port_delay_ps
    switches = graph.subgraph(range(network.n_hosts, network.n_nodes))
    for group, edge in enumerate(weighted.edge_switch.tolist()):
        goal = edge + network.n_hosts
        away = networkx.single_source_dijkstra_path_length(switches, goal, weight="cost")
        for switch in range(network.n_switches):
            node = switch + network.n_hosts
            expected = [
                port
                for port in range(*weighted.node_first_port[node : node + 2].tolist())
                if (peer := int(weighted.port_node[weighted.port_peer[port]])) in away
                and away[peer] + cost[port] == away[node]
            ]
            first = int(weighted.node_first_port[node])
            assert weighted.candidates(switch, group).tolist() == [p - first for p in expected]


NODE_1 = '"nodes": [{"id": 1'
INVALID_FILES = [
    ("a.txt", "a b\nc\n", 'a.txt:2: "c" is not an edge (such as "leaf0 spine0"'),
    ("a.txt", "a b\nb c 4Gb\n", 'a.txt:2: rate: "4Gb": unknown unit "Gb" ('),
    ("a.txt", "a b 1Gbps 1us 3\n", 'a.txt:1: unexpected word "3"'),
    ("a.txt", "a b {1\n", 'a.txt:1: "{1" is not a dict of values'),
    ("a.txt", "# nothing\n", "a.txt: has no edges"),
    ("a.txt", "a b\n", "a.txt: the network has no switches"),
    ("a.txt", "a b\nb c\nd e\ne f\n", "a.txt: node a: the graph has 2 unconnected parts"),
    ("a.graphml", "<graphml>\n<node</graphml>", "a.graphml:2: is not GraphML: "),
    ("a.json", '{"nodes": [\n}', "a.json:2: is not JSON: "),
    ("a.json", "[1, 2]", "a.json: is not a node-link graph ("),
    ("a.json", '{"nodes": [{"name": "a"}], "links": []}', "a.json: nodes[0]: a table has"),
    ("a.json", f'{{{NODE_1}}}], "links": [{{"source": 1, "target": 2}}]}}',
     "a.json: links[0]: a table is not an edge"),
    ("a.json", f'{{"directed": true, {NODE_1}}}], "links": []}}',
     "a.json: the graph must be undirected"),
    ("a.json", f'{{{NODE_1}, "kind": "host"}}, {{"id": 2}}], "links": []}}',
     'a.json: node 2: has no kind ("host" or "switch" for every node, or for none)'),
    ("a.json", f'{{{NODE_1}, "kind": "host"}}, {{"id": 2, "kind": "switch"}}],'
     ' "links": [{"source": 1, "target": 2, "delay_ps": 0.5}]}',
     "a.json: edge 1 - 2: delay_ps: 0.5 is not a whole number (0 or more)"),
    ("a.json", "[" + "9" * 5000 + "]", "a.json: has an integer of 5,000"),
    ("t", "3 1 2\n2\n0 2 1Gbps 1us 0\n", "t:3: 1 links follow, but line 1 gives 2"),
    ("t", "3 2 1\n2\n0 2 1Gbps 1us 0\n", "t:2: 1 switches are listed, but line 1 gives"),
    ("t", "3 1 1\n3\n0 2 1Gbps 1us 0\n", "t:2: unknown node 3 (0 to 2)"),
    ("t", "2 1 1\n1\n0 1 1Gbps 1us 0.1\n", "t:3: error rate 0.1 is not supported"),
    ("t", "900000000 1 1\n1\n0 1 1Gbps 1us 0\n", "t:1: 1 links cannot connect 900,000,000 nodes"),
]  # fmt: skip


def test_lines_after_those_announced_are_counted(tmp_path):
    """ns-3 does the same. HPCC's own files need this, since they end with comments."""
    path = written(
        tmp_path, "t", "3 1 2\n2\n0 2 1Gbps 1us 0\n1 2 1Gbps 1us 0\n0 1 1Gbps\nFirst line: ...\n"
    )
    network = built(path)
    assert network.n_hosts == 2
    assert network.note == "t: 2 lines after its 2 links are not read"


def test_errors_name_their_location(tmp_path):
    for file, text, expected in INVALID_FILES:
        path = tmp_path / file
        path.write_text(text)
        with pytest.raises(InputError) as caught:
            built(path)
        assert str(caught.value).replace(f"{tmp_path}/", "").startswith(expected)


def test_invalid_weights_are_rejected(tmp_path):
    path = written(tmp_path, "a.txt", "a s weight=1\ns b weight=0\n")
    with raises_input("0"):
        built(path, weight="weight")
    with raises_input("edge"):
        built(path, weight="cost")
