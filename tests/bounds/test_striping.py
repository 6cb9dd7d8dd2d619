"""Ideal times of flows with several port pairs, against every distribution of the packets."""

from __future__ import annotations

import itertools

import pytest
from several_ports import rails

from netsim.model.fabric import PacketFormat
from netsim.model.flows import FlowTable
from netsim.model.ideal import hashed_times, ideal_times
from netsim.model.port_pairs import port_pairs_of

US = 10**6
PACKETS = PacketFormat()
SHORT = 100
"""Payload of a short last packet, in bytes."""


def shortest_time(rates: tuple[int, ...], n: int) -> int:
    """Return the shortest time for `n` packets, the last one short, over all distributions."""
    best = []
    for counts in itertools.product(range(n), repeat=len(rates)):
        if sum(counts) != n - 1:
            continue
        for last in range(len(rates)):
            times = []
            for port_pair, rate in enumerate(rates):
                size = counts[port_pair] * 4096 + SHORT * (port_pair == last)
                if size:
                    flow = FlowTable([0], [1], size)
                    times.append(int(ideal_times(rails(2, (rate,)), flow, PACKETS).fct_ps[0]))
            best.append(max(times))
    return min(best)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("n_pairs", [2, 3])
def test_ideal_time_over_equal_port_pairs_is_the_optimum(n: int, n_pairs: int) -> None:
    rates = (100,) * n_pairs
    flow = FlowTable([0], [1], (n - 1) * 4096 + SHORT)
    (found,) = ideal_times(rails(2, rates), flow, PACKETS).fct_ps
    assert found == shortest_time(rates, n)


@pytest.mark.parametrize("n", [1, 2, 3, 6])
@pytest.mark.parametrize("rates", [(100, 25), (100, 40, 10)])
def test_ideal_time_over_unequal_port_pairs_is_a_tight_bound(
    n: int, rates: tuple[int, ...]
) -> None:
    flow = FlowTable([0], [1], (n - 1) * 4096 + SHORT)
    (found,) = ideal_times(rails(2, rates), flow, PACKETS).fct_ps
    best = shortest_time(rates, n)
    assert found <= best <= found + 2 * 4160 * 8 * 1000 // rates[0]


def test_fair_share_adds_all_port_pairs() -> None:
    """Two flows into one host share each of its ports."""
    flows = FlowTable([0, 1], [2, 2], 4096 * 100)
    network, on_wire = rails(3, (100, 100)), 4160 * 100
    first, second = hashed_times(network, flows, PACKETS, port_pairs_of(network, flows), seed=1)
    ideal = ideal_times(network, flows, PACKETS).fct_ps[0]
    assert first == second == pytest.approx(ideal + 8e12 * on_wire * (1 / 100e9 - 1 / 200e9))


def test_evenly_striped_flow_waits_for_the_slowest_port_pair() -> None:
    """Half of the flow takes the 25 Gbps plane, so the total rate is 50 instead of 125 Gbps."""
    flow = FlowTable([0], [1], 4096 * 100)
    network = rails(2, (100, 25))
    ideal = ideal_times(network, flow, PACKETS).fct_ps[0]
    best, even = (
        hashed_times(network, flow, PACKETS, port_pairs_of(network, flow), 1, evenly=evenly)[0]
        for evenly in (False, True)
    )
    assert best == pytest.approx(ideal)
    assert even == pytest.approx(ideal + 8e12 * 4160 * 100 * (1 / 50e9 - 1 / 125e9))
