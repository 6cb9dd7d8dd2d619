"""Queue disciplines of the reference simulator against closed forms: the packets of `small`."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import pytest

from . import Departure, simulate
from .cases import random_case
from .model import FLAG_CE
from .small import FULL, NS, PAYLOAD, case, fabric, star, total

# -- pfabric -------------------------------------------------------------------------------------

LONG_AND_SHORT = [(0, 2, 10 * PAYLOAD, 0), (1, 2, 3 * PAYLOAD, 1)]
"""Pairs of packets arrive at 180, 260, 340, flow 0's a picosecond earlier; then flow 0's alone,
every 80 ns."""


def test_pfabric_serves_the_shortest_remaining_flow_first() -> None:
    """Packet 0 of the long flow finds the port idle; then the short flow is served entirely."""
    outcome = simulate(case(3, star(2), LONG_AND_SHORT, in_fabric=fabric("pfabric")))
    sent = [(d.flow, d.seq) for d in outcome.departures[5]]
    assert sent == [(0, 0), (1, 0), (1, 1), (1, 2), *((0, seq) for seq in range(1, 10))]


def test_pfabric_drops_the_longest_remaining_packet() -> None:
    """The queue holds two packets, one of them in transmission.

    At 260 and 340 a packet of the long flow is queued, then dropped for one of the short flow.
    """
    limited = fabric("pfabric", queue_bytes=2 * FULL)
    outcome = simulate(case(3, star(2), LONG_AND_SHORT, in_fabric=limited))
    sent = [(d.flow, d.seq) for d in outcome.departures[5]]
    assert sent == [(0, 0), (1, 0), (1, 1), (1, 2), *((0, seq) for seq in range(3, 10))]
    assert outcome.counters[5, 0].drops == 2


def test_pfabric_drops_the_arriving_packet_on_a_tie() -> None:
    """From k = 1 on, packet k of flow 1 finds packet k of flow 0 waiting."""
    limited = fabric("pfabric", queue_bytes=2 * FULL)
    flows = [(h, 2, 4 * PAYLOAD, h) for h in range(2)]
    outcome = simulate(case(3, star(2), flows, in_fabric=limited))
    sent = [(d.flow, d.seq) for d in outcome.departures[5]]
    assert sent == [(0, 0), (1, 0), (0, 1), (0, 2), (0, 3)]


def test_pfabric_keeps_packets_of_a_flow_in_order() -> None:
    """The last waiting packet has the least remaining, but the first of its flow is sent."""
    flows = [(h, 3, (12 - h) * PAYLOAD, 0) for h in range(3)]
    outcome = simulate(case(4, star(3), flows, in_fabric=fabric("pfabric")))
    by_flow = defaultdict(list)
    for departure in outcome.departures[7]:
        by_flow[departure.flow].append(departure.seq)
    assert by_flow == {h: list(range(12 - h)) for h in range(3)}


# -- codel ---------------------------------------------------------------------------------------


def overload(mark: bool, n_packets: int = 60) -> tuple[list[Departure], int]:
    """Offer twice the output's rate; return its departures and the number of drops or marks."""
    flows = [(h, 2, n_packets * PAYLOAD, 0) for h in range(2)]
    codel = fabric("codel", target_ps=400 * NS, interval_ps=1000 * NS, mark=mark)
    outcome = simulate(case(3, star(2), flows, in_fabric=codel))
    assert outcome.counters[5, 0].drops == 0 or outcome.counters[5, 0].ecn_marks == 0
    return outcome.departures[5], outcome.counters[5, 0].drops + outcome.counters[5, 0].ecn_marks


SIGNALS = [1940, 2980, 3700, 4260, 4740, 5220, 5620]
"""Times of CoDel's first decisions, in ns.

A pair arrives every 80 ns from 180 on, the j-th packet starts at 180 + 80 j having waited
80 (j - j div 2). That is 400 first for j = 9, at 900. An interval later, at 1900, the next start is
that of 1940. From there the deadlines are 1000, 707, 577, 500, 447, 408 ns apart (2940, 3647, 4224,
4724, 5171, 5579), and each takes effect with the next start.
"""


def test_codel_drops_at_shrinking_intervals() -> None:
    out, _ = overload(mark=False)
    came = [(d.flow, d.seq) for d in overload(mark=True)[0]]
    dropped = [came.index((d.flow, d.seq)) - k for k, d in enumerate(out)]
    times = [d.start_ps // NS for k, d in enumerate(out) if k and dropped[k] > dropped[k - 1]]
    assert times[:7] == SIGNALS


def test_codel_marks_at_the_same_times() -> None:
    out, signals = overload(mark=True)
    marked = [d.start_ps // NS for d in out if d.flags & FLAG_CE]
    assert marked[:7] == SIGNALS
    assert len(out) == 120
    assert len(marked) == signals


def test_codel_ignores_a_short_queue() -> None:
    """Two flows of eight packets: the last packet starts at 180 + 80 * 15, within one interval."""
    assert overload(mark=False, n_packets=8)[1] == 0


# -- credit_shaper -------------------------------------------------------------------------------


def test_credits_are_paced_to_reserve_return_bandwidth() -> None:
    """Full packets serve as credits: each reserves time for another packet, so 160 ns apart.

    A burst of two is allowed. Credits arrive every 80 ns from 180 on.
    """
    shaper = fabric("credit_shaper", credit_bytes=FULL, credit_burst=2)
    outcome = simulate(case(2, star(1), [(0, 1, 8 * PAYLOAD, 0)], in_fabric=shaper))
    starts = [d.start_ps // NS for d in outcome.departures[3]]
    assert starts == [180, 260, 340, 500, 660, 820, 980, 1140]


def test_credits_beyond_the_queue_are_dropped() -> None:
    """As above with one credit slot, which the credit sent at 500 frees before the next arrives."""
    shaper = fabric("credit_shaper", credit_bytes=FULL, credit_burst=2, credit_slots=1)
    outcome = simulate(case(2, star(1), [(0, 1, 8 * PAYLOAD, 0)], in_fabric=shaper))
    assert [d.seq for d in outcome.departures[3]] == [0, 1, 2, 3, 4, 6]
    assert [d.start_ps // NS for d in outcome.departures[3]] == [180, 260, 340, 500, 660, 820]


def test_data_uses_bandwidth_left_by_credits() -> None:
    """RoCE's data packets serve as credits; its acknowledgments are data, which need no tokens."""
    shaper = fabric("credit_shaper", credit_bytes=FULL, credit_burst=1)
    flows = [(0, 2, 6 * PAYLOAD, 0), (2, 1, 6 * PAYLOAD, 0)]
    params = {"data_class": 0, "ack_class": 1}
    outcome = simulate(case(3, star(2), flows, "roce", params, in_fabric=shaper))
    credits = [d.start_ps for d in outcome.departures[5] if d.prio == 0]
    assert all(b - a >= 160 * NS for a, b in pairwise(credits))
    assert [flow.retransmits for flow in outcome.flows] == [0, 0]
    assert min(flow.fct_ps for flow in outcome.flows) > 0


# -- random cases --------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["pfabric", "codel", "credit_shaper"])
def test_random_cases_make_each_discipline_drop(model: str) -> None:
    """Random cases drop packets, and every packet is accounted for."""
    drops = 0
    for rng_seed in range(6):
        case = random_case(rng_seed, transport="datagram", model=model, circuits=False)
        outcome = simulate(case)
        assert outcome.balance.holds()
        drops += total(outcome, "drops")
    assert drops > 0
