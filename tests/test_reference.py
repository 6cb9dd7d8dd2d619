"""The reference simulator against closed forms; its transports are in ``reference/``.

Unless a test says otherwise packets have 936 + 64 = 1000 bytes, which take 80 ns at 100 Gbps and
160 ns at 50 Gbps, and cables have 100 ns.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from reference import Cable, Case, Departure, simulate
from reference.balancing import permuted
from reference.cases import COMBINATIONS, LOAD_BALANCING, random_case
from reference.model import DATA, FLAG_CE, PFC, TRIMMED, below, rand32, serialisation_ps
from reference.small import FULL, NS, PAYLOAD, G, cable, case, fabric, star, starts, total

# -- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gbps", "ps_per_byte"),
    [(10, 800), (25, 320), (40, 200), (100, 80), (200, 40), (400, 20), (800, 10)],
)
def test_serialisation_is_exact(gbps: int, ps_per_byte: int) -> None:
    assert serialisation_ps(9217, gbps * G) == 9217 * ps_per_byte


def test_below_covers_its_range() -> None:
    assert below(0, 7) == 0
    assert below(2**32 - 1, 7) == 6


def test_random_numbers_depend_on_every_argument_modulo_32_bits() -> None:
    base = rand32(1, 2, 3, 4)
    assert len({base, rand32(0, 2, 3, 4), rand32(1, 0, 3, 4), rand32(1, 2, 0, 4)}) == 4
    assert rand32(1 + 2**32, 2, 3, 4 + 2**40) == base


@pytest.mark.parametrize("n", range(2, 40))
def test_permutation_is_one(n: int) -> None:
    for key in (0, 1, 0xFFFFFFFF, rand32(0, 3, n, 0)):
        assert sorted(permuted(key, x, n) for x in range(n)) == list(range(n))


# -- links and queues ----------------------------------------------------------------------------


@pytest.mark.parametrize("n_switches", [1, 2, 5])
def test_line_of_equal_links(n_switches: int) -> None:
    """Each of the L links costs 80 ns + 100 ns, each packet after the first another 80 ns."""
    path = [0, *range(2, 2 + n_switches), 1]
    cables = [cable(a, b) for a, b in pairwise(path)]
    outcome = simulate(case(2, cables, [(0, 1, 3 * PAYLOAD, 7 * NS)]))
    links = n_switches + 1
    assert outcome.flows[0].fct_ps == (links * 180 + 2 * 80) * NS
    assert outcome.end_ps == outcome.flows[0].fct_ps + 7 * NS


def test_line_of_unequal_links() -> None:
    """The slow link in the middle (25 Gbps: 320 ns per full packet) spaces the packets.

    Two packets, the second with 1 byte of payload (65 bytes: 5.2, 20.8 and 1.3 ns).
    Packet 0 ends on link 1 at 80, on link 2 at 80 + 100 + 320 = 500. Packet 1 is at the switch at
    185.2, starts on link 2 at 500, ends at 520.8, is at the last switch at 520.8 + 200 = 720.8.
    Packet 0 is there at 700 and is gone at 720 (20 ns at 400 Gbps), so packet 1 starts at once
    and has arrived at 720.8 + 1.3 + 300.
    """
    cables = [cable(0, 2), cable(2, 3, 25, 200 * NS), cable(3, 1, 400, 300 * NS)]
    outcome = simulate(case(2, cables, [(0, 1, PAYLOAD + 1, 0)]))
    assert outcome.flows[0].fct_ps == 1_022_100


def test_delays_of_the_two_directions_are_their_own() -> None:
    """One packet of 65 bytes: 5.2 ns per link."""
    cables = [Cable(2, 0, 100 * G, 1 * NS, 20 * NS), Cable(1, 2, 100 * G, 300 * NS, 4000 * NS)]
    outcome = simulate(case(2, cables, [(0, 1, 1, 0), (1, 0, 1, 0)]))
    assert [flow.fct_ps for flow in outcome.flows] == [4_030_400, 311_400]


def test_two_flows_share_a_bottleneck() -> None:
    """Pairs arrive every 80 ns from 180 on; the output sends one packet per 80 ns, six in all.

    Host 0 comes first in each tie, so it has packets 1, 3, 5 of the six and host 1 has 2, 4, 6.
    At the k-th pair (k = 0, 1, 2) k packets have gone, so 2 (k + 1) - k are held: at most 4.
    """
    outcome = simulate(case(3, star(2), [(1, 2, 3 * PAYLOAD, 0), (0, 2, 3 * PAYLOAD, 0)]))
    out = outcome.departures[5]
    assert [d.flow for d in out] == [1, 0, 1, 0, 1, 0]
    assert [d.start_ps for d in out] == [(180 + 80 * k) * NS for k in range(6)]
    assert [f.fct_ps for f in outcome.flows] == [(180 + 6 * 80 + 100) * NS, (180 + 500) * NS]
    assert outcome.counters[5, 0].max_queue_bytes == 4 * FULL


def test_drop_tail() -> None:
    """As above with room for 2: of each pair but the first, only host 0's packet finds room.

    80 ns after a pair one packet completes before the next pair arrives.
    """
    flows = [(0, 2, 3 * PAYLOAD, 0), (1, 2, 3 * PAYLOAD, 0)]
    outcome = simulate(case(3, star(2), flows, in_fabric=fabric(queue_bytes=2 * FULL)))
    assert [(d.flow, d.seq) for d in outcome.departures[5]] == [(0, 0), (1, 0), (0, 1), (0, 2)]
    assert outcome.counters[5, 0].drops == 2
    assert outcome.counters[5, 0].drop_bytes == 2 * FULL
    assert [flow.fct_ps for flow in outcome.flows] == [(180 + 4 * 80 + 100) * NS, -1]


def test_host_serves_its_flows_in_turn() -> None:
    flows = [(0, 1, 2 * PAYLOAD, 0)] * 2
    outcome = simulate(case(2, star(1), flows))
    assert [(d.flow, d.seq) for d in outcome.departures[0]] == [(0, 0), (1, 0), (0, 1), (1, 1)]


def test_a_paced_flow() -> None:
    """50 Gbps on a NIC of 100: a packet every 160 ns after the start."""
    flows = [(0, 1, 3 * PAYLOAD, 5 * NS)]
    outcome = simulate(case(2, star(1), flows, params={"rate_bps": 50 * G}))
    assert starts(outcome.departures[0], DATA) == [(5_000, 0), (165_000, 1), (325_000, 2)]


def test_paced_flows_that_meet() -> None:
    """Flows at 25 Gbps started at 0 and 40 are due at 0, 320, 640 and at 40, 360, 680.

    The NIC needs 80 ns per packet, so flow 1 always finds it busy with flow 0's packet and goes
    40 ns after it is due; that does not put off its next packet.
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
def test_ecn_with_one_threshold(at: str, marked: list[int]) -> None:
    """The shared bottleneck again, threshold 1500 bytes.

    q before the six arrivals is 0, 1; 1, 2; 2, 3 packets (the completions come first), and
    at the six starts, the starting packet included, 1, 1, 2, 3, 2, 1.
    """
    ecn = {"kmin_bytes": 1500, "kmax_bytes": 1500, "pmax": 1.0, "at": at}
    flows = [(0, 2, 3 * PAYLOAD, 0), (1, 2, 3 * PAYLOAD, 0)]
    outcome = simulate(case(3, star(2), flows, in_fabric=fabric(ecn=ecn)))
    out = outcome.departures[5]
    assert [k for k, d in enumerate(out) if d.flags & FLAG_CE] == marked
    assert outcome.counters[5, 0].marks == 3


