"""Every routing algorithm passes the suite; a broken one fails with the reason."""

from pathlib import Path

import numpy as np
import pytest
from marked import blocks, marked
from raises_input import mentions

from netsim.conformance import CASES, RoutingTestbed, check, failures, templates
from netsim.conformance.engine_cases import DETERMINISM
from netsim.conformance.networks import tree
from netsim.flows import FlowTable
from netsim.plugins import registry

PLAIN = [case.name for case in CASES["routing"] if case not in DETERMINISM]
"""All but determinism, which slow tests against the reference simulator also cover."""
TEMPLATE = Path(templates.__path__[0], "my_routing.py")
NAMES = [*registry.names("routing"), str(TEMPLATE)]

RANDOM = '''
"""Choose a random port, via a random group."""

from netsim.routing import below, group_of, held, mix, n_groups, rand32, set_level, set_via, via_of
from netsim.params import Param

PARAMS = []
VIA = True


def draw(env, port, n):
    port.draws += 1
    return below(rand32(env.par.seed, 130, int(port.number), port.draws), n)


def at_source(env, now, port, pkt):
    set_via(env, pkt, draw(env, port, n_groups(env)))


def choose(env, now, port, pkt, first, n):
    return draw(env, port, n)
'''


QUICK = ("ecmp", "conga", "letflow", "dateline", "ugal_l")
"""Algorithms of each kind: hashing, round robin, load, flowlets, dimension order, detours."""


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in NAMES],
)
def test_built_in_algorithms_pass(name):
    findings = check(name, "routing", cases=PLAIN)
    assert [finding.case for finding in findings] == PLAIN
    assert not failures(findings)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_built_in_algorithms_pass_compiled(name):
    assert not failures(check(name, "routing", cases=[case.name for case in DETERMINISM]))


IN_THE_GUIDE = {
    "valiant": (("valiant",), "PARAMS = []", {}),
    "tables": (("valiant", "tables"), "PARAMS = []", {}),
    "planes": (("valiant", "planes"), "PARAMS = []", {"plane_balancing": "routing"}),
    "utilization": (
        ("valiant", "utilization"),
        'PACKET_FIELDS = ("busiest",)\nPARAMS = [Param("tick", "time", "5us", "period")]',
        {"tick": "2us"},
    ),
}
"""For each file: the marked parts of the guide it consists of, its other lines, its keys."""


def test_algorithms_of_the_guide_pass(tmp_path):
    guide = (TEMPLATE.parents[2] / "routing_algorithms" / "README.md").read_text("utf-8")
    path = tmp_path / "mine.py"
    for name, (parts, more, keys) in IN_THE_GUIDE.items():
        code = "\n\n".join(
            block for part in parts for block in blocks(marked(guide, part), "python")
        )
        head = "from netsim.params import Param\nfrom netsim.routing import *"
        path.write_text(f"{head}\n{more}\n\n{code}")
        findings = check(
            path, "routing", settings=keys, cases=["tree", "planes", "dragonfly", "resumed"]
        )
        assert [finding.status for finding in findings] == ["pass"] * 4, (name, findings)


FAULTS = {
    "index out of range": (
        "def choose(env, now, port, pkt, first, n):\n    return n\n",
        "tree",
        ("choose", "candidate 2"),
    ),
    "group out of range": (
        "def at_source(env, now, port, pkt):\n    set_via(env, pkt, n_groups(env))\n",
        "tree",
        ("at_source", "group 4"),
    ),
    "routing loop": (
        "def at_switch(env, now, port, pkt):\n"
        "    set_via(env, pkt, (group_of(env, pkt) + 1 + (env.switch.group & 1)) % 3)\n",
        "dragonfly",
        ("dragonfly_6", "links"),
    ),
    "exception": (
        "def choose(env, now, port, pkt, first, n):\n    return 1 // 0\n",
        "tree",
        ("choose", "division"),
    ),
    "state in the module": (
        "SEEN = [0]\n\n\ndef choose(env, now, port, pkt, first, n):\n"
        "    SEEN[0] += 1\n    return SEEN[0] % n\n",
        "resumed",
        ("a continued run differs",),
    ),
    "levels from queue lengths": (
        "COUPLED = True\nLEVELS = 2\n\n\ndef on_route(env, now, port, out, pkt):\n"
        "    set_level(env, pkt, min(held(env, 0), 1))\n",
        "deadlock",
        ("on_route", "cannot follow levels"),
    ),
    "levels from flow numbers": (
        "LEVELS = 2\n\n\ndef on_route(env, now, port, out, pkt):\n"
        "    set_level(env, pkt, int(pkt.flow) % 2)\n",
        "deadlock",
        ("on_route", "cannot follow levels"),
    ),
}


def test_broken_algorithm_fails_with_the_reason(tmp_path):
    for code, case, expected in FAULTS.values():
        path = tmp_path / "mine.py"
        path.write_text(f"{RANDOM}\n\n{code}")
        (finding,) = check(path, "routing", cases=[case])
        assert finding.failed, (code, finding)
        assert mentions(finding.detail, *expected), finding.detail


def test_testbed_matches_closed_form():
    """Packets of two hosts meet at the third host's port: the second waits for the first."""
    run = RoutingTestbed.of("ecmp").run(FlowTable([0, 1], 2, 4096), tree())
    packet_ps = 4160 * 80
    assert run.fct_ps().max() - run.fct_ps().min() in (0, packet_ps)
    assert np.array_equal(np.sort(run.fct_ps())[:1], [4 * packet_ps + 4_000_000])
