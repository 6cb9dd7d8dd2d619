"""The transports of the reference simulator against closed forms; see ``small.py`` for sizes."""

from __future__ import annotations

from . import simulate
from .model import ACK, DATA, NACK, PULL
from .small import FULL, PAYLOAD, case, fabric, star, starts


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
    assert starts(outcome.departures[0], DATA)[2:] == [
        (575_360, 2),
        (655_360, 3),
        (1_150_720, 4),
    ]
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
