"""The reference simulator against closed forms.

Unless a test says otherwise packets have 936 + 64 = 1000 bytes, which take 80 ns at 100 Gbps and
160 ns at 50 Gbps, and cables have 100 ns.
"""

import random
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest

from . import Case, Departure, simulate
from .cases import ROUTING
from .model import ACK, DATA, FLAG_CE, NACK, PFC, PULL, TRIMMED, rand32
from .random_features import parameters
from .routing import permuted
from .small import FULL, NS, PAYLOAD, G, cable, case, fabric, star, starts, total


def test_permuted_is_a_permutation() -> None:
    for n in range(2, 40):
        for key in (0, 1, 0xFFFFFFFF, rand32(0, 3, n, 0)):
            assert sorted(permuted(key, x, n) for x in range(n)) == list(range(n))


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
    """As above with room for 2: of each pair after the first, only one packet finds room. 80 ns
    after a pair, one transmission completes before the next pair arrives."""
    flows = [(0, 2, 3 * PAYLOAD, 0), (1, 2, 3 * PAYLOAD, 0)]
    outcome = simulate(case(3, star(2), flows, in_fabric=fabric(queue_bytes=2 * FULL)))
    assert [d.seq for d in outcome.departures[5]] == [0, 0, 1, 2]
    assert outcome.counters[5, 0].drops == 2
    assert outcome.counters[5, 0].drop_bytes == 2 * FULL


def test_host_serves_its_flows_round_robin() -> None:
    flows = [(0, 1, 2 * PAYLOAD, 0)] * 2
    outcome = simulate(case(2, star(1), flows))
    assert [(d.flow, d.seq) for d in outcome.departures[0]] == [(0, 0), (1, 0), (0, 1), (1, 1)]


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
    """kmin 500, kmax 4500: q = 0, 1000; 1000, 2000; 2000, 3000, five of them within. pmax 0.8 makes
    the probabilities 0.8 * (q - 500) / 4000 = 0.1, 0.1, 0.3, 0.3, 0.5."""
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
    """Of seven packets one is sent, two wait, four are trimmed: two headers per data packet."""
    flows = [(h, 7, PAYLOAD, 0) for h in range(7)]
    trim = fabric("trim", queue_bytes=3 * FULL, header_ratio=2)
    outcome = simulate(case(8, star(7), flows, params={"data_class": 1}, in_fabric=trim))
    kinds = [d.kind for d in outcome.departures[15]]
    assert kinds == [DATA, TRIMMED, TRIMMED, DATA, TRIMMED, TRIMMED, DATA]


ONE_PATH = ("ecmp", "ecmp_symmetric", "ecmp_levels", "dateline", "entropy_digits", "wcmp")


@pytest.mark.parametrize("method", ROUTING)
def test_routing_algorithms_spread_over_equal_paths(method: str) -> None:
    """With 4 equal paths, hash-based algorithms use one path and all others use every path."""
    cables = [cable(0, 2), cable(1, 3), *(cable(2, 3) for _ in range(4))]
    flows = [(0, 1, 64 * PAYLOAD, 0)]
    own = parameters(random.Random(0)) | {"flowlet_gap_ps": 0, "valiant_unit": "packet"}
    outcome = simulate(case(2, cables, flows, in_fabric=fabric(routing=method, **own)))
    used = [len(outcome.departures[p]) for p in range(3, 7)]
    assert sum(used) == 64
    if method in ONE_PATH:
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


LONG_AND_SHORT = [(0, 2, 10 * PAYLOAD, 0), (1, 2, 3 * PAYLOAD, 1)]
"""Pairs of packets arrive at 180, 260, 340, flow 0's a picosecond earlier; then flow 0's alone,
every 80 ns."""


def test_pfabric_serves_the_shortest_remaining_flow_first() -> None:
    """Packet 0 of the long flow finds the port idle; then the short flow is served entirely."""
    outcome = simulate(case(3, star(2), LONG_AND_SHORT, in_fabric=fabric("pfabric")))
    sent = [(d.flow, d.seq) for d in outcome.departures[5]]
    assert sent == [(0, 0), (1, 0), (1, 1), (1, 2), *((0, seq) for seq in range(1, 10))]


def test_pfabric_drops_the_longest_remaining_packet() -> None:
    """The queue holds two packets, one of them in transmission. At 260 and 340 a packet of the long
    flow is queued, then dropped for one of the short flow."""
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


def test_credits_are_paced_to_reserve_return_bandwidth() -> None:
    """Full packets serve as credits: each reserves time for another packet, so 160 ns apart. A
    burst of two is allowed. Credits arrive every 80 ns from 180 on."""
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


