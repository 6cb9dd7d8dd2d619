"""The reference simulator against closed forms; PFC and transports have their own files.

Unless a test says otherwise packets have 936 + 64 = 1000 bytes, which take 80 ns at 100 Gbps and
160 ns at 50 Gbps, and cables have 100 ns.
"""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from . import Cable, simulate
from .cases import ROUTING, random_case
from .model import DATA, FLAG_CE, TRIMMED, below, rand32, serialization_ps
from .random_routing import parameters
from .routing import permuted
from .small import FULL, NS, PAYLOAD, G, cable, case, fabric, star, starts

# -- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gbps", "ps_per_byte"),
    [(10, 800), (25, 320), (40, 200), (100, 80), (200, 40), (400, 20), (800, 10)],
)
def test_serialization_is_exact(gbps: int, ps_per_byte: int) -> None:
    assert serialization_ps(9217, gbps * G) == 9217 * ps_per_byte


def test_below_covers_its_range() -> None:
    assert below(0, 7) == 0
    assert below(2**32 - 1, 7) == 6


def test_random_numbers_depend_on_every_argument_modulo_32_bits() -> None:
    base = rand32(1, 2, 3, 4)
    assert len({base, rand32(0, 2, 3, 4), rand32(1, 0, 3, 4), rand32(1, 2, 0, 4)}) == 4
    assert rand32(1 + 2**32, 2, 3, 4 + 2**40) == base


def test_permuted_is_a_permutation() -> None:
    for n in range(2, 40):
        for key in (0, 1, 0xFFFFFFFF, rand32(0, 3, n, 0)):
            assert sorted(permuted(key, x, n) for x in range(n)) == list(range(n))


# -- links and queues ----------------------------------------------------------------------------


@pytest.mark.parametrize("n_switches", [1, 2, 5])
def test_fct_over_equal_links_matches_closed_form(n_switches: int) -> None:
    """Each of L links takes 80 ns + 100 ns; each packet after the first adds 80 ns."""
    path = [0, *range(2, 2 + n_switches), 1]
    cables = [cable(a, b) for a, b in pairwise(path)]
    outcome = simulate(case(2, cables, [(0, 1, 3 * PAYLOAD, 7 * NS)]))
    links = n_switches + 1
    assert outcome.flows[0].fct_ps == (links * 180 + 2 * 80) * NS
    assert outcome.end_ps == outcome.flows[0].fct_ps + 7 * NS


def test_fct_over_unequal_links_matches_closed_form() -> None:
    """The slow link in the middle (25 Gbps: 320 ns per full packet) spaces the packets.

    Two packets, the second with 1 byte of payload (65 bytes: 5.2, 20.8 and 1.3 ns).
    Packet 0 ends on link 1 at 80, on link 2 at 80 + 100 + 320 = 500. Packet 1 is at the switch at
    185.2, starts on link 2 at 500, ends at 520.8, is at the last switch at 520.8 + 200 = 720.8.
    Packet 0 arrives there at 700 and has left at 720 (20 ns at 400 Gbps), so packet 1 starts
    immediately and arrives at 720.8 + 1.3 + 300.
    """
    cables = [cable(0, 2), cable(2, 3, 25, 200 * NS), cable(3, 1, 400, 300 * NS)]
    outcome = simulate(case(2, cables, [(0, 1, PAYLOAD + 1, 0)]))
    assert outcome.flows[0].fct_ps == 1_022_100


def test_each_direction_of_a_cable_has_its_own_delay() -> None:
    """A packet of 65 bytes takes 5.2 ns per link."""
    cables = [Cable(2, 0, 100 * G, 1 * NS, 20 * NS), Cable(1, 2, 100 * G, 300 * NS, 4000 * NS)]
    outcome = simulate(case(2, cables, [(0, 1, 1, 0), (1, 0, 1, 0)]))
    assert [flow.fct_ps for flow in outcome.flows] == [4_030_400, 311_400]


def test_two_flows_share_a_bottleneck() -> None:
    """Pairs arrive every 80 ns from 180 on; the output sends one packet per 80 ns, six in all.

    Whichever packet wins each tie, both of a pair leave before the next pair is served.
    When the k-th pair arrives (k = 0, 1, 2), k packets have left, so 2 (k + 1) - k are held: at
    most 4.
    """
    outcome = simulate(case(3, star(2), [(1, 2, 3 * PAYLOAD, 0), (0, 2, 3 * PAYLOAD, 0)]))
    out = outcome.departures[5]
    assert [{a.flow, b.flow} for a, b in zip(out[::2], out[1::2], strict=True)] == [{0, 1}] * 3
    assert [d.start_ps for d in out] == [(180 + 80 * k) * NS for k in range(6)]
    fcts = [(180 + 500) * NS, (180 + 6 * 80 + 100) * NS]
    assert sorted(flow.fct_ps for flow in outcome.flows) == fcts
    assert outcome.flows[out[-1].flow].fct_ps == fcts[1]
    assert outcome.counters[5, 0].max_queue_bytes == 4 * FULL


