"""Deadlocks, timeouts and livelocks end a run and are reported with their cause."""

from pathlib import Path

import pytest
from experiment_text import load, text
from raises_input import mentions, raises_input

from netsim.engine.engine import Engine
from netsim.engine.simulation import Options
from netsim.experiment import Experiment, Point
from netsim.experiment.scenario import prepare
from netsim.reports.faults import deadlock_table
from netsim.running.drive import drive
from netsim.running.point import build_engine, simulate

RING = '''
"""A ring of four switches with one host each; packets go clockwise."""
import numpy as np

from netsim.network import NetworkBuilder
from netsim.model.routing import shortest_paths

PARAMS = []

def clockwise(wiring):
    switch = wiring.port_node - wiring.n_hosts
    return shortest_paths(wiring.only(wiring.peer_switch == (switch + 1) % 4))

def build(params):
    builder = NetworkBuilder()
    hosts = builder.add_hosts(4)
    switches = [builder.add_switch() for _ in hosts]
    for host, switch in zip(hosts, switches):
        builder.cable(host, switch, 100 * 10**9, 1_000_000)
    for i, switch in enumerate(switches):
        builder.cable(switch, switches[(i + 1) % 4], 100 * 10**9, 1_000_000)
    return builder.build("ring", clockwise)
'''

TWO_ON = '''
"""Every host sends two switches on, so the buffers wait for each other in a cycle."""
import numpy as np
from netsim.model.flows import FlowTable

PARAMS = []

def flows(params, network, rng, context):
    src = np.arange(4)
    return FlowTable(src, (src + 2) % 4, np.full(4, 4_000_000))
'''

EXPERIMENT = """
name = "ring"
transport = "{transport}"
[topology]
kind = "./ring.py"
[traffic]
kind = "./two_on.py"
[stop]
{stop}
"""

ALLOWED = """
[fabric]
allow_deadlock = true
"""


@pytest.fixture
def ring(tmp_path: Path) -> Path:
    (tmp_path / "ring.py").write_text(RING)
    (tmp_path / "two_on.py").write_text(TWO_ON)
    return tmp_path


def run(ring: Path, transport: str, stop: str = "", more: str = ""):
    file = ring / "ring.toml"
    file.write_text(EXPERIMENT.format(transport=transport, stop=stop) + more)
    (point,) = Experiment.load(file).points()
    return simulate(point, threads=1)


def test_deadlock_is_reported_with_its_pause_cycle(ring: Path) -> None:
    """Two packets from each neighbor are enough to send a pause."""
    with raises_input("ring.toml", "fabric.queue_discipline", "s0:1", "allow_deadlock"):
        run(ring, "roce")
    two = 'xoff_bytes = "2pkt"\nxon_bytes = "1pkt"\n'
    file = ring / "ring.toml"
    file.write_text(EXPERIMENT.format(transport="roce", stop="") + ALLOWED + two)
    (point,) = Experiment.load(file).points()
    result = simulate(point, threads=1)
    assert (result.stop_reason, result.complete) == ("stalled", False)
    assert result.reason is not None
    # s0:1 is the first switch's port to the second, and so on round the ring.
    cycle = ["s0:1", "s1:2", "s2:2", "s3:2"]
    waits = [f"{a} waits for {b}" for a, b in zip(cycle, cycle[1:] + cycle[:1], strict=True)]
    assert mentions(result.reason, "flow 0", "host 0", "host 2", *waits)
    assert result.summary["drops"] == 0
    assert (result.flows["fct_ps"] == -1).all()

    table, found = result.deadlock, result.summary["deadlock"]
    assert table is not None
    assert found["cycle"] == table["port"].tolist() == cycle
    assert table["waits_for_port"].tolist() == cycle[1:] + cycle[:1]
    assert (table["held_bytes"] > 2 * 4160).all()
    assert table["held_bytes"].sum() == found["held_bytes"]
    assert deadlock_table(engine_at(point, found["since_ps"] - 1)) is None
    then = deadlock_table(engine_at(point, found["since_ps"] + 10**6))
    assert then is not None
    assert then["port"].tolist() == cycle
    assert then["paused_since_ps"].max() == found["since_ps"]


def engine_at(point: Point, time_ps: int) -> Engine:
    """Return the engine of a point after simulating up to a time."""
    engine = build_engine(point, prepare(point), Options())
    assert drive(engine, until_ps=time_ps) == "time_limit"
    return engine


@pytest.mark.usefixtures("plain_python")
def test_dateline_routing_avoids_the_deadlock(ring: Path) -> None:
    """Packets continue at level 1 from the link that closes the ring."""
    (ring / "two_on.py").write_text(TWO_ON.replace("4_000_000", "400_000"))
    tiny = '[fabric]\nxoff_bytes = "2pkt"\nxon_bytes = "1pkt"\nrouting = "dateline"'
    result = run(ring, "roce", more=tiny)
    assert result.complete
    assert result.summary["drops"] == 0
    assert result.summary["pfc_pauses"] > 0
    assert "deadlock" not in result.summary


def test_flow_timeout_stops_the_run(ring: Path) -> None:
    result = run(ring, "ndp", 'flow_timeout = "100us"')
    assert result.stop_reason == "stalled"
    assert result.reason is not None
    assert mentions(result.reason, "flow")


def test_time_limit_is_not_a_stall(ring: Path) -> None:
    result = run(ring, "ndp", 'max_time = "100us"')
    assert (result.stop_reason, result.complete) == ("time_limit", False)
    assert result.summary["simulated_ps"] == 100_000_000


@pytest.mark.usefixtures("plain_python")
@pytest.mark.parametrize("planes", ["permutation", "hash"])
def test_livelock_by_reordering_is_reported_with_its_cause(
    planes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("netsim.running.point.FIRST_CHECK_HOPS", 1)
    monkeypatch.setattr("netsim.running.drive.CHUNK_S", 60.0)  # the same steps on any machine
    monkeypatch.setattr("netsim.running.drive.MIN_RETRANSMITTED", 0.5)
    tree = "hosts_per_leaf = 1\nleaves = 2\nplanes = 4"
    experiment = text(
        top='name = "overtaken"\ntransport = "roce"',
        topology=f'kind = "fat_tree"\n{tree}',
        traffic='kind = "incast"\nfan_in = 1\nsize = "250KB"',
        fabric=f'plane_balancing = "{planes}"',
        stop='flow_timeout = "100us"',
    )
    (point,) = load(tmp_path, experiment).points()
    result, warnings = simulate(point, threads=1), capsys.readouterr().err
    assert result.complete == (planes == "hash")
    why = "(fabric.plane_balancing = permutation)"
    assert warnings.count(why) == (why in (result.reason or "")) == (planes == "permutation")
