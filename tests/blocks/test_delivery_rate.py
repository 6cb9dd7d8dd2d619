"""Delivery rate samples, in plain Python."""

from __future__ import annotations

from types import SimpleNamespace

from netsim.blocks import delivery_rate

BYTES = 1000
MS = 10**9
RTT = 10 * MS


class Flow:
    """A sender whose packets and acknowledgments are driven by the test."""

    def __init__(self) -> None:
        scalars = [f for f in delivery_rate.TX_STATE if isinstance(f, str)]
        arrays = [f for f in delivery_rate.TX_STATE if not isinstance(f, str)]
        state = dict.fromkeys(scalars, 0) | {name: [0] * n for name, n in arrays}
        self.tx = SimpleNamespace(**state)
        self.delivered = 0
        self.in_flight = 0

    def send(self, now: int) -> SimpleNamespace:
        pkt = SimpleNamespace(sent_ps=now)
        delivery_rate.stamp(self.tx, now, pkt, self.delivered, self.in_flight)
        self.in_flight += 1
        return pkt

    def acknowledge(self, pkt: SimpleNamespace, now: int) -> None:
        self.delivered += 1
        self.in_flight -= 1
        ack = SimpleNamespace()
        delivery_rate.echo(pkt, ack)
        rtt = now - pkt.sent_ps
        delivery_rate.update(self.tx, now, ack, BYTES, self.delivered, rtt, RTT)


def test_steady_flow_has_its_sending_rate() -> None:
    """A packet per millisecond is 8 Mbps, whatever the round trip."""
    flow = Flow()
    sent = [flow.send(i * MS) for i in range(10)]
    for i in range(50):
        flow.acknowledge(sent[i], i * MS + RTT)
        sent.append(flow.send(i * MS + RTT))
    assert flow.tx.max_bps == 8 * 10**6


def test_compressed_acknowledgments_do_not_raise_the_rate() -> None:
    """Acknowledgments that arrive all at once count at the rate at which the packets were sent."""
    flow = Flow()
    first = [flow.send(i * MS) for i in range(20)]
    for pkt in first:
        flow.acknowledge(pkt, 40 * MS)
    second = [flow.send(40 * MS + i * MS) for i in range(20)]
    for pkt in second:
        flow.acknowledge(pkt, 80 * MS)
    assert flow.tx.max_bps <= 8 * 10**6


def test_round_ends_with_a_packet_sent_after_its_start() -> None:
    flow = Flow()
    starts = []
    for i in range(3):
        flight = [flow.send(i * RTT + j) for j in range(4)]
        for pkt in flight:
            flow.acknowledge(pkt, pkt.sent_ps + RTT)
            starts.append(flow.tx.round_start)
    assert starts == [1, 0, 0, 0] * 3
    assert flow.tx.round_count == 3


def sample(flow: Flow, now: int, n: int, spread: int) -> None:
    """Send and acknowledge a round of ``n`` packets, ``spread`` apart."""
    flight = [flow.send(now + i * spread) for i in range(n)]
    for pkt in flight:
        flow.acknowledge(pkt, pkt.sent_ps + RTT)


def test_maximum_is_forgotten_after_ten_rounds() -> None:
    flow = Flow()
    sample(flow, 0, 20, MS)
    high = flow.tx.max_bps
    assert high > 4 * 10**6
    for i in range(1, 14):
        sample(flow, i * 100 * MS, 1, MS)
        assert (flow.tx.max_bps == high) == (i < delivery_rate.FILTER_ROUNDS)
    assert flow.tx.max_bps == BYTES * 8 * 10**12 // RTT


def test_app_limited_samples_count_only_if_higher() -> None:
    flow = Flow()
    sample(flow, 0, 20, MS)
    high = flow.tx.max_bps
    for i in range(1, 20):
        delivery_rate.limit(flow.tx, flow.delivered, flow.in_flight)
        sample(flow, i * 100 * MS, 1, MS)
    assert flow.tx.max_bps == high
    delivery_rate.limit(flow.tx, flow.delivered, 50)
    sample(flow, 3000 * MS, 40, MS // 10)
    assert flow.tx.max_bps > high
