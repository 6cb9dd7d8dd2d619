"""PFC in the reference simulator against closed forms: the packets and times of `small`."""

from __future__ import annotations

from typing import Any

from . import Case, Departure, simulate
from .model import DATA, PFC
from .small import FULL, NS, PAYLOAD, cable, case, fabric, star, starts, total


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
    assert outcome.counters[2, 0].pfc_pauses_sent == 1
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
    assert total(outcome, "drops") == 0
    assert total(outcome, "pfc_pauses_sent") == 0


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
    assert outcome.counters[4, 0].pfc_pauses_sent > 0
    assert outcome.counters[2, 0].pfc_pauses_sent > 0
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
    assert without.counters[2, 0].pfc_pauses_sent == 2


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