def pfc_case(n_packets: int, **changes: Any) -> Case:
    """100 Gbps into a switch, 50 Gbps out of it; xoff at 2.5 packets, xon at 1.5."""
    lossless = fabric("lossless", **{"xoff_bytes": 2500, "xon_bytes": 1500, **changes})
    return case(2, star(1, 50), [(0, 1, n_packets * PAYLOAD, 0)], in_fabric=lossless)


def test_pause_and_resume_times_match_closed_form() -> None:
    """Packet k is at the switch at 180 + 80 k; one leaves it at 340, 500, 660, ...

    Packets held just after arrivals: 1 at 180, 2 at 260, 2 at 340 (one left before), 3 at 420:
    pause.
    The frame (5.12 ns) reaches the host at 525.12, while it sends packet 6 (started at 480).
    So packets 4, 5, 6 arrive at 500, 580, 660: 3, 4, 4 held. Then 3 at 820, 2 at 980, 1 at 1140:
    below xon. The resume frame reaches the host at 1245.12: packet 7 starts, having waited from
    525.12 (720 ns paused), and arrives 80 + 100 + 160 + 100 later.
    """
    outcome = simulate(pfc_case(8))
    frames = [(d.start_ps, d.arrival_ps, d.aux) for d in outcome.departures[2]]
    assert frames == [(420_000, 525_120, 1), (1_140_000, 1_245_120, 0)]
    assert outcome.departures[2][0] == Departure(420_000, 525_120, PFC, -1, 0, 1, 64, 0, 0, 0)
    assert starts(outcome.departures[0], DATA)[-2:] == [(480_000, 6), (1_245_120, 7)]
    assert outcome.counters[0, 0].paused_ps == 720_000
    assert outcome.counters[2, 0].pfc_pauses == 1
    assert outcome.counters[3, 0].max_queue_bytes == 4 * FULL
    assert outcome.flows[0].fct_ps == 1_245_120 + 440_000


def test_packets_beyond_headroom_are_dropped() -> None:
    """The headroom holds one packet after the pause at 420: packet 4 (at 500); 5 and 6 are dropped.

    One packet leaves at 660 and one at 820; the one left ends the pause: packet 7 starts at
    820 + 105.12, when the headroom is free again.
    """
    outcome = simulate(pfc_case(8, headroom_bytes=FULL))
    assert [d.seq for d in outcome.departures[3]] == [0, 1, 2, 3, 4, 7]
    assert outcome.counters[2, 0].drops == 2
    assert outcome.counters[2, 0].drop_bytes == 2 * FULL
    assert starts(outcome.departures[0], DATA)[-1] == (925_120, 7)


def test_headroom_does_not_reduce_xoff() -> None:
    """Without headroom, traffic up to xoff is neither paused nor dropped."""
    outcome = simulate(pfc_case(8, headroom_bytes=0, xoff_bytes=8 * FULL))
    assert total(outcome, "drops") == total(outcome, "pfc_pauses") == 0


def test_pause_frame_waits_for_the_packet_in_transmission() -> None:
    """A packet in the other direction occupies the port from 400 to 480, so the pause of 420 is
    sent at 480.

    That packet left host 1 at 400 - 100 - 160 = 140. The frame reaches host 0 at 585.12: packet 7
    started at 560, packet 8 must wait.
    """
    the_case = pfc_case(9)
    the_case.flows.append((1, 0, PAYLOAD, 140 * NS))
    outcome = simulate(the_case)
    assert [(d.start_ps, d.kind) for d in outcome.departures[2][:2]] == [
        (400_000, DATA),
        (480_000, PFC),
    ]
    data = starts(outcome.departures[0], DATA)
    assert data[7] == (560_000, 7)
    assert data[8][0] > 1_200_000


def test_pauses_spread_from_switch_to_switch() -> None:
    """Two switches in a row, then a 50 Gbps link: nothing is lost, both upstream ports are paused.

    Once started, the last link is never idle: xon exceeds the 2 packets that leave while a frame
    travels there and a packet back (105.12 + 180 ns). So 30 packets take 360 + 30 * 160 + 100 ns.
    """
    cables = [cable(0, 2), cable(2, 3), cable(3, 1, 50)]
    lossless = fabric("lossless", xoff_bytes=5 * FULL, xon_bytes=4 * FULL)
    outcome = simulate(case(2, cables, [(0, 1, 30 * PAYLOAD, 0)], in_fabric=lossless))
    assert outcome.flows[0].fct_ps == (360 + 30 * 160 + 100) * NS
    assert total(outcome, "drops") == 0
    # Ports: 0 host 0, 1 host 1, 2 and 3 the first switch, 4 and 5 the second.
    assert outcome.counters[4, 0].pfc_pauses > 0
    assert outcome.counters[2, 0].pfc_pauses > 0
    assert outcome.counters[3, 0].paused_ps > 0
    assert outcome.counters[0, 0].paused_ps > 0


