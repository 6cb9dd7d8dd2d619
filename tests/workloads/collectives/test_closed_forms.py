"""Simulated collectives against closed forms, exact to the picosecond on one switch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from engine_runs import DROP_TAIL, build, fat_tree, run
from topology_of import topology_of
from traffic_cases import star

from netsim.model.network import Network
from netsim.model.relays import relayed
from netsim.workloads.collectives import (
    ALGORITHMS,
    CollectiveOptions,
    Wire,
    closed_form_ps,
    hops_of,
)
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
        for size_bytes in (1_000, 100_000):
            assert_auto_is_fastest(network, n, size_bytes)
