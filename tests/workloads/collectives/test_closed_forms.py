"""Collectives: schedules, closed forms, reduction in switches, files."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from collective_play import at_last, play, waits_of
from engine_runs import DROP_TAIL, build, fat_tree, run
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from raises_input import raises_input
from task_times import operations_of
from topology_of import topology_of
from traffic_cases import star

from netsim.model.network import Network
from netsim.model.relays import relayed
from netsim.model.workload import Workload
from netsim.workloads.collectives import (
    ALGORITHMS,
    closed_form_ps,
    hops_of,
    most_sends,
    schedule,
)
from netsim.workloads.collectives.steps import COLLECTIVES, CollectiveOptions, Wire
from netsim.workloads.collectives.trees import parents
from netsim.workloads.operations import Operations, Wires

US = 10**6
PAYLOAD, HEADER = 4096, 64
RATE = 100 * 10**9
JIT = False


def wire(last_bytes: int) -> Wire:
    """Return a path of two 1 us links through a switch, which serializes the last packet again."""
    return Wire(RATE, (last_bytes + HEADER) * 80 + 2 * US, PAYLOAD, HEADER)


def simulated_ps(
    what: str, n: int, size_bytes: int, how: CollectiveOptions, network: Network | None = None
) -> int:
    ops = Operations(n)
    ops.collective(what, np.arange(n), size_bytes, how)
    load = ops.lower(np.arange(n))
    load.validate(n)
    network = network or star(n)
    if network.relays is not None:
        load, _ = relayed(load, network.relays)
    engine = build(network, load.flows, "datagram", DROP_TAIL, tasks=load.tasks, jit=JIT)
    return int(run(engine).task_states().end_ps.max())


VARIANTS = {
    "at once": CollectiveOptions(),
    "latency": CollectiveOptions(latency_ps=1_500_000),
    "short chunks": CollectiveOptions(latency_ps=300_000, chunk_bytes=PAYLOAD),
    "one at a time": CollectiveOptions(latency_ps=US, window=1),
    "chunks that wait for software": CollectiveOptions(latency_ps=5 * US, chunk_bytes=2 * PAYLOAD),
}
POWERS = {("halving_doubling", what) for what in ALGORITHMS["halving_doubling"].whats}
POWERS |= {("binomial_tree", "reduce")}
"""Collectives whose closed form is exact only for powers of two."""
EXACT = [
    (name, what, n, variant)
    for name, module in ALGORITHMS.items()
    if name not in ("double_binary_tree", "in_network")
    for what in module.whats
    for n in (4, 6 if name == "hierarchical" else 7)
    if n == 4 or (name, what) not in POWERS
    for variant in VARIANTS
    if VARIANTS[variant].chunk_bytes is None or name in ("ring", "pat", "chain")
    if VARIANTS[variant].window is None or name == "direct"
    if n != 4 or variant == "at once" or (name, what) in POWERS
]


def test_simulated_collectives_match_closed_forms_exactly() -> None:
    for name, what, n, variant in EXACT:
        how = replace(VARIANTS[variant], algorithm=name, node=2)
        packets = 4 if how.chunk_bytes else 1
        size = 0 if what == "barrier" else packets * n * PAYLOAD
        expected = closed_form_ps(what, n, size, wire(PAYLOAD if size else 1), how)
        assert simulated_ps(what, n, size, how) == expected


def test_closed_form_of_a_ring_of_channels_is_a_lower_bound() -> None:
    # Channels overlap their latency: a form that let them wait for each other said 1.4 times more.
    how = CollectiveOptions("ring", channels=4, latency_ps=1_500_000)
    for size in (8 * PAYLOAD, 64 * PAYLOAD):
        form = closed_form_ps("all_reduce", 8, size, wire(min(PAYLOAD, size // 32)), how)
        assert 0.9 < form / simulated_ps("all_reduce", 8, size, how) <= 1


def rails() -> Network:
    """Return four racks of four hosts; the rails have an eighth of the rate inside racks."""
    tree = {"kind": "fat_tree", "hosts_per_leaf": 4, "leaves": 1, "host_rate": "100Gbps"}
    return topology_of(
        {"kind": "multi_rail", "gpus_per_rack": 4, "scale_up_rate": "800Gbps", "rail": tree}
    )


def test_hierarchical_on_rails_matches_closed_form() -> None:
    for what in ALGORITHMS["hierarchical"].whats:
        network, size = rails(), 16 * PAYLOAD
        wires = Wires(network, PAYLOAD, HEADER)
        assert wires.near(np.arange(16)[None]) == 4
        how = CollectiveOptions("hierarchical", node=4, latency_ps=US)
        wire = wires.wire(hops_of(what, 16, size, how), np.arange(16))
        assert wire.rate_bps == 8 * RATE
        assert wire.far is not None
        assert wire.far.rate_bps == RATE
        expected = closed_form_ps(what, 16, size, wire, how)
        assert simulated_ps(what, 16, size, how, network) == expected


def test_halving_doubling_approximates_closed_form_without_power_of_two() -> None:
    for n in [5, 6, 7]:
        how, size = CollectiveOptions("halving_doubling", latency_ps=US), 16 * PAYLOAD
        expected = closed_form_ps("all_reduce", n, size, wire(PAYLOAD), how)
        assert simulated_ps("all_reduce", n, size, how) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("n", [8, 13])
def test_double_binary_tree_approximates_closed_form(n: int) -> None:
    how = CollectiveOptions("double_binary_tree", chunk_bytes=6 * PAYLOAD, latency_ps=US)
    size = 192 * PAYLOAD
    expected = closed_form_ps("all_reduce", n, size, wire(PAYLOAD), how)
    found = simulated_ps("all_reduce", n, size, how)
    assert found == pytest.approx(expected, rel=0.1)
    assert found > 2 * wire(PAYLOAD).send_ps(size)


def test_positions_are_internal_in_at_most_one_tree() -> None:
    for n in range(3, 40):
        children = [np.bincount(up[up >= 0], minlength=n) for up in (parents(n, k) for k in (0, 1))]
        for count in children:
            assert count.max() <= 2
        assert ((children[0] > 0) & (children[1] > 0)).sum() <= n % 2


def assert_auto_is_fastest(network: Network, n: int, size_bytes: int) -> None:
    """Assert that "auto" chooses an algorithm within 10 % of the fastest one."""
    wires, given = Wires(network, PAYLOAD, HEADER), CollectiveOptions(latency_ps=US)
    chosen = wires.settled("all_reduce", np.arange(n), size_bytes, given)
    took = {}
    for name in ("ring", "halving_doubling", "double_binary_tree", "direct", "hierarchical"):
        how = replace(chosen, algorithm=name)
        if name != "hierarchical" or how.node is not None:
            took[name] = simulated_ps("all_reduce", n, size_bytes, how, network)
    assert took[chosen.algorithm] <= 1.1 * min(took.values()), (n, size_bytes, took)


NETWORKS = {
    "one switch": (star(7), 7),
    "oversubscribed": (fat_tree(4, 2, "100Gbps", oversubscription=4, fabric_rate="100Gbps"), 8),
    "rails": (rails(), 16),
}


def test_auto_chooses_the_fastest_algorithm() -> None:
    for network, n in NETWORKS.values():
        for size_bytes in (1_000, 50_000):
            assert_auto_is_fastest(network, n, size_bytes)


CASES = [(name, what) for name, module in ALGORITHMS.items() for what in module.whats]


@pytest.mark.parametrize(("name", "what"), CASES)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_every_algorithm_delivers_the_correct_data(
    name: str, what: str, data: st.DataObject
) -> None:
    n = data.draw(st.integers(1, 11), "n")
    size = data.draw(st.integers(0, 4000), "size")
    how = CollectiveOptions(
        name,
        chunk_bytes=data.draw(st.none() | st.integers(60, 500), "chunk"),
        channels=data.draw(st.integers(1, min(3, max(1, size))), "channels"),
        window=data.draw(st.none() | st.integers(1, 4), "window"),
        root=data.draw(st.integers(0, n - 1), "root"),
        node=data.draw(st.sampled_from([k for k in range(1, n + 1) if n % k == 0]), "node"),
    )
    if name == "halving_doubling" and what != "all_reduce":
        assume(n & (n - 1) == 0)
    steps = schedule(what, n, size, how)
    assert not (steps.src == steps.dst).any()
    assert (steps.size_bytes >= 1).all()
    assert len(steps) <= most_sends(name, n, size, how)
    held = play(steps, what, how.root, data.draw(st.integers(0, 99), "seed"))
    for position, pieces, expected in at_last(steps, what, how.root):
        got = held[position][pieces]
        if what == "barrier":
            assert (got > 0).all()
        else:
            np.testing.assert_array_equal(got, expected)


N_BYTES = 16 * 15 * 7 * 64


@pytest.mark.parametrize(
    ("what", "share"),
    [("all_reduce", 2), ("reduce_scatter", 1), ("all_gather", 1), ("all_to_all", 1)],
)
@pytest.mark.parametrize("n", [2, 5, 8, 16])
def test_each_position_sends_the_minimum_bytes(what: str, share: int, n: int) -> None:
    for name, module in ALGORITHMS.items():
        halves = name == "halving_doubling" and n & (n - 1) > 0
        if what in module.whats and name not in ("double_binary_tree", "in_network") and not halves:
            steps = schedule(what, n, N_BYTES * n, CollectiveOptions(name, node=n))
            sent = np.bincount(steps.src, steps.size_bytes, n)
            assert (sent == share * (n - 1) * N_BYTES).all(), name


def test_hierarchical_tree_and_pat_send_expected_bytes() -> None:
    n, node, whole = 12, 4, 12 * N_BYTES
    nodes = n // node
    sent = {
        "all_reduce": 2 * (node - 1) / node + 2 * (nodes - 1) / nodes / node,
        "all_to_all": (node - 1) / node + (nodes - 1) / nodes,
    }
    for what, share in sent.items():
        steps = schedule(what, n, whole, CollectiveOptions("hierarchical", node=node))
        per_position = np.bincount(steps.src, steps.size_bytes, n)
        assert (per_position == round(share * whole)).all()
        far = steps.src // node != steps.dst // node
        between = {"all_reduce": 2 * (nodes - 1) * n, "all_to_all": (nodes - 1) * n}
        assert far.sum() == between[what]
    trees = schedule("all_reduce", n, whole, CollectiveOptions("double_binary_tree"))
    assert np.bincount(trees.src, trees.size_bytes, n).max() <= 2 * whole
    for what in ("all_gather", "reduce_scatter"):
        assert len(schedule(what, 16, whole, CollectiveOptions("pat"))) == 16 * 4
        # Four shards per message: two steps spread them, then three branches follow.
        steps = schedule(what, 16, 16 * 100, CollectiveOptions("pat", chunk_bytes=400))
        assert len(steps) == 16 * (2 + 3)
        assert steps.size_bytes.max() == 400


def test_every_collective_has_a_default_algorithm() -> None:
    for what in COLLECTIVES:
        assert len(schedule(what, 5, 1000, CollectiveOptions()))


EXCHANGE = """\
# Two positions exchange halves, and then the sums.
src, dst, pieces, adds, after, follows
0, 1, 1, yes, ,
1, 0, 0, yes, ,
0, 1, 0, , 1, 0
1, 0, 1, no, 0,
"""


def steps_of(folder: Path, content: str, what: str = "all_reduce", n: int = 2, **how: int):
    path = folder / "mine.csv"
    path.write_text(content)
    return schedule(what, n, 101, CollectiveOptions(str(path), **how))


def test_file_of_sends_computes_the_all_reduce(tmp_path: Path) -> None:
    steps = steps_of(tmp_path, EXCHANGE)
    assert steps.src.tolist() == [0, 1, 0, 1]
    assert steps.size_bytes.tolist() == [50, 51, 51, 50]
    assert steps.follows.tolist() == [-1, -1, 0, -1]
    assert [waits_of(steps, k) for k in range(4)] == [[], [], [1], [0]]
    for seed in range(5):
        held = play(steps, "all_reduce", seed=seed)
        for position, pieces, expected in at_last(steps, "all_reduce", 0):
            assert (held[position][pieces] == expected).all()
    with raises_input():
        closed_form_ps(
            "all_reduce", 2, 8, Wire(10**9), CollectiveOptions(str(tmp_path / "mine.csv"))
        )


PACKET_PS = (4096 + 64) * 80


def leaf(n: int, **given: object) -> Network:
    """Return one switch with n hosts and a reduction unit; each link has 1 us."""
    table = {"kind": "fat_tree", "hosts_per_leaf": n, "leaves": 1, "host_rate": "100Gbps"}
    return topology_of(
        {**table, "uplinks": 1, "fabric_rate": "1bps", "reduction_delay": "1us", **given}
    )


def lowered(
    what: str, size_bytes: int, how: CollectiveOptions, network: Network, hosts: list[int]
) -> Workload:
    ops = Operations(len(hosts))
    ops.collective(what, np.arange(len(hosts)), size_bytes, how)
    return ops.lower(hosts, reduction=network.reduction)


def reduced_ps(what: str, n: int, size_bytes: int, how: CollectiveOptions, network: Network) -> int:
    load, units = lowered(what, size_bytes, how, network, list(range(n))), network.reduction
    assert units is not None
    load.validate(units.network.n_hosts)
    engine = build(units.network, load.flows, "datagram", DROP_TAIL, tasks=load.tasks, jit=False)
    return int(run(engine).task_states().end_ps.max())


def expected_ps(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> int:
    last_ps = PACKET_PS if size_bytes else (1 + HEADER) * 80
    return closed_form_ps(what, n, size_bytes, Wire(RATE, last_ps + 2 * US, PAYLOAD, HEADER), how)


@pytest.mark.parametrize("what", ALGORITHMS["in_network"].whats)
@pytest.mark.parametrize("n", [2, 5])
@pytest.mark.parametrize(("chunk_bytes", "latency_ps"), [(None, 0), (PAYLOAD, 300_000)])
def test_in_network_collective_matches_closed_form(
    what: str, n: int, chunk_bytes: int | None, latency_ps: int
) -> None:
    how = CollectiveOptions("in_network", chunk_bytes=chunk_bytes, latency_ps=latency_ps)
    size = 0 if what == "barrier" else 4 * n * PAYLOAD
    expected = expected_ps(what, n, size, how)
    found = reduced_ps(what, n, size, how, leaf(n))
    if what in ("all_reduce", "barrier"):
        assert found == expected
    else:
        assert expected - 2 * PACKET_PS <= found <= expected


def test_each_host_sends_and_receives_its_data_once() -> None:
    n, size = 6, 6 * 10_000
    once = {"all_reduce": (1, 1), "reduce_scatter": (1, 1 / n), "all_gather": (1 / n, 1 - 1 / n)}
    for what, (sent, received) in once.items():
        steps = schedule(what, n, size, CollectiveOptions("in_network", chunk_bytes=1000))
        assert (steps.n, steps.units) == (n + 1, 1)
        for side, share in ((steps.src, sent), (steps.dst, received)):
            by_position = np.bincount(side, steps.size_bytes, n + 1)[:n]
            assert by_position == pytest.approx(np.full(n, share * size)), what


def test_groups_use_the_unit_of_their_switch() -> None:
    network = leaf(4, leaves=2)
    ops = Operations(8)
    made = ops.collective(
        "all_reduce",
        np.arange(8).reshape(4, 2),
        8000,
        "in_network",
        stream=np.zeros((4, 2), int),
        label=[f"of {k}" for k in range(8)],
    )
    last = ops.compute(np.arange(8), US)
    ops.after(made.reshape(-1), last)
    load = ops.lower(np.arange(8)[::-1], reduction=network.reduction)
    collective = operations_of(load).group >= 0
    assert operations_of(load).host[collective].tolist() == list(range(8))[::-1]
    assert operations_of(load).label is not None
    assert [operations_of(load).label[k] for k in range(8)] == [f"of {k}" for k in range(8)]
    up = load.flows.dst >= 8
    assert (load.flows.dst[up] == 8 + load.flows.src[up] // 4).all()


def test_hosts_without_common_unit_are_rejected() -> None:
    network = leaf(2, leaves=2)
    with raises_input("0", "2"):
        lowered("all_reduce", 8000, CollectiveOptions("in_network"), network, [0, 1, 2])
    with raises_input():
        lowered(
            "all_reduce", 8000, CollectiveOptions("in_network"), leaf(2, reduction="none"), [0, 1]
        )
    with raises_input("in_network", "all_to_all"):
        lowered("all_to_all", 8000, CollectiveOptions("in_network"), network, [0, 1])
    # A group of one rank needs no unit.
    assert not len(lowered("all_reduce", 8000, CollectiveOptions("in_network"), network, [3]).flows)