def test_ecn_between_thresholds_draws() -> None:
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
def test_trimming(coin: int) -> None:
    """Three packets arrive at 180, room is for two. The first is in transmission at once.

    Coin 0 trims the third, coin 1 the second, which is at the tail and whose place the third
    takes. The header overtakes the waiting packet at 260.
    """
    out_port = 7
    seed = next(s for s in range(100) if rand32(s, 5, out_port, 0) & 1 == coin)
    flows = [(h, 3, PAYLOAD, 0) for h in range(3)]
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


def test_the_packet_in_transmission_is_not_trimmed() -> None:
    """Room for one: of three packets at 180 the first is being sent, the others are trimmed."""
    flows = [(h, 3, PAYLOAD, 0) for h in range(3)]
    trim = fabric("trim", queue_bytes=FULL, header_queue_bytes=64)
    for seed in range(8):
        outcome = simulate(
            case(4, star(3), flows, params={"data_class": 1}, in_fabric=trim, seed=seed)
        )
        # The header queue has room for one header: the third packet's is dropped.
        assert [(d.kind, d.flow) for d in outcome.departures[7]] == [(DATA, 0), (TRIMMED, 1)]
        assert outcome.counters[7, 1].trims == 2
        assert (outcome.counters[7, 0].drops, outcome.counters[7, 0].drop_bytes) == (1, 64)


