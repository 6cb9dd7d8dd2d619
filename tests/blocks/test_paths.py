"""Building blocks: paths, rates, round trips, timeouts, pacing."""

from collections import Counter
from fractions import Fraction
from types import SimpleNamespace

import pytest
from engine_runs import dumbbell, flow_table
from experiment_text import load, text
from hypothesis import given
from hypothesis import strategies as st

from netsim import limits
from netsim.blocks import delivery_rate, pacing, paths, rtt
from netsim.conformance import Testbed
from netsim.errors import InputError
from netsim.experiment.scenario import prepare
from netsim.plugins import registry

FREEZE = 1000


def chooser(choice: int, entropies: int = 64, flow: int = 5, seed: int = 1) -> SimpleNamespace:
    """A flow with empty state, and its environment."""
    par = SimpleNamespace(paths=choice, entropies=entropies, freeze=FREEZE, seed=seed)
    par.pair_by_entropy = 0
    names = [field if isinstance(field, str) else field[0] for field in paths.TX_STATE]
    tx = SimpleNamespace(flow=flow, entropy=7, **dict.fromkeys(names, 0))
    tx.ring = [0] * paths.RING
    tx.penalties = [0] * 9
    return SimpleNamespace(env=SimpleNamespace(par=par), tx=tx)


def draw(flow: SimpleNamespace, n: int) -> list[int]:
    return [paths.next_entropy(flow.env, flow.tx) for _ in range(n)]


def acknowledge(flow: SimpleNamespace, entropies: list[int], now: int = 0) -> None:
    for entropy in entropies:
        paths.acknowledged(flow.env, now, flow.tx, entropy, False)


def test_ecmp_always_uses_the_flows_entropy() -> None:
    flow = chooser(paths.ECMP)
    acknowledge(flow, [1, 2, 3])
    paths.timed_out(flow.env, 0, flow.tx)
    assert set(draw(flow, 100)) == {7}


def test_port_selecting_entropy_is_chosen_one_packet_ahead() -> None:
    """With `pair_by_entropy` the flow's field holds the next packet's entropy, beginning with the
    initial one; a random one of REPS is negative, until it gets its port."""
    for choice in range(5):
        ahead, flow = chooser(choice), chooser(choice)
        ahead.env.par.pair_by_entropy = 1
        next_ones = []
        sent = []
        for _ in range(20):
            next_ones.append(ahead.tx.entropy)
            sent += draw(ahead, 1)
        assert sent == next_ones
        assert (min(sent[1:]) < 0) == (choice == paths.REPS)
        assert [max(one, -1 - one) for one in sent] == [7, *draw(flow, 19)]


@pytest.mark.parametrize("choice", [paths.BITMAP, paths.MIXED])
def test_first_entropy_on_several_ports_has_no_penalty(choice: int) -> None:
    """It has 16 bits, and only 128 entropies have a penalty or can wait."""
    flow = chooser(choice)
    flow.env.par.pair_by_entropy = 2
    paths.acknowledged(flow.env, 0, flow.tx, 65_535, marked=True)
    paths.acknowledged(flow.env, 0, flow.tx, 65_535, marked=False)
    paths.trimmed(flow.env, 0, flow.tx, 65_535, at_last_hop=False)
    assert flow.tx.penalties == [0] * 9
    assert flow.tx.ring == [0] * paths.RING


def test_oblivious_spray_uses_each_entropy_once_per_round() -> None:
    """Rounds start at different entropies."""
    for entropies in [1, 8, 13, 64]:
        flow = chooser(paths.OBLIVIOUS, entropies)
        rounds = [draw(flow, entropies) for _ in range(50)]
        for chosen in rounds:
            assert sorted(chosen) == list(range(entropies))
        assert len({chosen[0] for chosen in rounds}) > entropies / 4


def test_reps_without_recycled_entropies_draws_at_random() -> None:
    counts = Counter(draw(chooser(paths.REPS, 8), 8000))
    assert set(counts) == set(range(8))
    assert all(900 < count < 1100 for count in counts.values())


def test_reps_recycles_each_entropy_once_oldest_first() -> None:
    flow = chooser(paths.REPS, 60000)
    acknowledge(flow, [101, 102, 103])
    assert draw(flow, 2) == [101, 102]
    acknowledge(flow, [104])
    assert draw(flow, 2) == [103, 104]
    assert not set(draw(flow, 3)) & {101, 102, 103, 104}


