"""Routing algorithms against theory, and their rules."""

from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from engine_runs import (
    LOSSLESS,
    PACKET,
    US,
    build,
    fabric_with,
    fat_tree,
    fct_ps,
    flow_table,
    keep_sent,
    packets_sent,
    run,
)
from raises_input import raises, raises_input
from topology_of import topology_of

from netsim.engine.compiling import lint
from netsim.engine.engine import Engine
from netsim.errors import RunError
from netsim.model.builder import NetworkBuilder
from netsim.model.fabric import Fabric, routing_spec
from netsim.model.network import Network
from netsim.plugins import registry
from netsim.plugins.registry import PluginSpec
from netsim.routing_algorithms import _utilization as utilization
from netsim.routing_algorithms import dlb, wcmp

PAYLOAD = 4096
SEND = 332_800  # serialization time of a 4,160-byte packet at 100 Gbps, in ps


def routed(name: str, **params: Any) -> Fabric:
    """Return a fabric with deep queues and a routing algorithm."""
    return fabric_with(queue_bytes=10**12, routing=routing_spec(name, **params))


def sent_bytes(engine: Engine) -> np.ndarray:
    """Return the bytes that each port sent."""
    return engine.link_counters().sent_bytes.reshape(engine.network.n_ports, -1).sum(axis=1)


def between_switches(network: Network) -> np.ndarray:
    """Return the ports of links between switches."""
    first = network.n_hosts
    return np.flatnonzero(
        (network.port_node >= first) & (network.port_node[network.port_peer] >= first)
    )


def ring(switches: int) -> Network:
    return topology_of({"kind": "torus", "shape": str(switches), "host_rate": "100Gbps"})


def dragonfly() -> Network:
    """Return a dragonfly of 72 hosts in groups of 4 switches."""
    return topology_of({"kind": "dragonfly", "switches_per_group": 4, "host_rate": "100Gbps"})


def test_tornado_loads_one_ring_direction_but_valiant_both() -> None:
    """A minimal path has k / 2 - 1 links, a Valiant path twice the mean distance k / 4."""
    network, n = ring(8), 250
    flows = flow_table([(h, (h + 3) % 8, n * PAYLOAD, 0) for h in range(8)])
    for name, loads in (("ecmp", [0.0] * 8 + [3.0] * 8), ("valiant", [2.0] * 16)):
        engine = run(build(network, flows, "datagram", routed(name), jit=False))
        found = np.sort(sent_bytes(engine)[between_switches(network)] / (n * PACKET))
        assert found == pytest.approx(np.array(loads), abs=0.3 if name == "valiant" else 0)
        assert found.mean() == pytest.approx(np.mean(loads), rel=0.03)


@pytest.mark.parametrize(
    ("name", "most"), [("ecmp", 5), ("ugal_l", 5), ("adaptive", 5), ("dlb", 5), ("valiant", 8)]
)
def test_single_packet_takes_the_delay_of_its_links(name: str, most: int) -> None:
    """Serialization and propagation on each link of the path; Valiant paths are longer."""
    flows = [(h, (h + 37) % 72, PAYLOAD, 100 * US * h) for h in range(72)]
    engine = run(build(dragonfly(), flow_table(flows), "datagram", routed(name), jit=False))
    links, rest = np.divmod(fct_ps(engine), SEND + US)
    assert not rest.any()
    assert links.max() == most
    if name != "valiant":
        minimal = fct_ps(
            run(build(dragonfly(), flow_table(flows), "datagram", routed("ecmp"), jit=False))
        )
        assert (fct_ps(engine) == minimal).all()


def test_drill_sampling_all_ports_equals_least_loaded() -> None:
    rng = np.random.default_rng(3)
    src, dst = rng.integers(0, 16, (2, 60))
    flows = [(a, (a + 16 + b) % 32, 5 * PAYLOAD, 0) for a, b in zip(src, dst, strict=True)]
    both = [
        run(build(fat_tree(8, 4, "100Gbps"), flow_table(flows), "datagram", fabric, jit=False))
        for fabric in (routed("least_loaded"), routed("drill", samples=8, remember=0))
    ]
    assert (fct_ps(both[0]) == fct_ps(both[1])).all()
    assert (sent_bytes(both[0]) == sent_bytes(both[1])).all()


