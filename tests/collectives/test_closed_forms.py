"""Collectives simulated on one switch take what their closed forms say, to the picosecond."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from engine_runs import DROP_TAIL, build, run
from traffic_cases import star

from netsim.collectives import ALGORITHMS, How, Wire, algorithm_of, closed_form_ps
from netsim.collectives.double_binary_tree import parents
from netsim.model.builder import NetworkBuilder
from netsim.model.network import Network
from netsim.operations import Operations

US = 10**6
PAYLOAD, HEADER = 4096, 64
RATE = 100 * 10**9


def wire(last_bytes: int) -> Wire:
    """Two links of 1 us and a switch in between, which sends the last packet once more."""
    return Wire(RATE, (last_bytes + HEADER) * 80 + 2 * US, PAYLOAD, HEADER)


def simulated_ps(
    what: str, n: int, size_bytes: int, how: How, network: Network | None = None
) -> int:
    ops = Operations(n)
    ops.collective(what, np.arange(n), size_bytes, how)
    load = ops.lower(np.arange(n))
    load.validate(n)
    engine = build(
        network or star(n), load.flows, "datagram", DROP_TAIL, tasks=load.tasks, jit=False
    )
    return int(run(engine).task_states().end_ps.max())


WAYS = {
    "at once": How(),
    "latency": How(latency_ps=1_500_000),
    "short chunks": How(latency_ps=300_000, chunk_bytes=PAYLOAD),
    "one at a time": How(latency_ps=US, window=1),
    "chunks that wait for software": How(latency_ps=5 * US, chunk_bytes=2 * PAYLOAD),
}
POWERS = {("halving_doubling", what) for what in ALGORITHMS["halving_doubling"].WHATS}
POWERS |= {("binomial_tree", "reduce")}
"""Exact for powers of two."""

EXACT = [
    (name, what, n, way)
    for name, module in ALGORITHMS.items()
    if name not in ("double_binary_tree", "in_network")
    for what in module.WHATS
    for n in (4, 6, 7)
    if n == 4 or (name, what) not in POWERS
    for way in WAYS
    if WAYS[way].chunk_bytes is None or name in ("ring", "pat", "chain")
    if WAYS[way].window is None or name == "direct"
]


@pytest.mark.parametrize(("name", "what", "n", "way"), EXACT)
def test_a_collective_takes_as_long_as_its_closed_form(
    name: str, what: str, n: int, way: str
) -> None:
    how = replace(WAYS[way], algorithm=name, node=7 if n == 7 else 2)
    size = 0 if what == "barrier" else 4 * n * PAYLOAD
    expected = closed_form_ps(what, n, size, wire(PAYLOAD if size else 1), how)
    assert simulated_ps(what, n, size, how) == expected


def test_nodes_may_be_far_from_one_another() -> None:
    # Two racks of four hosts, with a switch each, and four rails at a quarter of their rate.
    builder = NetworkBuilder()
    hosts = np.array(builder.add_hosts(8)).reshape(2, 4)
    for rack in range(2):
        builder.cables(hosts[rack], builder.add_switch(f"up{rack}"), RATE, US)
    for rail in range(4):
        builder.cables(hosts[:, rail], builder.add_switch(f"out{rail}"), RATE // 4, 3 * US, nic=1)
    network = builder.build("rails")
    far = Wire(RATE // 4, (PAYLOAD + HEADER) * 320 + 6 * US, PAYLOAD, HEADER)
    for what in ALGORITHMS["hierarchical"].WHATS:
        how, size = How("hierarchical", node=4, latency_ps=US), 64 * PAYLOAD
        expected = closed_form_ps(what, 8, size, replace(wire(PAYLOAD), far=far), how)
        assert simulated_ps(what, 8, size, how, network) == expected


@pytest.mark.parametrize("n", [5, 6, 7])
def test_halving_takes_longer_where_it_does_not_divide(n: int) -> None:
    how, size = How("halving_doubling", latency_ps=US), 16 * PAYLOAD
    expected = closed_form_ps("all_reduce", n, size, wire(PAYLOAD), how)
    assert simulated_ps("all_reduce", n, size, how) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("n", [8, 13])
def test_two_trees_take_about_as_long_as_their_closed_form(n: int) -> None:
    how = How("double_binary_tree", chunk_bytes=6 * PAYLOAD, latency_ps=US)
    size = 192 * PAYLOAD
    expected = closed_form_ps("all_reduce", n, size, wire(PAYLOAD), how)
    found = simulated_ps("all_reduce", n, size, how)
    assert found == pytest.approx(expected, rel=0.1)
    assert found > 2 * wire(PAYLOAD).send_ps(size)


def test_positions_are_inside_of_one_tree_and_leaves_of_the_other() -> None:
    for n in range(3, 40):
        children = [np.bincount(up[up >= 0], minlength=n) for up in (parents(n, k) for k in (0, 1))]
        for count in children:
            assert count.max() <= 2
        assert ((children[0] > 0) & (children[1] > 0)).sum() <= n % 2


def test_small_all_reduces_go_by_trees_and_large_ones_in_rings() -> None:
    auto = How()
    found = [algorithm_of("all_reduce", 64, size, auto) for size in (10**4, 10**7, 10**10)]
    assert found == ["double_binary_tree", "double_binary_tree", "ring"]
    assert algorithm_of("all_reduce", 4, 10**8, auto) == "ring"
    found = [algorithm_of("all_gather", 64, size, auto) for size in (10**5, 10**9)]
    assert found == ["pat", "ring"]
    assert algorithm_of("all_gather", 8, 10**5, How(node=8)) == "ring"
    # Where bytes take long it is bandwidth that counts.
    assert algorithm_of("all_reduce", 64, 10**7, How(rate_bps=10**9)) == "ring"
