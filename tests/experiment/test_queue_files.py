"""Queue disciplines from plugin files: named in [fabric], with their own keys and checks."""

from pathlib import Path

import pytest
from experiment_text import TRANSPORT, load, messages, text
from raises_input import mentions, raises_input

from netsim.plugins import registry
from netsim.results.provenance import provenances

MINE = '''"""Half of the room is for class 0."""
from netsim.errors import InputError
from netsim.params import Param

CLASSES = 2
PARAMS = [
    Param("room", "queue", "20pkt", "of a port", minimum="1pkt"),
    Param("share", "count", 2, "of class 0"),
    Param("most", "queue", None, "settled for the network", none="auto"),
]
PRESETS = {"small": {"room": "3pkt", "share": 1}}


def check(params, fabric, packets):
    if params["share"] > fabric.n_traffic_classes:
        yield InputError("too many", key="share", hint="at most n_traffic_classes")
    if packets.control_bytes > 1000:
        yield InputError("too large", key="packets.control_bytes", hint="at most 1KB")


def no_effect(params):
    return {"room": ("without a share", "remove it")} if params["share"] == 0 else {}


def settle(params, network, packets):
    return {**params, "most": params["most"] or network.n_hosts}


def admit(env, now, port, pkt):
    return int(pkt.prio)
'''


@pytest.fixture(autouse=True)
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


def of_mine(keys: str = "", **sections: str) -> str:
    return text(fabric=f'queue_discipline = "./mine.py"\n{keys}', **sections)


def test_discipline_path_is_relative_to_the_experiment(tmp_path, mine, monkeypatch):
    monkeypatch.chdir("/")
    (point,) = load(tmp_path, of_mine('room = "5pkt"')).points()
    use = point.fabric.queue
    assert use.plugin.path == mine
    assert use.params == {"room": 5 * 4160, "share": 2, "most": None}
    assert point.fabric.n_traffic_classes == 2
    assert use in point.uses
    fabric = point.resolved["fabric"]
    assert (fabric["queue_discipline"], fabric["room"], fabric["most"]) == (
        "./mine.py",
        "20.8KB",
        "auto",
    )
    assert "queue_bytes" not in fabric  # ndp sets it for another discipline


def test_transports_discipline_is_relative_to_the_transport(tmp_path, mine, monkeypatch):
    monkeypatch.chdir("/")
    (tmp_path / "far").mkdir()
    mine.rename(tmp_path / "far" / "mine.py")
    declared = (
        'FABRIC = {"queue_discipline": "mine.py", "share": 1, "routing": "spray_round_robin"}\n'
    )
    (tmp_path / "far" / "own.py").write_text(TRANSPORT + declared)
    content = text(top='transport = "far/own.py"')
    (point,) = load(tmp_path, content).points()
    assert point.fabric.queue.plugin.path == tmp_path / "far" / "mine.py"
    assert point.fabric.queue.params["share"] == 1
    # Its keys for that discipline do not apply to another one.
    (point,) = load(tmp_path, content, "fabric.queue_discipline=drop_tail").points()
    assert (point.fabric.queue_discipline, point.fabric.routing.name) == (
        "drop_tail",
        "spray_round_robin",
    )


def test_key_overrides_preset_and_preset_overrides_transport(tmp_path):
    small = 'queue_discipline = "./mine.py:small"\n'
    (tmp_path / "own.py").write_text(
        TRANSPORT + 'FABRIC = {"queue_discipline": "mine.py", "share": 2}\n'
    )
    own = 'transport = "own.py"'
    (point,) = load(tmp_path, text(top=own, fabric=small)).points()
    assert (point.fabric.queue.params["room"], point.fabric.queue.params["share"]) == (12480, 1)
    assert point.resolved["fabric"]["queue_discipline"] == "./mine.py:small"
    (point,) = load(tmp_path, text(top=own, fabric=f'{small}room = "9pkt"')).points()
    assert point.fabric.queue.params["room"] == 9 * 4160
    assert mentions(
        messages(tmp_path, text(fabric='queue_discipline = "./mine.py:smal"')),
        "e.toml",
        "fabric.queue_discipline",
        "smal",
        "small",
    )


def test_settle_sets_parameters_for_the_network(tmp_path):
    (point,) = load(tmp_path, of_mine()).points()
    network = point.topology.module.build(point.topology.params)
    fabric = point.fabric.for_network(network, point.packets)
    assert fabric.queue.params["most"] == network.n_hosts
    assert point.fabric.queue.params["most"] is None


def test_fingerprint_changes_with_the_discipline_file(tmp_path, mine):
    def origin():
        return provenances(load(tmp_path, of_mine()).points())[0]

    first = origin()
    assert [row["kind"] for row in first.plugins[-2:]] == ["queue", "routing"]
    assert first.plugins[-2]["sources"] == {"mine.py": MINE}
    mine.write_text(MINE.replace("too many", "very many"))
    assert origin().fingerprint != first.fingerprint
    mine.write_text(MINE)
    assert origin().fingerprint == first.fingerprint


def test_settle_must_return_parameters(tmp_path, mine):
    mine.write_text(f"{MINE}\n\ndef settle(params, network, packets):\n    return None\n")
    (point,) = load(tmp_path, of_mine()).points()
    network = point.topology.module.build(point.topology.params)
    with raises_input("mine.py", "settle()"):
        point.fabric.for_network(network, point.packets)


def test_queue_unit_is_rejected_in_transports(tmp_path):
    path = tmp_path / "mine.py"
    param = 'from netsim.params import Param\nPARAMS = [Param("room", "queue", "5pkt", "room")]\n'
    path.write_text(TRANSPORT + param)
    with raises_input("queue", key="PARAMS.room"):
        registry.find("transport", str(path))