def test_reps_ring_keeps_the_newest_entropies() -> None:
    flow = chooser(paths.REPS, 60000)
    acknowledge(flow, list(range(100, 111)))
    assert draw(flow, 8) == list(range(103, 111))


def test_reps_recycles_entropies_of_ports_in_turn() -> None:
    """It keeps four for a choice, and after that draws one, which gets the least loaded port."""
    flow = chooser(paths.REPS, 60000)
    flow.env.par.pair_by_entropy = 4
    flow.tx.entropy = 4000
    acknowledge(flow, [100, 201, 304, 401, 502, 603])
    assert draw(flow, 3) == [4000, 201, 502]
    assert flow.tx.entropy < 0
    acknowledge(flow, [700])
    flow.tx.entropy = 4002
    assert draw(flow, 2) == [4002, 603]


def test_reps_does_not_recycle_marked_entropies() -> None:
    flow = chooser(paths.REPS, 60000)
    paths.acknowledged(flow.env, 0, flow.tx, 50, True)
    paths.acknowledged(flow.env, 0, flow.tx, 51, False)
    assert draw(flow, 1) == [51]
    assert flow.tx.ring_fresh == 0


def test_reps_freezes_on_a_timeout_then_explores() -> None:
    """It reuses the known entropies, explores after the freeze, and then recycles as before."""
    flow = chooser(paths.REPS, 60000)
    acknowledge(flow, [1, 2, 3])
    draw(flow, 3)
    paths.timed_out(flow.env, 100, flow.tx)
    assert draw(flow, 7) == [1, 2, 3, 1, 2, 3, 1]
    acknowledge(flow, [4], now=100 + FREEZE)
    assert draw(flow, 4) == [2, 3, 4, 1]
    acknowledge(flow, [5], now=101 + FREEZE)
    assert not set(draw(flow, paths.EXPLORE)) & {1, 2, 3, 4, 5}
    assert draw(flow, 1) == [5]


def test_bitmap_skips_penalized_entropies() -> None:
    """Each packet that skips an entropy removes one of its penalties."""
    flow = chooser(paths.BITMAP, 128)
    first = draw(chooser(paths.BITMAP, 128), 128)
    paths.acknowledged(flow.env, 0, flow.tx, first[2], True)
    paths.trimmed(flow.env, 0, flow.tx, first[3], False)
    paths.trimmed(flow.env, 0, flow.tx, first[4], True)
    paths.timed_out(flow.env, 0, flow.tx)
    left = [entropy for entropy in first if entropy not in (0, *first[2:4])]
    assert draw(flow, len(left)) == left
    rounds = [draw(flow, 127) for _ in range(12)]
    assert first[2] in rounds[0]
    assert first[3] in rounds[5]
    assert not any(0 in chosen for chosen in rounds)


def test_mixed_reuses_good_entropies_once_oldest_first() -> None:
    flow = chooser(paths.MIXED, 128)
    waiting = [(37 * i) % 128 for i in range(paths.WAITING + 1)]
    acknowledge(flow, waiting[:3])
    assert draw(flow, 2) == waiting[:2]
    acknowledge(flow, waiting[3:])
    assert draw(flow, paths.WAITING - 2) == waiting[2:-1]
    assert draw(flow, 3) == [waiting[-1], *draw(chooser(paths.MIXED, 128), 2)]


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


S = 10**12


@given(st.integers(0, 10**18), st.integers(0, 2 * S))
def test_timestamp_gives_the_elapsed_time(sent_ps: int, later_ps: int) -> None:
    stamp = rtt.timestamp(sent_ps)
    assert 0 <= stamp < 2**31
    assert abs(rtt.elapsed_ps(sent_ps + later_ps, stamp) - later_ps) < rtt.UNIT_PS


def test_elapsed_time_survives_timestamp_wraparound() -> None:
    wrap = rtt.STAMPS * rtt.UNIT_PS
    assert rtt.timestamp(wrap - 1) == 2**31 - 1
    assert rtt.timestamp(wrap) == 0
    assert rtt.elapsed_ps(wrap + 60 * MS, rtt.timestamp(wrap - 60 * MS)) == pytest.approx(120 * MS)


def test_timeout_before_and_after_the_first_sample() -> None:
    tx = SimpleNamespace(srtt_ps=0, rttvar_ps=0)
    assert rtt.timeout_ps(tx, 1 * S, 200 * MS) == 1 * S
    rtt.sample(tx, 60 * MS)
    assert (tx.srtt_ps, tx.rttvar_ps) == (60 * MS, 30 * MS)
    assert rtt.timeout_ps(tx, 1 * S, 0) == 60 * MS + 4 * 30 * MS
    assert rtt.timeout_ps(tx, 1 * S, 200 * MS) == 60 * MS + 200 * MS