def test_header_ratio() -> None:
    """Seven packets at 180: one being sent, two waiting, four headers; two headers per data."""
    flows = [(h, 7, PAYLOAD, 0) for h in range(7)]
    trim = fabric("trim", queue_bytes=3 * FULL, header_ratio=2)
    outcome = simulate(case(8, star(7), flows, params={"data_class": 1}, in_fabric=trim))
    kinds = [d.kind for d in outcome.departures[15]]
    assert kinds == [DATA, TRIMMED, TRIMMED, DATA, TRIMMED, TRIMMED, DATA]


# -- PFC -----------------------------------------------------------------------------------------


def pfc_case(n_packets: int, **changes: Any) -> Case:
    """100 Gbps into a switch, 50 Gbps out of it; xoff at 2.5 packets, xon at 1.5."""
    lossless = fabric("lossless", **{"xoff_bytes": 2500, "xon_bytes": 1500, **changes})
    return case(2, star(1, 50), [(0, 1, n_packets * PAYLOAD, 0)], in_fabric=lossless)


def test_pause_and_resume() -> None:
    """Packet k is at the switch at 180 + 80 k; one leaves it at 340, 500, 660, ...

    Held just after arrivals: 1 at 180, 2 at 260, 2 at 340 (one left before), 3 at 420: pause.
    The frame (5.12 ns) is at the host at 525.12, when packet 6 (started at 480) is on its way.
    So packets 4, 5, 6 follow at 500, 580, 660: 3, 4, 4 held. Then 3 at 820, 2 at 980, 1 at 1140:
    below xon. That frame is at the host at 1245.12: packet 7 starts, having waited from 525.12
    (720 ns paused), and arrives 80 + 100 + 160 + 100 later.
    """
    outcome = simulate(pfc_case(8))
    frames = [(d.start_ps, d.arrival_ps, d.aux) for d in outcome.departures[2]]
    assert frames == [(420_000, 525_120, 1), (1_140_000, 1_245_120, 0)]
    assert outcome.departures[2][0] == Departure(420_000, 525_120, PFC, -1, 0, 1, 64, 0, 0, 0)
    assert starts(outcome.departures[0], DATA)[-2:] == [(480_000, 6), (1_245_120, 7)]
    assert outcome.counters[0, 0].paused_ps == 720_000
    assert outcome.counters[2, 0].pauses_sent == 1
    assert outcome.counters[3, 0].max_queue_bytes == 4 * FULL
    assert outcome.flows[0].fct_ps == 1_245_120 + 440_000


def test_too_little_headroom() -> None:
    """Room for one packet after the pause of 420: that is packet 4 (at 500); 5 and 6 are lost.

    At 660 and 820 one leaves, and 1 is left, which ends the pause: packet 7 starts at
    820 + 105.12. By then the headroom is whole again.
    """
    outcome = simulate(pfc_case(8, headroom_bytes=FULL))
    assert [d.seq for d in outcome.departures[3]] == [0, 1, 2, 3, 4, 7]
    assert outcome.counters[2, 0].drops == 2
    assert outcome.counters[2, 0].drop_bytes == 2 * FULL
    assert starts(outcome.departures[0], DATA)[-1] == (925_120, 7)


def test_headroom_is_for_what_comes_after_a_pause() -> None:
    """Nothing is paused up to xoff, however small the headroom."""
    outcome = simulate(pfc_case(8, headroom_bytes=0, xoff_bytes=8 * FULL))
    assert total(outcome, "drops") == 0
    assert total(outcome, "pauses_sent") == 0