def test_drop_tail_drops_arrivals_at_a_full_queue() -> None:
    """As above with room for 2: of each pair after the first, only one packet finds room.

    80 ns after a pair, one transmission completes before the next pair arrives.
    """
    flows = [(0, 2, 3 * PAYLOAD, 0), (1, 2, 3 * PAYLOAD, 0)]
    outcome = simulate(case(3, star(2), flows, in_fabric=fabric(queue_bytes=2 * FULL)))
    assert [d.seq for d in outcome.departures[5]] == [0, 0, 1, 2]
    assert outcome.counters[5, 0].drops == 2
    assert outcome.counters[5, 0].drop_bytes == 2 * FULL


def test_host_serves_its_flows_round_robin() -> None:
    flows = [(0, 1, 2 * PAYLOAD, 0)] * 2
    outcome = simulate(case(2, star(1), flows))
    assert [(d.flow, d.seq) for d in outcome.departures[0]] == [(0, 0), (1, 0), (0, 1), (1, 1)]


def test_paced_flow_sends_at_its_rate() -> None:
    """A flow of 50 Gbps on a 100 Gbps NIC sends a packet every 160 ns."""
    flows = [(0, 1, 3 * PAYLOAD, 5 * NS)]
    outcome = simulate(case(2, star(1), flows, params={"rate_bps": 50 * G}))
    assert starts(outcome.departures[0], DATA) == [(5_000, 0), (165_000, 1), (325_000, 2)]


def test_delayed_paced_packet_does_not_delay_the_next() -> None:
    """Flows at 25 Gbps started at 0 and 40 are due at 0, 320, 640 and at 40, 360, 680.

    The NIC needs 80 ns per packet, so flow 1 always finds it busy with flow 0's packet and is
    sent 40 ns late, which does not delay its next packet.
    """
    flows = [(0, 1, 3 * PAYLOAD, 0), (0, 1, 3 * PAYLOAD, 40 * NS)]
    outcome = simulate(case(2, star(1), flows, params={"rate_bps": 25 * G}))
    assert [(d.start_ps, d.flow) for d in outcome.departures[0]] == [
        (0, 0),
        (80_000, 1),
        (320_000, 0),
        (400_000, 1),
        (640_000, 0),
        (720_000, 1),
    ]


@pytest.mark.parametrize(("at", "marked"), [("enqueue", [3, 4, 5]), ("dequeue", [2, 3, 4])])
def test_ecn_marks_above_a_single_threshold(at: str, marked: list[int]) -> None:
    """The shared bottleneck again, threshold 1500 bytes.

    q before the six arrivals is 0, 1; 1, 2; 2, 3 packets (completions are first), and at the six
    starts, including the starting packet, 1, 1, 2, 3, 2, 1.
    """
    ecn = {"kmin_bytes": 1500, "kmax_bytes": 1500, "pmax": 1.0, "at": at}
    flows = [(0, 2, 3 * PAYLOAD, 0), (1, 2, 3 * PAYLOAD, 0)]
    outcome = simulate(case(3, star(2), flows, in_fabric=fabric(ecn=ecn)))
    out = outcome.departures[5]
    assert [k for k, d in enumerate(out) if d.flags & FLAG_CE] == marked
    assert outcome.counters[5, 0].ecn_marks == 3


def test_ecn_marks_randomly_between_thresholds() -> None:
    """kmin 500, kmax 4500: q = 0, 1000; 1000, 2000; 2000, 3000, five of them within.

    pmax 0.8 makes the probabilities 0.8 * (q - 500) / 4000 = 0.1, 0.1, 0.3, 0.3, 0.5.
    """
    ecn = {"kmin_bytes": 500, "kmax_bytes": 4500, "pmax": 0.8, "at": "enqueue"}
    flows = [(0, 2, 3 * PAYLOAD, 0), (1, 2, 3 * PAYLOAD, 0)]
    patterns = set()
    for seed in range(50):
        outcome = simulate(case(3, star(2), flows, in_fabric=fabric(ecn=ecn), seed=seed))
        marks = [bool(d.flags & FLAG_CE) for d in outcome.departures[5]]
        draws = [rand32(seed, 4, 5, k) / 2**32 for k in range(5)]
        expected = [d < p for d, p in zip(draws, (0.1, 0.1, 0.3, 0.3, 0.5), strict=True)]
        assert marks == [False, *expected]
        patterns.add(tuple(marks))
    assert len(patterns) > 5


# -- trimming ------------------------------------------------------------------------------------