@given(st.lists(st.integers(1, 2 * S), min_size=2, max_size=50))
def test_later_samples_follow_the_rfc(samples: list[int]) -> None:
    """Exact fractions of SRTT and RTTVAR: integers lose less than one per step."""
    tx = SimpleNamespace(srtt_ps=0, rttvar_ps=0)
    alpha, beta = Fraction(1, 8), Fraction(1, 4)
    srtt, rttvar = Fraction(samples[0]), Fraction(samples[0], 2)
    rtt.sample(tx, samples[0])
    for r in samples[1:]:
        rttvar = (1 - beta) * rttvar + beta * abs(srtt - r)
        srtt = (1 - alpha) * srtt + alpha * r
        rtt.sample(tx, r)
        assert abs(tx.srtt_ps - srtt) <= 8
        assert abs(tx.rttvar_ps - rttvar) <= 16


def test_steady_round_trip_leaves_only_the_minimum_margin() -> None:
    tx = SimpleNamespace(srtt_ps=0, rttvar_ps=0)
    for _ in range(200):
        rtt.sample(tx, 60 * MS)
    assert tx.srtt_ps == 60 * MS
    assert tx.rttvar_ps <= 4
    assert rtt.timeout_ps(tx, 1 * S, 200 * MS) == 260 * MS


FAR = dumbbell(hosts=1, host_rate="100Mbps", bottleneck_rate="100Mbps", bottleneck_delay="6ms")
"""Round trip of 12 ms, 37 packets."""


def n_duplicates(name: str) -> int:
    """Number of packets that a flow of three round trips sends more than once."""
    engine = Testbed.of(name).run(flow_table([(0, 1, 100 * 4096, 0)]), FAR).engine
    return int(engine.flow_states().sent_packets[0]) - 100


def test_no_transport_resends_on_a_long_lossless_path():
    names = [one for one in registry.names("transport") if one not in ("ideal", "wan_fec")]
    assert {name: n_duplicates(name) for name in names} == dict.fromkeys(names, 0)


@pytest.mark.parametrize(("transport", "key"), [("smartt", "rto"), ("cubic", "initial_rto")])
def test_timeout_below_the_round_trip_is_rejected(tmp_path, transport: str, key: str):
    """The error names both values; a timeout above the round trip is accepted."""
    top = f'transport = {{kind = "{transport}", {key} = "%s"}}'
    (point,) = load(tmp_path, text(top=top % "2us")).points()
    with pytest.raises(InputError) as error:
        prepare(point)
    assert error.value.key == f"transport.{key}"
    assert "2us" in str(error.value)
    assert "8.169us" in str(error.value)
    (point,) = load(tmp_path, text(top=top % "20us")).points()
    assert prepare(point).class_of_flow.size == 16


G = 10**9
NS = 1_000


def flow() -> SimpleNamespace:
    return SimpleNamespace(next_send_ps=0)


def test_gap_is_size_over_rate_rounded_down() -> None:
    """The largest value still fits in an int64."""
    for n_bytes, rate_bps, gap in [
        (1000, 8 * G, 1_000_000),
        (4160, 800 * G, 41_600),
        (1, 3, 2_666_666_666_666),
        (1_150_000, 1, 9_200_000 * 10**12),
    ]:
        assert pacing.gap_ps(n_bytes, rate_bps) == gap
        assert limits.PS_BITS * n_bytes < 2**63


def test_late_packets_do_not_lower_the_rate() -> None:
    """Each packet is up to one gap late."""
    tx, gap = flow(), pacing.gap_ps(1000, 8 * G)
    for i in range(100):
        late = (i * 7919) % gap
        pacing.sent(tx, max(tx.next_send_ps, i * gap + late), 1000, 8 * G)
    assert tx.next_send_ps == 100 * gap


def test_new_rate_applies_from_the_last_packet() -> None:
    tx = flow()
    tx.next_send_ps = 5_000 * NS
    pacing.sent(tx, 5_000 * NS, 1000, 8 * G)
    pacing.change_rate(tx, 1000, 8 * G, 2 * G)
    assert tx.next_send_ps == 9_000 * NS
    pacing.change_rate(tx, 1000, 2 * G, 4 * G)
    assert tx.next_send_ps == 7_000 * NS
