"""Routing algorithms: state, services and rules, tested with files that use all of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from engine_runs import LOSSLESS, US, build, fabric_with, fat_tree, flow_table, run
from raises_input import raises, raises_input

from netsim.engine.compiling import lint
from netsim.engine.engine import Engine
from netsim.errors import RunError
from netsim.model.fabric import Fabric
from netsim.plugins import registry
from netsim.plugins.registry import PluginSpec

HEAD = """
from netsim.routing import *
from netsim.params import Param

PARAMS = []
TIMES = [Param(name, "time", "3us", "period") for name in ("tick", "publish_delay")]
"""

FIRST = "def choose(env, now, port, pkt, first, n):\n    return 0\n"

UNCOUPLED = """
VIA = True
LEVELS = 3
PORT_STATE = ("last", ("sums", 4))
PORT_SALTS = (("salt", 130, 1, 0),)
FLOW_TABLE = ("last_ps", "k")
FLOW_ROWS = 16
PACKET_FIELDS = ("seen",)


def at_source(env, now, port, pkt):
    set_via(env, pkt, below(mix(port.salt ^ (port.draws & 0xFFFFFFFF)), n_groups(env)))
    port.draws += 1


def at_switch(env, now, port, pkt):
    pkt.seen += hops_to(env, group_of(env, pkt))
    set_level(env, pkt, min(level_of(env, pkt) + 1, 2))


def choose(env, now, port, pkt, first, n):
    row = flow_row(env, port, pkt)
    if now - row.last_ps > 2_000_000:
        row.k = (port.last + pkt.seen) % n
    row.last_ps = now
    return row.k


def on_route(env, now, port, out, pkt):
    port.last += 1 + int(out.from_host) + dimension_of(env, out.number - env.switch.first_port)
    port.sums[via_of(pkt) & 3] += ps_per_byte_q20(env, 0)