@pytest.mark.parametrize("coin", [0, 1])
def test_trimming_picks_the_arriving_or_the_tail_packet(coin: int) -> None:
    """Three packets arrive at 180, a picosecond apart; there is room for two. The first is sent
    immediately.

    Coin 0 trims the third; coin 1 trims the second, at the tail, and the third takes its place.
    The header overtakes the waiting packet at 260.
    """
    out_port = 7
    seed = next(s for s in range(100) if rand32(s, 5, out_port, 0) & 1 == coin)
    flows = [(h, 3, PAYLOAD, h) for h in range(3)]
    trim = fabric("trim", queue_bytes=2 * FULL)
    params = {"data_class": 1}
    outcome = simulate(case(4, star(3), flows, params=params, in_fabric=trim, seed=seed))
    cut, kept = (1, 2) if coin else (2, 1)
    assert [(d.start_ps, d.kind, d.flow, d.size, d.prio) for d in outcome.departures[out_port]] == [
        (180_000, DATA, 0, FULL, 1),
        (260_000, TRIMMED, cut, 64, 0),
        (265_120, DATA, kept, FULL, 1),
    ]
    assert outcome.counters[out_port, 1].trims == 1
    assert outcome.balance.trimmed_bytes == FULL - 64
    assert outcome.flows[cut].fct_ps == -1


def test_packet_in_transmission_is_not_trimmed() -> None:
    """With room for one packet, the first of three is in transmission, the others are trimmed."""
    flows = [(h, 3, PAYLOAD, h) for h in range(3)]
    trim = fabric("trim", queue_bytes=FULL, header_queue_bytes=64)
    for seed in range(8):
        outcome = simulate(
            case(4, star(3), flows, params={"data_class": 1}, in_fabric=trim, seed=seed)
        )
        # The header queue has room for one header: the third packet's is dropped.
        assert [(d.kind, d.flow) for d in outcome.departures[7]] == [(DATA, 0), (TRIMMED, 1)]
        assert outcome.counters[7, 1].trims == 2
        assert (outcome.counters[7, 0].drops, outcome.counters[7, 0].drop_bytes) == (1, 64)


def test_header_ratio_limits_headers_sent_per_data_packet() -> None:
    """Seven packets at 180: one in transmission, two waiting, four trimmed; two headers per data
    packet."""
    flows = [(h, 7, PAYLOAD, 0) for h in range(7)]
    trim = fabric("trim", queue_bytes=3 * FULL, header_ratio=2)
    outcome = simulate(case(8, star(7), flows, params={"data_class": 1}, in_fabric=trim))
    kinds = [d.kind for d in outcome.departures[15]]
    assert kinds == [DATA, TRIMMED, TRIMMED, DATA, TRIMMED, TRIMMED, DATA]


# -- routing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ROUTING)
def test_routing_algorithms_spread_over_equal_paths(method: str) -> None:
    """With 4 equal paths, hash-based algorithms use one path and all others use every path."""
    cables = [cable(0, 2), cable(1, 3), *(cable(2, 3) for _ in range(4))]
    flows = [(0, 1, 64 * PAYLOAD, 0)]
    own = parameters(random.Random(0)) | {"flowlet_gap_ps": 0, "valiant_unit": "packet"}
    outcome = simulate(case(2, cables, flows, in_fabric=fabric(routing=method, **own)))
    used = [len(outcome.departures[p]) for p in range(3, 7)]
    assert sum(used) == 64
    if method in ("ecmp", "ecmp_symmetric", "ecmp_levels", "dateline", "wcmp"):
        assert sorted(used) == [0, 0, 0, 64]
    elif method == "spray_round_robin":
        # Each round of four packets takes the paths in order, starting at a random one.
        path_of = {d.seq: p for p in range(3, 7) for d in outcome.departures[p]}
        rounds = [[path_of[seq] - 3 for seq in range(c, c + 4)] for c in range(0, 64, 4)]
        assert all(one == [(one[0] + k) % 4 for k in range(4)] for one in rounds)
        assert len({one[0] for one in rounds}) == 4
    elif method == "spray_permutation":
        assert used == [16] * 4
        for turn in range(16):
            paths = [
                p for p in range(3, 7) if any(d.seq // 4 == turn for d in outcome.departures[p])
            ]
            assert paths == [3, 4, 5, 6]
    else:
        assert min(used) > 0


def test_least_loaded_avoids_the_busy_port() -> None:
    """Two hosts send at the same instants over two paths and never share one."""
    cables = [cable(0, 3), cable(1, 3), cable(2, 4, 400), cable(3, 4), cable(3, 4)]
    flows = [(h, 2, 20 * PAYLOAD, 0) for h in range(2)]
    least = fabric(routing="least_loaded")
    outcome = simulate(case(3, cables, flows, in_fabric=least))
    # Ports from 3 on belong to switch 3: hosts 0 and 1, then the two paths.
    assert [len(outcome.departures[p]) for p in (5, 6)] == [20, 20]
    assert outcome.counters[5, 0].max_queue_bytes == FULL


# -- random cases --------------------------------------------------------------------------------


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_random_cases_conserve_packets_and_are_reproducible(first: int) -> None:
    """Packets are conserved, links send one at a time, and equal cases have equal outcomes."""
    for rng_seed in range(first, first + 20):
        the_case = random_case(rng_seed)
        outcome = simulate(the_case)
        assert outcome.balance.holds()
        for departures in outcome.departures.values():
            for one, after in pairwise(departures):
                assert after.arrival_ps > one.arrival_ps
                assert after.start_ps > one.start_ps
        again = random_case(rng_seed)
        assert again == the_case
        assert simulate(again) == outcome
