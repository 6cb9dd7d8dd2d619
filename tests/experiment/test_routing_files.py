"""Routing algorithms from plugin files, named in [fabric] next to the queue discipline."""

from pathlib import Path

import pytest
from experiment_text import TRANSPORT, load, text
from raises_input import raises_input

from netsim.experiment.scenario import prepare

MINE = '''"""Chooses another path after a gap."""
from netsim.errors import InputError
from netsim.params import Param

PARAMS = [Param("gap", "time", "100us", "of a flowlet"), Param("tries", "count", 2, "of a draw")]
PRESETS = {"eager": {"gap": "1us"}}


def check(params, fabric, packets):
    if params["tries"] > fabric.n_traffic_classes + 8:
        yield InputError("too many", key="tries", hint="at most 8 more than classes")


def settle(params, network, packets):
    return {**params, "tries": network.n_hosts}


def no_effect(params):
    return {"gap": ("without a try", "remove it")} if params["tries"] == 0 else {}


def choose(env, now, port, pkt, first, n):
    return 0
'''


@pytest.fixture(autouse=True)
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


def of_mine(keys: str = "") -> str:
    return text(fabric=f'routing = "./mine.py"\n{keys}')


def test_routing_parameters_are_fabric_keys(tmp_path, mine, monkeypatch):
    monkeypatch.chdir("/")
    (point,) = load(tmp_path, of_mine('gap = "5us"\nqueue_bytes = "9pkt"')).points()
    fabric = point.fabric
    assert fabric.routing.plugin.path == mine
    assert fabric.routing.params == {"gap": 5_000_000, "tries": 2}
    assert fabric.queue.params["queue_bytes"] == 9 * 4160
    assert fabric.routing in point.uses
    table = point.resolved["fabric"]
    assert (table["routing"], table["gap"], table["tries"]) == ("./mine.py", "5us", 2)
    assert not fabric.one_path
    network = point.topology.module.build(point.topology.params)
    assert fabric.for_network(network, point.packets).routing.params["tries"] == network.n_hosts


def test_transports_presets_and_sweeps_set_the_routing_file(tmp_path):
    (tmp_path / "own.py").write_text(
        f'{TRANSPORT}FABRIC = {{"routing": "mine.py", "gap": "7us"}}\n'
    )
    own = 'transport = "own.py"'
    (point,) = load(tmp_path, text(top=own)).points()
    assert point.fabric.routing.params["gap"] == 7_000_000
    (point,) = load(tmp_path, text(top=own, fabric='routing = "ecmp"')).points()
    assert (point.fabric.routing.params, point.fabric.one_path) == ({}, True)
    (point,) = load(tmp_path, text(top=own, fabric='routing = "./mine.py:eager"')).points()
    assert point.fabric.routing.params["gap"] == 1_000_000
    points = load(tmp_path, text(fabric='routing = ["./mine.py", "ecmp"]\ntries = "1..2"')).points()
    assert [point.fabric.routing.params.get("tries") for point in points] == [1, 2, None, None]
    assert points[0].name == "routing=mine.py,tries=1"


TABLES = """
from netsim.network import table_from


def tables(params, wiring):
    return table_from(wiring, ports_of(wiring))


def ports_of(wiring):
    def ports(switch, edge):
        if switch < 4:
            return [4]
        return wiring.fabric_ports(switch)[wiring.fabric_peers(switch) == edge]
    return ports
"""


def test_routing_file_can_build_its_own_tables(tmp_path, mine):
    """Four leaves with four hosts each; all traffic uses the first of four spines."""
    mine.write_text(MINE + TABLES)
    (point,) = load(tmp_path, of_mine()).points()
    network = prepare(point).network
    crossed = [network.port_node[network.port_peer[port]] for port in network.path(0, 15)]
    assert network.switch_names[crossed[1] - network.n_hosts] == "spine0"
    for old, new, word in (
        ("[4]", "[0]", "hosts"),
        ("[4]", "[99]", "not"),
        ("== edge", "!= edge", "circle"),
        ("    return table_from(wiring, ports_of(wiring))", "    return []", "RoutingTable"),
    ):
        mine.write_text(MINE + TABLES.replace(old, new))
        (point,) = load(tmp_path, of_mine()).points()
        with raises_input("mine.py", "tables()", word):
            prepare(point)