@pytest.mark.parametrize(("gap_us", "paths", "n"), [(20, 1.0, 40), (5, 4 * (1 - 0.75**8), 150)])
def test_letflow_moves_only_flowlets_after_the_gap(gap_us: int, paths: float, n: int) -> None:
    """Packets are 12.8 us apart: one path with a longer gap, else n (1 - (1 - 1 / n)^8), n = 4."""
    network = fat_tree(4, 2, "100Gbps")
    flows = [(k % 4, 4 + k % 4, 8 * PAYLOAD, 500 * US * k) for k in range(n)]
    paced = {"rate": "2600Mbps"}
    fabric = routed("letflow", flowlet_gap=gap_us * US)
    engine = build(network, flow_table(flows), "datagram", fabric, params=paced, jit=False)
    engine = run(keep_sent(engine))
    used: defaultdict[int, set[int]] = defaultdict(set)
    for port in between_switches(network):
        if network.port_node[port] == network.n_hosts:
            for pkt in packets_sent(engine, int(port)):
                used[int(pkt["flow"])].add(int(port))
    assert np.mean([len(ports) for ports in used.values()]) == pytest.approx(paths, rel=0.03)


def test_conga_avoids_a_remote_bottleneck() -> None:
    """A spine's cable to the second leaf is slow, which only that leaf's feedback shows."""
    builder = NetworkBuilder()
    hosts = builder.add_hosts(8)
    leaves, spines = builder.add_switches(["l0", "l1"]), builder.add_switches(["s0", "s1"])
    for host in hosts:
        builder.cable(host, leaves[host // 4], rate_bps=100 * 10**9, delay_ps=US)
    for leaf in leaves:
        for spine in spines:
            slow = leaf == leaves[1] and spine == spines[0]
            rate_bps = (10 if slow else 200) * 10**9
            builder.cable(leaf, spine, rate_bps=rate_bps, delay_ps=US)
    network = builder.build("asymmetric")
    flows = [(k % 4, 4 + k % 4, 4 * PAYLOAD, 4 * US * k) for k in range(150)]
    first = int(network.node_first_port[leaves[0]]) + 4
    shares = {}
    for name in ("letflow", "conga"):
        fabric = routed(name, flowlet_gap=20 * US)
        engine = run(build(network, flow_table(flows), "roce", fabric, jit=False))
        slow, fast = sent_bytes(engine)[first : first + 2]
        shares[name] = slow / (slow + fast)
    assert shares["letflow"] == pytest.approx(0.5, abs=0.15)
    assert shares["conga"] < 0.15


def test_rate_estimator_converges_to_its_fixed_points() -> None:
    """At R = C / 2, alpha 0.2 and 8 levels, it holds R T / alpha before a period ends, which is
    level 4, and R T (1 - alpha) / alpha after, which is level 3."""
    period, q20 = 50 * US, 80 << 20
    port = SimpleNamespace(dre_bytes=0, dre_periods=0)
    env: Any = SimpleNamespace(
        par=SimpleNamespace(dre_period=period, dre_alpha=0.2),
        switch=SimpleNamespace(first_port=0, n_ports=1),
        net=SimpleNamespace(port_q20=[q20]),
        links=SimpleNamespace(routing_ports=[port]),
    )
    pkt: Any = SimpleNamespace(size_bytes=6250)
    for k in range(50 * 60):  # 6,250 bytes every us at 100 Gbps
        utilization.on_depart(env, k * US, port, pkt)
    in_period = 50 * 6250
    end = 50 * 60 * US
    assert port.dre_bytes == pytest.approx(in_period / 0.2, rel=1e-3)
    assert utilization.level(env, end - 1, 0, 8) == 4
    assert utilization.level(env, end, 0, 8) == 3
    assert port.dre_bytes == pytest.approx(in_period * 0.8 / 0.2, rel=1e-3)


def test_dlb_load_converges_to_what_a_period_sends_and_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before a sample it is w (R T + q), with weight w and q bytes held at each sample."""
    period, weight, held = 16 * US, 16, 50_000
    port = SimpleNamespace(load_bytes=0)
    monkeypatch.setattr(dlb, "held", lambda _, __: held)
    env: Any = SimpleNamespace(
        par=SimpleNamespace(tick=period, load_weight=weight),
        switch=SimpleNamespace(first_port=0, n_ports=1),
        net=SimpleNamespace(port_q20=[80 << 20]),
        links=SimpleNamespace(routing_ports=[port]),
    )
    pkt: Any = SimpleNamespace(size_bytes=6250)
    for _ in range(200):
        for _ in range(16):  # 6,250 bytes every us, half of 100 Gbps
            dlb.on_depart(env, 0, port, pkt)
        converged = port.load_bytes
        dlb.on_tick(env, 0, 1)
    assert converged == pytest.approx(weight * (16 * 6250 + held), rel=1e-3)
    after = weight * (16 * 6250 + held) - 16 * 6250
    assert dlb.band(env, 0) == 4 * after // (weight * 16 * 12_500) == 2
    dlb.on_tick(env, 0, 10**12)
    assert port.load_bytes == pytest.approx(weight * held, rel=1e-3)


def test_wcmp_weights_by_entries_and_moves_only_flows_of_a_lost_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wcmp, "candidate", lambda _, ports, k: ports[k])
    env: Any = SimpleNamespace(switch=SimpleNamespace(salt=77))
    n = 8000

    def ports_of(ports: list[int]) -> np.ndarray:
        found = []
        for flow in range(n):
            pkt: Any = SimpleNamespace(kind=0, flow=flow, entropy=0)
            found.append(ports[wcmp.choose(env, 0, None, pkt, ports, len(ports))])
        return np.array(found)

    entries = [3, 3, 5, 6, *[9] * 8]
    whole = ports_of(entries)
    for port in set(entries):
        expected = entries.count(port) / len(entries)
        assert (whole == port).mean() == pytest.approx(expected, abs=3 * (expected / n) ** 0.5)
    less = ports_of([3, 3, 6, *[9] * 8])
    assert (less == whole)[whole != 5].all()
    assert (less != 5).all()
    lighter = ports_of([3, 5, 6, *[9] * 8])
    assert (lighter == whole)[whole != 3].all()


def test_adaptive_spreads_evenly_and_avoids_queues() -> None:
    network = fat_tree(8, 2, "100Gbps")
    up = np.flatnonzero(
        (network.port_node == network.n_hosts)
        & (network.port_node[network.port_peer] >= network.n_hosts)
    )
    alone = [(k % 8, 8 + k % 8, PAYLOAD, 20 * US * k) for k in range(800)]
    engine = run(build(network, flow_table(alone), "datagram", routed("adaptive"), jit=False))
    assert sent_bytes(engine)[up] / PACKET == pytest.approx(np.full(8, 100.0), abs=35)
    together = [(k, 8 + k, 100 * PAYLOAD, 0) for k in range(8)]
    longest = {}
    for name in ("spray_random", "adaptive"):
        engine = run(build(network, flow_table(together), "datagram", routed(name), jit=False))
        longest[name] = engine.link_counters().max_queue_bytes[up].max()
    assert longest["adaptive"] < longest["spray_random"]


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
FLOWS = [(h, (h + 1 + h // 3) % 8, 30_000, 500_000 * h) for h in range(8)]


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
    states = [whole, run(engine(tmp_path, text, fabric, window_ps=300_000))]
    begun = run(engine(tmp_path, text, fabric), 12 * US)
    resumed = engine(tmp_path, text, fabric)
    resumed.restore(begun.snapshot())
    states.append(run(resumed))
    assert len({one.digest() for one in states}) == 1
    names = ["routing_ports", "routers", "flow_rows"]
    for name in [*names, "published"] if text is COUPLED_PORTS else names:
        kept = [np.asarray(getattr(one.state.links, name)).tobytes() for one in states]
        assert any(kept[0])
        assert len(set(kept)) == 1


def test_levels_become_link_classes_only_with_pfc(tmp_path: Path) -> None:
    """The last of three levels is served first. The ingress counts a packet in the level in which
    it arrived."""
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
        ('PORT_STATE = ("a",)\n' + FIRST.replace("0", "egress(env, 1).a"), ("no field a",)),
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
