"""Networks from ASTRA-sim's YAML files, and its system files for Chakra traffic."""

import json
from pathlib import Path

import pytest
from engine_runs import DROP_TAIL, build, resolve, run
from foreign_chakra import ALL_REDUCE, COLLECTIVE, Node, write
from traffic_cases import made

from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.plugins import registry
from netsim.workloads.topologies.astra import BITS_PER_GB

TWO = """topology: [ Ring, Switch ]
npus_count: [ 4, 2 ]
bandwidth: [50.0,25]  # GB/s
latency: [ 500.0, 1000 ]"""


def network(directory: Path, text: str) -> Network:
    (directory / "n.yml").write_text(text)
    plugin = registry.find("topology", "astra")
    made_of: Network = plugin.module.build(resolve(plugin, {"file": str(directory / "n.yml")}))
    return made_of


def alone_ps(on: Network, src: int, dst: int) -> int:
    """Return how long one packet of 4096 bytes takes."""
    engine = build(on, FlowTable([src], [dst], 4096, 0), "datagram", DROP_TAIL, jit=False)
    return int(run(engine).flow_states().done_ps[0])


def test_ring_and_switch_dimensions_have_the_given_rates_and_latencies(tmp_path: Path) -> None:
    on = network(tmp_path, TWO)
    assert (on.n_hosts, on.n_switches) == (8, 8 + 4)
    gb = BITS_PER_GB
    assert on.port_rate_bps[:8].tolist() == [125 * gb] * 8  # two links of a ring, one to a switch
    slow = {src: alone_ps(on, 0, src) for src in (1, 2, 3, 4, 5)}
    packet = [-(-4160 * 8 * 10**12 // (rate * gb)) for rate in (125, 50, 25)]
    ends = 2 * packet[0]
    # One latency to a neighbor, two through a switch; two ring hops share a tenth of a latency.
    assert slow[1] == pytest.approx(ends + packet[1] + 500_000, abs=10)
    assert slow[3] == slow[1]
    assert slow[2] == pytest.approx(ends + 2 * packet[1] + 950_000, abs=10)
    assert slow[4] == pytest.approx(ends + 2 * packet[2] + 2_000_000, abs=10)
    assert slow[5] > slow[4]
    full = network(tmp_path, TWO.replace("Ring", "FullyConnected"))
    assert alone_ps(full, 0, 2) == pytest.approx(slow[1], abs=20_000)


def test_system_file_sets_the_collective_options_of_chakra(tmp_path: Path) -> None:
    attributes = {"comm_type": ALL_REDUCE, "comm_size": 65536}
    write(tmp_path, "t", [[Node(0, COLLECTIVE, attributes)]] * 4)
    system = {"all-reduce-implementation": ["halvingDoubling"], "preferred-dataset-splits": 2}
    system |= {"endpoint-delay": 10, "scheduling-policy": "LIFO", "peak-perf": 900}
    (tmp_path / "s.json").write_text(json.dumps(system))
    given = {"directory": tmp_path, "file": "t"}
    load = made("chakra", 4, system="s.json", **given)
    same = made("chakra", 4, algorithm={"all_reduce": "halving_doubling"},
                channels={"all_reduce": 2}, latency={"all_reduce": "10ns"}, **given)  # fmt: skip
    assert load.flows.size_bytes.tolist() == same.flows.size_bytes.tolist()
    assert load.tasks is not None
    assert same.tasks is not None
    assert load.tasks.duration_ps.tolist() == same.tasks.duration_ps.tolist()
    assert len(load.notes) == 2
    mine = made("chakra", 4, system="s.json", algorithm={"all_reduce": "ring"}, **given)
    assert len(mine.flows) > len(load.flows)