def test_dynamic_threshold_follows_the_free_buffer() -> None:
    """xoff = floor((6000 - used) / 2), and a single ingress uses the buffer: used = b.

    xoff is 2500, 2000, 1500 at b = 1000, 2000, 3000, so the pause starts at b = 3000, at 420 as
    in the static case. It ends when b + gap <= (6000 - b) / 2: at b = 2000 without a gap, at
    b = 1000 with a gap of 1 byte.

    With the gap, times equal the static case. Without, b is 2000 already at 500, when packet 1
    completes; a frame starts at once. Then, still at 500, packet 4 arrives: b = 3000, paused again,
    and a second frame follows the first one at 505.12. Between the two frames host 0 (idle from
    560 to 605.12) starts packet 7, which is at the switch at 785.12. Held: 4 at 580, 4 at 660
    (one left, packet 6 arrived), 5 at 785.12, 4 at 820, 3 at 980, 2 at 1140, which ends the pause.
    """
    dynamic = {"shared_buffer_bytes": 6000, "alpha": 0.5}
    with_gap = simulate(pfc_case(8, **dynamic, xon_gap_bytes=1))
    assert [(d.start_ps, d.aux) for d in with_gap.departures[2]] == [(420_000, 1), (1_140_000, 0)]
    without = simulate(pfc_case(8, **dynamic))
    assert [(d.start_ps, d.aux) for d in without.departures[2]] == [
        (420_000, 1),
        (500_000, 0),
        (505_120, 1),
        (1_140_000, 0),
    ]
    assert starts(without.departures[0], DATA)[-1] == (605_120, 7)
    assert without.counters[2, 0].pfc_pauses == 2


def test_dynamic_pause_ends_when_the_ingress_is_empty() -> None:
    """Only a departure of the paused ingress and class can end its pause, so the last one must.

    xoff = floor((6000 - used) / 2), gap 1000. Host 1 sends to host 2 at 10 Gbps (800 ns per
    packet): pause at b = 3000 (at 340), the frame is at host 1 at 445.12, and by 580 six packets
    are held. Host 0's only packet comes at 600: used = 7000, xoff = 0, pause. It goes to host 3
    and is out at 680, when used = 6000 and xoff = 0: 0 + 1000 <= 0 is false, but b is 0. The frame
    of 600 is at host 0 at 705.12, the second one 80 ns later. Its flow of 100 us is undisturbed.
    """
    cables = [cable(0, 4), cable(1, 4), cable(2, 4, 10), cable(3, 4)]
    dynamic = fabric("lossless", shared_buffer_bytes=6000, alpha=0.5, xon_gap_bytes=1000)
    flows = [(1, 2, 8 * PAYLOAD, 0), (0, 3, PAYLOAD, 420 * NS), (0, 3, PAYLOAD, 100_000 * NS)]
    outcome = simulate(case(4, cables, flows, in_fabric=dynamic))
    # Port 4 is the switch's port to host 0.
    frames = [(d.start_ps, d.aux) for d in outcome.departures[4]]
    assert frames == [(600_000, 1), (680_000, 0)]
    assert [flow.fct_ps for flow in outcome.flows][1:] == [360_000, 360_000]
    assert outcome.flows[0].fct_ps > 0
    assert outcome.counters[0, 0].paused_ps == 80 * NS


def test_roce_goes_back_n_after_a_drop() -> None:
    """100 Gbps into a switch with room for 2 packets, 50 Gbps out of it, 5 packets.

    Arrivals at 180, 260, 340, 420, 500; packet 0 leaves at 340, so packet 2 finds room, packet 3
    (at 420) does not, packet 4 (at 500, just after packet 1 left) does. Packets 0, 1, 2, 4 reach
    the receiver at 440, 600, 760, 920; the last triggers NACK(3). A control packet takes
    10.24 + 100 + 5.12 + 100 = 215.36 to the sender: 1135.36. Then 3 and 4 are sent again, reach
    the receiver at 1135.36 + 440 and 160 later, and ACK(5) is back 215.36 after that.
    """
    small = fabric(queue_bytes=2 * FULL)
    outcome = simulate(case(2, star(1, 50), [(0, 1, 5 * PAYLOAD, 0)], "roce", in_fabric=small))
    assert starts(outcome.departures[1], ACK) == [
        (440_000, 1), (600_000, 2), (760_000, 3), (1_575_360, 4), (1_735_360, 5)
    ]  # fmt: skip
    assert starts(outcome.departures[1], NACK) == [(920_000, 3)]
    assert starts(outcome.departures[0], DATA)[5:] == [(1_135_360, 3), (1_215_360, 4)]
    assert outcome.flows[0] == (1_735_360, 1_950_720, 2, 7)
    assert outcome.end_ps == 1_950_720  # the timer is canceled