def test_a_frame_waits_for_the_packet_in_transmission() -> None:
    """A packet the other way occupies the port from 400 to 480, so the pause of 420 goes at 480.

    It left host 1 at 400 - 100 - 160 = 140. The frame is at host 0 at 585.12: packet 7 has
    started at 560, packet 8 has to wait.
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
    """Two switches in a row with 50 Gbps at the end: nothing is lost, both ports are paused.

    The last link is never idle once it has started (xon is above what leaves during the way of
    a frame there and a packet back, 105.12 + 180 ns, that is 2 packets): 30 packets take
    360 + 30 * 160 + 100 ns.
    """
    cables = [cable(0, 2), cable(2, 3), cable(3, 1, 50)]
    lossless = fabric("lossless", xoff_bytes=5 * FULL, xon_bytes=4 * FULL)
    outcome = simulate(case(2, cables, [(0, 1, 30 * PAYLOAD, 0)], in_fabric=lossless))
    assert outcome.flows[0].fct_ps == (360 + 30 * 160 + 100) * NS
    assert total(outcome, "drops") == 0
    # Ports: 0 host 0, 1 host 1, 2 and 3 the first switch, 4 and 5 the second.
    assert outcome.counters[4, 0].pauses_sent > 0
    assert outcome.counters[2, 0].pauses_sent > 0
    assert outcome.counters[3, 0].paused_ps > 0
    assert outcome.counters[0, 0].paused_ps > 0


def test_dynamic_threshold() -> None:
    """xoff = floor((6000 - used) / 2), and one ingress uses it all: used = b.

    xoff is 2500, 2000, 1500 at b = 1000, 2000, 3000, so the pause comes at b = 3000, at 420 as in
    the static case. It ends when b + gap <= (6000 - b) / 2: at b = 2000 without a gap, at b = 1000
    with a gap of 1 byte.

    With the gap all goes on as in the static case. Without, b is 2000 already at 500, when packet 1
    completes; a frame starts at once. Then, still at 500, packet 4 arrives: b = 3000, paused again,
    and a second frame follows the first one at 505.12. Between the two frames host 0 (idle from
    560 to 605.12) starts packet 7, which is at the switch at 785.12. Held: 4 at 580, 4 at 660
    (one gone, packet 6 come), 5 at 785.12, 4 at 820, 3 at 980, 2 at 1140: the end of the pause.
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
    assert without.counters[2, 0].pauses_sent == 2


def test_a_dynamic_pause_ends_with_its_last_packet() -> None:
    """Only a completion of the paused ingress and class ends its pause, so the last one must.

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
    # Global port 4 is the switch's port to host 0.
    frames = [(d.start_ps, d.aux) for d in outcome.departures[4]]
    assert frames == [(600_000, 1), (680_000, 0)]
    assert [flow.fct_ps for flow in outcome.flows][1:] == [360_000, 360_000]
    assert outcome.flows[0].fct_ps > 0
    assert outcome.counters[0, 0].paused_ps == 80 * NS


# -- load balancing ------------------------------------------------------------------------------


@pytest.mark.parametrize("method", LOAD_BALANCING)
def test_load_balancing(method: str) -> None:
    """Host 0 to host 1 over 4 equal paths: every method but ecmp uses them all."""
    cables = [cable(0, 2), cable(1, 3), *(cable(2, 3) for _ in range(4))]
    flows = [(0, 1, 64 * PAYLOAD, 0)]
    outcome = simulate(case(2, cables, flows, in_fabric=fabric(load_balancing=method)))
    used = [len(outcome.departures[p]) for p in range(3, 7)]
    assert sum(used) == 64
    if method == "ecmp":
        assert sorted(used) == [0, 0, 0, 64]
    elif method == "spray_rr":
        # Local port 0, so the c-th packet takes path c mod 4.
        assert [d.seq for d in outcome.departures[4]] == list(range(1, 64, 4))
    elif method == "spray_permutation":
        assert used == [16] * 4
        for turn in range(16):
            paths = [
                p for p in range(3, 7) if any(d.seq // 4 == turn for d in outcome.departures[p])
            ]
            assert paths == [3, 4, 5, 6]
    else:
        assert min(used) > 0


def test_least_loaded_avoids_the_port_that_holds_bytes() -> None:
    """Two hosts send at the same instants over two paths: never both over the same."""
    cables = [cable(0, 3), cable(1, 3), cable(2, 4, 400), cable(3, 4), cable(3, 4)]
    flows = [(h, 2, 20 * PAYLOAD, 0) for h in range(2)]
    least = fabric(load_balancing="least_loaded")
    outcome = simulate(case(3, cables, flows, in_fabric=least))
    # Ports 3.. are switch 3's: hosts 0, 1, then the two paths.
    assert [len(outcome.departures[p]) for p in (5, 6)] == [20, 20]
    assert outcome.counters[5, 0].max_queue_bytes == FULL


# -- random cases --------------------------------------------------------------------------------


@pytest.mark.parametrize("load_balancing", LOAD_BALANCING)
@pytest.mark.parametrize(("transport", "model"), COMBINATIONS)
def test_random_cases(transport: str, model: str, load_balancing: str) -> None:
    """Nothing gets lost, links send one packet at a time, and a case determines its outcome."""
    for rng_seed in range(4):
        the_case = random_case(rng_seed, transport, model, load_balancing)
        outcome = simulate(the_case)
        assert outcome.balance.holds()
        for departures in outcome.departures.values():
            for one, after in pairwise(departures):
                assert after.arrival_ps > one.arrival_ps
                assert after.start_ps > one.start_ps
        again = random_case(rng_seed, transport, model, load_balancing)
        assert again == the_case
        assert simulate(again) == outcome
