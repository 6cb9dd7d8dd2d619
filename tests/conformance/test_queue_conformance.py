"""The testbeds of queues, routing, topologies and traffic."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from marked import blocks, marked
from raises_input import mentions, raises, raises_input

from netsim.conformance import CASES, QueueTestbed, check, failures, templates
from netsim.conformance.engine_cases import DETERMINISM
from netsim.conformance.networks import incast_in_classes, star
from netsim.errors import RunError
from netsim.flows import FlowTable
from netsim.plugins import registry

PLAIN = [case.name for case in CASES["queue"] if case not in DETERMINISM]
OTHERS = [case.name for case in DETERMINISM]
"""Determinism cases, which slow tests against the reference simulator also cover."""
TEMPLATE = Path(templates.__path__[0], "my_queue.py")
NAMES = [*registry.names("queue"), str(TEMPLATE)]
QUICK = ("drop_tail", "trim", "pfabric", "lossless", "credits", str(TEMPLATE))
"""Disciplines of each kind: FIFO, trimming, another order, PFC, credits, round robin of classes."""
FIFO = '''
"""A FIFO."""

from netsim.params import Param
from netsim.queue import DROP, NO_CLASS, class_of, pause, wait_until

PARAMS = [Param("room", "queue", "20pkt", "per port and class")]
PORT_STATE = ("n",)


def admit(env, now, port, pkt):
    if class_of(env, port, int(pkt.prio)).bytes + int(pkt.size_bytes) > env.par.room:
        return DROP
    return int(pkt.prio)
'''


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in NAMES],
)
def test_built_in_disciplines_pass(name):
    findings = check(name, "queue", cases=PLAIN)
    assert [finding.case for finding in findings] == PLAIN
    assert not failures(findings)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_built_in_disciplines_pass_compiled(name):
    findings = check(name, "queue", cases=OTHERS)
    assert [finding.status for finding in findings] == ["pass"] * len(OTHERS)


def failure_detail(tmp_path: Path, source: str, case: str, **keys: object) -> str:
    """Run one case, which the discipline must fail, and return the reason."""
    path = tmp_path / "mine.py"
    path.write_text(source)
    (finding,) = check(path, "queue", cases=[case], settings=keys)
    assert finding.failed, finding
    return finding.detail


def test_fifo_passes(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FIFO)
    testbed = QueueTestbed.of(path, settings={"n_traffic_classes": 2})
    assert testbed.run(incast_in_classes(20, 2)).total("drops") > 0
    assert not failures(check(path, "queue", cases=["incast", "busy", "order", "growth"]))


FAULTS = {
    "waits forever": (
        "def choose_class(env, now, port):\n"
        "    if now < 0:\n        wait_until(env, now, port, 5)\n"
        "    return NO_CLASS\n",
        "incast",
        "wait_until",
    ),
    "drops in an empty network": (
        "def admit(env, now, port, pkt):\n    return DROP\n",
        "single packets",
        "empty network",
    ),
    "pauses forever": (
        "COUPLED = True\n"
        "def on_arrival(env, now, port, pkt):\n    pause(env, port, 0)\n    return 0\n",
        "single packets",
        "stays paused",
    ),
    "drops despite pauses": (
        "COUPLED = True\n"
        "def on_arrival(env, now, port, pkt):\n"
        "    if now < 0:\n        pause(env, port, 0)\n    return 0\n",
        "pauses",
        "packets are dropped despite pauses",
    ),
    "reorders by class": (
        "def admit(env, now, port, pkt):\n    port.n += 1\n    return port.n % 2\n",
        "order",
        "packets of a flow are reordered",
    ),
    "class out of range": (
        "def choose_class(env, now, port):\n    return 7\n",
        "incast",
        "choose_class",
    ),
    "exception": (
        "def on_send(env, now, port, queue, pkt):\n    port.n = 1 // 0\n",
        "incast",
        "port.n = 1 // 0",
    ),
    "state in the module": (
        "SEEN = [0]\n\n\ndef admit(env, now, port, pkt):\n"
        "    SEEN[0] += 1\n    return DROP if SEEN[0] % 9 == 0 else int(pkt.prio)\n",
        "windows",
        "give different results",
    ),
}


def test_broken_discipline_fails_with_the_reason(tmp_path):
    for code, case, expected in FAULTS.values():
        assert expected in failure_detail(tmp_path, f"{FIFO}\n\n{code}", case)


def test_idle_port_fails_unless_the_queue_is_a_shaper(tmp_path, monkeypatch):
    """The discipline sends a packet every two microseconds, which only a shaper may do."""
    code = (
        "def choose_class(env, now, port):\n"
        "    if now < port.n:\n        wait_until(env, now, port, port.n)\n"
        "        return NO_CLASS\n"
        "    port.n = now + 2_000_000\n    return 0\n"
    )
    source = f"CLASSES = 1\n{FIFO}\n\n{code}"
    (tmp_path / "mine.py").write_text(source)
    (finding,) = check(tmp_path / "mine.py", "queue", cases=["busy"])
    assert finding.status == "not applicable"
    monkeypatch.setattr(QueueTestbed, "discipline", SimpleNamespace(is_shaped=False))
    assert mentions(failure_detail(tmp_path, source, "busy"), "port")


def test_testbed_matches_closed_form():
    """Packets of two hosts meet at the third host's port: the second waits for the first."""
    flows = FlowTable([0, 1], 2, 4096)
    run = QueueTestbed.of("drop_tail").run(flows, star(3))
    packet_ps = 4160 * 80
    assert sorted(run.fct_ps().tolist()) == [2 * packet_ps + 2_000_000, 3 * packet_ps + 2_000_000]