def test_roce_timeout_recovers_a_lost_last_packet() -> None:
    """As above with 4 packets: nothing reports the loss of packet 3.

    ACK(3) reaches the sender at 760 + 215.36 and re-arms the timer (10 us); packet 3 is sent again
    at 10975.36, arrives 440 later and is acknowledged 215.36 after that.
    """
    small = fabric(queue_bytes=2 * FULL)
    outcome = simulate(
        case(2, star(1, 50), [(0, 1, 4 * PAYLOAD, 0)], "roce", {"rto_ps": 10**7}, in_fabric=small)
    )
    assert starts(outcome.departures[0], DATA)[-1] == (10_975_360, 3)
    assert outcome.flows[0] == (11_415_360, 11_630_720, 1, 5)


def test_roce_acknowledges_every_second_and_the_last_packet() -> None:
    outcome = simulate(case(2, star(1), [(0, 1, 5 * PAYLOAD, 0)], "roce", {"ack_every": 2}))
    assert [seq for _, seq in starts(outcome.departures[1], ACK)] == [2, 4, 5]


def test_ndp_pull_times_match_closed_form() -> None:
    """100 Gbps everywhere, 5 packets, first window 2.

    Packets 0 and 1 arrive at 360 and 440, each answered by an ACK and, 5.12 later, a PULL,
    which reaches the sender 210.24 after that: 575.36 and 655.36. So packets 2 and 3 arrive at
    935.36 and 1015.36. The pull for packet 2, at 940.48, brings packet 4 at 1150.72 + 360.
    The pull for packet 3 finds nothing left to send, and packet 4 completes the flow: no pull.
    """
    control = fabric(n_traffic_classes=2)
    flows = [(0, 1, 5 * PAYLOAD, 0)]
    outcome = simulate(case(2, star(1), flows, "ndp", {"initial_window": 2}, control))
    assert [(d.start_ps, d.aux, d.prio) for d in outcome.departures[1] if d.kind == PULL] == [
        (365_120, 1, 0),
        (445_120, 2, 0),
        (940_480, 3, 0),
        (1_020_480, 4, 0),
    ]
    assert starts(outcome.departures[0], DATA)[2:] == [(575_360, 2), (655_360, 3), (1_150_720, 4)]
    assert outcome.flows[0] == (1_510_720, 1_720_960, 0, 5)
    assert outcome.end_ps == 1_720_960


def test_ndp_pulls_are_paced_across_flows() -> None:
    """Three flows of 2 packets, window 1, into a queue for one packet: only flow 0's fits.

    Packet 0 of flow 0 reaches the receiver at 360, the headers of flows 1 and 2 at 365.12 and
    370.24. The first pull is queued with the ACK at 360, the next two 80 and 160 later. The NIC
    sends ACK(0), then PULL, NACK, NACK back to back, then the paced pulls as they come.
    Flow 0's packet 1 leaves at 575.36 and is in the switch from 755.36 to 835.36; the pull of
    440 brings flow 1's packet there at 440 + 210.24 + 180 = 830.24: trimmed again. The
    pull of 520 brings flow 2's at 910.24, when the queue is free.
    """
    flows = [(h, 3, 2 * PAYLOAD, h) for h in range(3)]  # flow 0's packet is the first
    trim = fabric("trim", queue_bytes=FULL)
    outcome = simulate(case(4, star(3), flows, "ndp", {"initial_window": 1}, trim))
    assert [(d.start_ps, d.kind, d.flow) for d in outcome.departures[3][:6]] == [
        (360_000, ACK, 0),
        (365_120, PULL, 0),
        (370_240, NACK, 1),
        (375_360, NACK, 2),
        (440_000, PULL, 1),
        (520_000, PULL, 2),
    ]
    assert [flow.retransmits for flow in outcome.flows] == [0, 2, 1]
    assert all(flow.fct_ps > 0 for flow in outcome.flows)


def test_ndp_timeout_recovers_a_lost_packet() -> None:
    """With room for one packet and no trimming, packet 1 of a window of 3 is lost.

    100 to 50 Gbps: packet 0 is in the switch from 180 to 340, packet 1 arrives at 260, packet 2
    at 340, just when there is room. ACK(2), sent at 600, is the last one; it reaches the sender
    at 815.36 and re-arms the timer (10 us). The receiver's pulls found nothing to send and left
    no credit; the timeout adds one: packet 1 is sent at 10815.36.
    """
    small = fabric(n_traffic_classes=2, queue_bytes=FULL)
    params = {"initial_window": 3, "rto_ps": 10**7}
    outcome = simulate(case(2, star(1, 50), [(0, 1, 3 * PAYLOAD, 0)], "ndp", params, small))
    assert starts(outcome.departures[0], DATA)[3:] == [(10_815_360, 1)]
    assert outcome.flows[0].fct_ps == 10_815_360 + 440_000