"""
"""Uses everything that an algorithm may use without coupled ports."""

BUSY = """
    k = candidate(env, first, row.k)
    if held(env, k) > 9_000 or not is_up(env, now, k):
        return (row.k + published(env, now, group_of(env, pkt), 1)) % n"""

COUPLED_PORTS = (
    UNCOUPLED.replace("FLOW_ROWS", 'COUPLED = True\nSWITCH_STATE = ("bytes", "periods")\nFLOW_ROWS')
    .replace("PACKET_FIELDS", 'PARAMS = TIMES\nPUBLISHED = 2\nPACKET_FIELDS')
    .replace("pkt.seen) % n", "pkt.seen + env.switch.bytes + env.switch.periods) % n")
    .replace("    row.last_ps = now", "    row.last_ps = now" + BUSY)
    + '''

def on_depart(env, now, port, pkt):
    env.switch.bytes += int(pkt.size_bytes) + pkt.seen
    publish(env, now, 1, env.switch.bytes)
    port.last += egress(env, 0).draws


def on_tick(env, now, n_ticks):
    env.switch.bytes >>= min(n_ticks, 40)
    env.switch.periods += n_ticks + now // 3_000_000
'''
)  # fmt: skip
"""Uses everything that an algorithm may use with coupled ports."""

NETWORK = fat_tree(2, 4, "100Gbps")
FLOWS = [(h, (h + 1 + h // 3) % 8, 60_000, 500_000 * h) for h in range(8)]


def algorithm(folder: Path, text: str, **params: object) -> PluginSpec:
    """Return the algorithm of a file with `HEAD` and `text`."""
    (folder / "mine.py").write_text(HEAD + text, "utf-8")
    return PluginSpec(registry.find("routing", "mine.py", relative_to=folder), params)


def engine(folder: Path, text: str, fabric: Fabric | None = None, **options: object) -> Engine:
    """Return an engine whose switches use that algorithm."""
    params = dict.fromkeys(("tick", "publish_delay"), 3 * US) if "TIMES" in text else {}
    fabric = fabric or fabric_with(queue_bytes=10 * 4160)
    fabric = Fabric(fabric.queue, algorithm(folder, text, **params))
    options = {"jit": False, **options}
    return build(NETWORK, flow_table(FLOWS), "roce", fabric, **options)


@pytest.mark.parametrize("fabric", [None, LOSSLESS], ids=["drop_tail", "lossless"])
@pytest.mark.parametrize("text", [UNCOUPLED, COUPLED_PORTS], ids=["uncoupled", "coupled"])
def test_state_is_independent_of_windows_and_interruptions(
    tmp_path: Path, text: str, fabric: Fabric | None
) -> None:
    whole = run(engine(tmp_path, text, fabric))
    states = [whole]
    states.append(run(engine(tmp_path, text, fabric, window_ps=300_000)))
    begun = run(engine(tmp_path, text, fabric), 12 * US)
    resumed = engine(tmp_path, text, fabric)
    resumed.restore(begun.snapshot())
    states.append(run(resumed))
    assert len({one.digest() for one in states}) == 1
    names = (
        "routing_ports",
        "routers",
        "flow_rows",
        *(["published"] if text is COUPLED_PORTS else []),
    )
    for name in names:
        kept = [np.asarray(getattr(one.state.links, name)).tobytes() for one in states]
        assert any(kept[0])
        assert len(set(kept)) == 1


def test_levels_become_link_classes_only_with_pfc(tmp_path: Path) -> None:
    """The last of three levels is served first.

    The ingress counts a packet in the level in which it arrived.
    """
    ended = run(engine(tmp_path, UNCOUPLED, LOSSLESS))
    sent = ended.link_counters().sent_packets.reshape(-1, 3)
    hosts, leaves, spines = sent[:8], sent[8:24], sent[24:]
    for tier, classes in ((hosts, [2]), (leaves, [0, 2]), (spines, [0, 1])):
        assert np.flatnonzero(tier.any(axis=0)).tolist() == classes
    kept = np.asarray(ended.state.links.queues)
    assert not kept["came_in_bytes"].any()
    assert run(engine(tmp_path, UNCOUPLED)).link_counters().sent_packets.size == sent.shape[0]


PLANES = """
PLANE_STATE = ("taken", "busy")


def choose_plane(env, now, side, n):
    best = 0
    for k in range(n):
        if (waiting(env, side, k), free_at(env, side, k)) < (
            waiting(env, side, best), free_at(env, side, best)
        ):
            best = k
    side.taken += env.is_data
    side.busy += now < free_at(env, side, best)
    return best