RING = Path(templates.__path__[0], "my_topology.py")


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        (RING, {}),
        ("fat_tree", {"leaves": 2, "hosts_per_leaf": 2}),
        ("torus", {"shape": "3x3"}),
        ("dragonfly", {"switches_per_group": 2, "hosts_per_switch": 1}),
        ("multi_plane", {"planes": 2, "plane": {"kind": "torus", "shape": "3x3"}}),
    ],
)
def test_topologies_pass(name: Path | str, settings: dict[str, object]) -> None:
    findings = check(name, "topology", settings=settings)
    assert [finding.case for finding in findings] == [case.name for case in CASES["topology"]]
    assert not failures(findings)


def test_broken_topology_fails_with_the_reason(tmp_path: Path) -> None:
    before = "    builder = NetworkBuilder()\n"
    end = '    return builder.build(f"my_topology_{n}x{each}")\n'
    text = RING.read_text()
    path = tmp_path / "mine.py"
    for old, new, case, words in [
        (end, "", "network", "NoneType"),
        (before, f"{before}    raise InputError('no')\n", "network", "no"),
        (before, f"{before}    params['switches'] = 3\n", "network", "parameters"),
        (before, f"{before}    each = 1 // (each - 1)\n", "parameters", ("hosts_per_switch = 1",
         "ZeroDivision", "line")),
        ("latency_ps)\n    return", "latency_ps + np.random.randint(1, 9999))\n    return",
         "again", "port_delay_ps"),
        ("    builder.reserve", "    np.ones(each << 40)\n    builder.reserve", "network",
         "builder.reserve"),
    ]:  # fmt: skip
        assert old in text
        path.write_text(text.replace(old, new))
        (finding,) = check(path, cases=[case])
        assert finding.failed, (new, finding)
        assert mentions(finding.detail, words), finding.detail


def example_of_the_guide(folder, name, imports):
    """Write an example of the guide as a discipline; return its file."""
    guide = (Path(registry.__file__).parents[1] / "queues" / "README.md").read_text("utf-8")
    (code,) = blocks(marked(guide, name), "python")
    path = folder / "mine.py"
    path.write_text(
        f"from netsim.params import Param\nfrom netsim.queue import {imports}\n\n"
        f'PARAMS = [Param("shared_bytes", "queue", "40pkt", "of a switch")]\n{code}'
    )
    return path


def test_counts_by_ingress_of_the_guide_do_not_leak(tmp_path):
    """Seven hosts overload one. Each drop lowers the ingress count, so the count ends at 0."""
    path = example_of_the_guide(tmp_path, "ingress", "ACCEPT, DROP, n_ports, port_at")
    flows = FlowTable(range(1, 8), 0, 30 * 4096)
    run = QueueTestbed.of(path).run(flows, star(8))
    ports = np.asarray(run.engine.state.links.ports)
    assert run.total("drops") > 50
    assert not ports["came_in_bytes"].any()
    path.write_text(path.read_text().replace("pkt.came_by)", "n_ports(env))"))
    with raises(RunError, "admit", "port 8"):
        QueueTestbed.of(path).run(flows, star(8))
    path.write_text(path.read_text().replace("COUPLED = True", "").replace("def on_", "def not_"))
    with raises_input("port_at", "coupled"):
        QueueTestbed.of(path)


def test_switch_of_the_guide_sends_cnps(tmp_path):
    """A congested switch sends one every 50 us, each counted as made and received."""
    path = example_of_the_guide(tmp_path, "emit", "CNP, DATA, class_of, emit")
    flows = FlowTable(range(1, 8), 0, 30 * 4096)
    run = QueueTestbed.of(path).run(flows, star(8))
    account = run.engine.conservation().packets
    made = account.sent - 7 * 30
    assert 0 < made <= 1 + run.engine.now_ps // 50_000_000
    assert account.received == account.sent