"""


def test_choose_plane_can_reproduce_least_loaded(tmp_path: Path) -> None:
    network = fat_tree(2, 4, "100Gbps", planes=4)
    ended = []
    for planes in ("least_loaded", "routing"):
        algorithm_ = algorithm(tmp_path, FIRST + PLANES)
        queue = fabric_with(queue_bytes=10**9).queue
        fabric = Fabric(queue, algorithm_, plane_balancing=planes, n_traffic_classes=2)
        ended.append(run(build(network, flow_table(FLOWS), "ndp", fabric, jit=False)))
    times = [one.flow_states().done_ps for one in ended]
    assert np.array_equal(*times)
    taken = np.asarray(ended[1].state.hosts.port_choices)["taken"].reshape(2, -1)
    assert (taken[0] >= ended[1].state.hosts.tx["sent_packets"]).all()
    with raises_input(key="fabric.plane_balancing"):
        fabric = Fabric(fabric.queue, plane_balancing="routing")
        build(network, flow_table(FLOWS), "ndp", fabric, jit=False)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (FIRST.replace("0", "n"), ("mine", "choose", "candidate 2", "switch 0")),
        (FIRST.replace("0", "candidate(env, -9, 0)"), ("choose", "candidate 0")),
        (FIRST.replace("0", "int(is_up(env, now, 99))"), ("choose", "port 99")),
        (FIRST.replace("0", "candidates(env, now, 4)[1]"), ("choose", "group 4")),
    ],
)
def test_invalid_index_ends_the_run(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    with raises(RunError, *words):
        run(engine(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (FIRST.replace("0", "held(env, 0)"), ("held()", "coupled")),
        ('SWITCH_STATE = ("a",)\n' + FIRST, ("SWITCH_STATE", "coupled")),
        (FIRST + "def on_tick(env, now, n_ticks):\n    pass\n", ("on_tick", "coupled")),
        ("COUPLED = True\n" + FIRST + "def on_tick(env, now, n_ticks):\n    pass\n", ("tick",)),
        (FIRST.replace("0", "via_of(pkt)"), ("VIA",)),
        (FIRST.replace("    return", "    set_level(env, pkt, 1)\n    return"), ("LEVELS",)),
        (FIRST.replace("0", "flow_row(env, port, pkt).k"), ("FLOW_TABLE",)),
        (FIRST.replace("0", "published(env, now, 0, 0)"), ("PUBLISHED",)),
        ("PUBLISHED = 1\n" + FIRST, ("publish_delay",)),
        (FIRST.replace("    return", "    pkt.prio = 0\n    return"), ("pkt.prio", "engine")),
        (FIRST.replace("0", "env.net"), ("env has no net",)),
        (
            'PORT_STATE = ("a",)\n' + FIRST.replace("0", "egress(env, 1).a"),
            ("no field a",),
        ),
        ('PORT_SALTS = (("a", 1),)\n' + FIRST, ("PORT_SALTS",)),
        ('PORT_STATE = ("a",)\nPORT_SALTS = (("a", 1, 1, 0),)\n' + FIRST, ("duplicate",)),
        ("def choose(env, now, port, pkt, first, n):\n    pass\n", ("must return",)),
    ],
)
def test_lint_finds_errors_before_the_run(
    tmp_path: Path, text: str, words: tuple[str, ...]
) -> None:
    with raises_input("mine.py", *words):
        lint.check(algorithm(tmp_path, text).plugin, {})


def test_published_value_is_one_to_two_periods_old(tmp_path: Path) -> None:
    """A packet every 500 ns: leaf 0 publishes each departure, other switches record the value."""
    text = """
PARAMS = TIMES
COUPLED = True
PUBLISHED = 1
SWITCH_STATE = ("n", ("at", 64), ("seen", 64))


def choose(env, now, port, pkt, first, n):
    return 0


def at_switch(env, now, port, pkt):
    env.switch.at[env.switch.n] = now
    env.switch.seen[env.switch.n] = published(env, now, 0, 0)
    env.switch.n += 1


def on_depart(env, now, port, pkt):
    publish(env, now, 0, now)
"""
    flows = [(0, 7, 4096, 500_000 * k) for k in range(40)]
    spec = algorithm(tmp_path, text, tick=3 * US, publish_delay=3 * US)
    ended = []
    for options in ({}, {"window_ps": 200_000}):
        fabric = Fabric(fabric_with(queue_bytes=10**9).queue, spec)
        ended.append(
            run(build(NETWORK, flow_table(flows), "datagram", fabric, jit=False, **options))
        )
    assert ended[0].digest() == ended[1].digest()
    routers = np.asarray(ended[0].state.links.routers)
    far = routers[routers["n"] > 0][-1]
    at, seen = (far[name][: far["n"]] for name in ("at", "seen"))
    begin = (at // (3 * US) - 1) * 3 * US
    leaves = np.unique(seen[seen > 0])
    assert leaves.size > 2
    for now, value in zip(begin.tolist(), seen.tolist(), strict=True):
        before = leaves[leaves < now]
        assert value == (before.max() if before.size else 0)
        assert value == 0 or now - value <= 500_000
    fabric = Fabric(fabric.queue, algorithm(tmp_path, text, tick=1, publish_delay=US // 2))
    with raises_input("smallest delay", key="fabric.publish_delay"):
        build(NETWORK, flow_table(flows), "datagram", fabric, jit=False)
