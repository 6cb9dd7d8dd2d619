"""MRC: a single flow, lost and marked paths one by one, and planes that fail."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from engine_runs import (
    US,
    acked_ps,
    bdp_queues,
    build,
    counter,
    fat_tree,
    flow_table,
    hit,
    resolve,
    run,
)

from netsim.blocks import entropy_values as evs
from netsim.model.fabric import Fabric, routing_spec
from netsim.model.faults import LinkFault, combine
from netsim.plugins import registry

PAYLOAD = 4096
FLOW_BYTES = 489 * PAYLOAD


@pytest.mark.parametrize(("rate", "far_us"), [("100Gbps", 171.758), ("800Gbps", 28.470)])
def test_single_flow_takes_the_ideal_time(rate: str, far_us: float) -> None:
    flows = flow_table([(0, 31, FLOW_BYTES, 0)])
    engine = run(build(fat_tree(8, 4, rate), flows, "mrc", bdp_queues()))
    assert acked_ps(engine)[0] / US == pytest.approx(far_us, abs=0.001)


# --- entropy values -------------------------------------------------------------------------------


@pytest.fixture
def flow(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A flow on eight planes whose next packet takes ``plane``; ``sent`` are its probes."""
    seen = SimpleNamespace(plane=0, up=0xFF, timer=None, sent=[])

    def send(*_: Any) -> SimpleNamespace:
        seen.sent.append(SimpleNamespace(plane=seen.tx.entropy))
        return seen.sent[-1]

    def set_timer(_env: Any, _now: int, _tx: Any, _k: int, deadline: int) -> None:
        seen.timer = deadline

    monkeypatch.setattr(evs, "port_pair", lambda *_: seen.plane)
    monkeypatch.setattr(evs, "port_pairs_in_use", lambda *_: seen.up)
    monkeypatch.setattr(evs, "armed", lambda *_: seen.timer is not None)
    monkeypatch.setattr(evs, "set_timer", set_timer)
    monkeypatch.setattr(evs, "send", send)
    seen.tx = SimpleNamespace(flow=5, entropy=0)
    for name in evs.TX_STATE:
        length = 0 if isinstance(name, str) else name[1]
        setattr(seen.tx, str(name if isinstance(name, str) else name[0]), [0] * length or 0)
    given = resolve(registry.find("transport", "mrc"), {})
    par = SimpleNamespace(**{name: -1 if v is None else v for name, v in given.items()}, seed=1)
    par.pair_by_entropy = 8
    seen.tx.period_ps = US
    seen.env = SimpleNamespace(par=par)
    evs.start(seen.env, seen.tx)
    return seen


def take(flow: SimpleNamespace, plane: int, n: int, first: int = 0) -> list[int]:
    """Send n packets by a plane; return their EVs."""
    flow.plane = plane
    sent = [evs.next_entropy(flow.env, 0, flow.tx, first + i) for i in range(n)]
    assert all(entropy % 8 == plane for entropy in sent)
    return [evs.ev_of(flow.tx, entropy) for entropy in sent]


def states(flow: SimpleNamespace) -> np.ndarray:
    """Return the states of the EVs, by row and plane."""
    n = flow.tx.n_rows * 8
    return np.array([evs.get(flow.tx, ev) & evs.STATE for ev in range(n)]).reshape(-1, 8)


def test_planes_have_equally_many_values_and_spares(flow: SimpleNamespace) -> None:
    """128 active values and 32 spares: 16 and 4 per plane."""
    assert (states(flow)[:16] == evs.GOOD).all()
    assert (states(flow)[16:] == evs.SPARE).all()
    assert states(flow).shape == (20, 8)


def test_each_round_takes_every_active_value_once_in_a_new_order(flow: SimpleNamespace) -> None:
    rounds = [take(flow, 3, 16) for _ in range(4)]
    for taken in rounds:
        assert sorted(taken) == [8 * row + 3 for row in range(16)]
    assert len({tuple(taken) for taken in rounds}) == 4


def test_skipped_value_misses_one_turn(flow: SimpleNamespace) -> None:
    ev = take(flow, 2, 16)[4]
    evs.skip(flow.tx, evs.entropy_of(flow.tx, ev))
    taken = take(flow, 2, 15 + 16)
    assert ev not in taken[:15]
    assert taken[15:].count(ev) == 1


def test_lost_values_are_replaced_from_their_plane_until_spares_run_out(
    flow: SimpleNamespace,
) -> None:
    """After four spares, a plane has fewer values; all planes keep a quarter of the 128."""
    for plane in range(8):
        for i, ev in enumerate(take(flow, plane, 16)):
            evs.lost(flow.env, 0, flow.tx, i)
            assert states(flow)[ev // 8, plane] == evs.BAD
            assert flow.tx.active_in[plane] == min(16, 19 - i)
    assert flow.tx.n_active == 32 == (states(flow) == evs.GOOD).sum()
    assert flow.tx.n_bad == 128 == (states(flow) == evs.BAD).sum()
    (ev,) = take(flow, 3, 1)
    evs.lost(flow.env, 0, flow.tx, 0)
    assert states(flow)[ev // 8, 3] == evs.GOOD


def test_value_of_a_packet_is_that_of_its_last_transmission(flow: SimpleNamespace) -> None:
    first, again = take(flow, 1, 1, first=1030), take(flow, 6, 1, first=1030)
    evs.lost(flow.env, 0, flow.tx, 1030)
    assert states(flow)[first[0] // 8, 1] == evs.GOOD
    assert states(flow)[again[0] // 8, 6] == evs.BAD


def test_lost_value_is_probed_about_an_interval_later_until_it_answers(
    flow: SimpleNamespace,
) -> None:
    """It becomes a spare, as its replacement is active."""
    flow.env.par.probes_needed = 2
    lost_ps = 123_456_789
    (ev,) = take(flow, 5, 1)
    evs.lost(flow.env, lost_ps, flow.tx, 0)
    times = []
    while len(times) < 3:
        now, flow.timer = flow.timer, None
        evs.on_timer(flow.env, now, flow.tx)
        times += [now] * (len(flow.sent) - len(times))
    interval = flow.env.par.probe_interval
    assert interval * 15 // 16 <= times[0] - lost_ps <= interval
    assert np.diff(times).tolist() == [interval, interval]
    assert {(one.plane, one.entropy) for one in flow.sent} == {(5, evs.entropy_of(flow.tx, ev))}
    for state in (evs.BAD, evs.SPARE, evs.SPARE):
        evs.answered(flow.env, flow.tx, flow.sent[0].entropy)
        assert states(flow)[ev // 8, 5] == state
    assert flow.tx.n_bad == 0


def test_at_most_eight_probes_leave_at_once(flow: SimpleNamespace) -> None:
    take(flow, 0, 16)
    for seq in range(16):
        evs.lost(flow.env, 0, flow.tx, seq)
    numbers = []
    while len(flow.sent) < 16:
        before = len(flow.sent)
        evs.on_timer(flow.env, flow.timer, flow.tx)
        numbers.append(len(flow.sent) - before)
    assert [n for n in numbers if n] == [8, 8]


def test_port_of_a_plane_without_values_is_not_chosen(flow: SimpleNamespace) -> None:
    """Other planes take turns, by their number among the planes in use; -1 is the least loaded."""
    flow.env.par.min_active = 0.1
    evs.start(flow.env, flow.tx)
    take(flow, 0, 1)
    assert flow.tx.entropy == -1
    take(flow, 2, 16)
    for seq in range(16):
        evs.lost(flow.env, 0, flow.tx, seq)
    for _ in range(4):
        taken = take(flow, 2, 1)
        evs.lost(flow.env, 0, flow.tx, 0)
    assert flow.tx.active_in[2] == 0, taken
    flow.up = 0b01111111
    ports = []
    for _ in range(12):
        take(flow, 1, 1)
        ports.append(flow.tx.entropy)
    assert sorted(ports[:6]) == [0, 1, 3, 4, 5, 6]
    assert ports[:6] == ports[6:]
    flow.up = 0b11111011
    take(flow, 1, 1)
    assert flow.tx.entropy == -1


def test_port_of_a_denied_plane_is_not_chosen_until_it_is_allowed_again(
    flow: SimpleNamespace,
) -> None:
    ports = []
    for denied in (3, 3, 3, 3, 3, 3, 3, -1):
        flow.env.par.denied_plane = denied
        take(flow, 1, 1)
        ports.append(flow.tx.entropy)
    assert sorted(ports) == [-1, 0, 1, 2, 4, 5, 6, 7]
    assert (states(flow)[:16] == evs.GOOD).all()


# --- losses ---------------------------------------------------------------------------------------


def planes(n: int, **fabric: Any) -> tuple[Any, Fabric]:
    """Two leaves with two hosts each on n planes of 100 Gbps, and their fabric."""
    network = fat_tree(2, 2, f"{100 * n}Gbps", planes=n)
    return network, replace(bdp_queues(), plane_balancing="entropy", **fabric)


def test_lost_packet_is_repaired_without_a_timeout() -> None:
    """One of 489 packets is lost; only it is sent again, and its EV is bad until a probe."""
    network = fat_tree(8, 4, "100Gbps")
    port = int(network.node_first_port[0])
    fault = hit(port, 20 * US, 20 * US + 1, 332_800)
    engine = build(
        network,
        flow_table([(0, 31, FLOW_BYTES, 0)]),
        "mrc",
        bdp_queues(),
        faults=combine([fault], network.n_ports),
        params={"reordering": 1.0},
    )
    run(engine)
    assert counter(engine, "lost_packets") == 1
    assert int(engine.flow_states().retransmits[0]) == 1
    tx = engine.state.hosts.tx
    assert int(tx["n_bad"][0]) == 1
    assert acked_ps(engine)[0] / US == pytest.approx(171.758 + 0.333, abs=0.01)


def test_flow_leaves_a_plane_that_loses_everything() -> None:
    """Three of four planes carry it: FCT at most four thirds, and the time until losses show."""
    network, fabric = planes(4)
    size = 4 * 489 * PAYLOAD
    flows = flow_table([(0, 3, size, 0)])
    whole = run(build(network, flows, "mrc", fabric))
    dead = LinkFault(np.array([int(network.node_first_port[0])]), loss=1.0, at_ps=30 * US)
    faults = combine([dead], network.n_ports)
    engine = run(build(network, flows, "mrc", fabric, faults=faults))
    tx = engine.state.hosts.tx
    assert int(tx["active_in"][0][0]) == 0
    assert (tx["active_in"][0][1:4] == 32).all()
    ideal_us = acked_ps(whole)[0] / US
    assert ideal_us < acked_ps(engine)[0] / US < 30 + (ideal_us - 30) * 4 / 3 + 60


def test_denied_plane_carries_nothing() -> None:
    """With three of four planes, the flow takes 4/3 of the time."""
    network, fabric = planes(4)
    flows = flow_table([(0, 3, 4 * 489 * PAYLOAD, 0)])
    whole, engine = (
        run(build(network, flows, "mrc", fabric, params=params))
        for params in ({}, {"denied_plane": 2})
    )
    packets = engine.link_counters().sent_packets.reshape(-1, fabric.n_link_classes)
    ports = int(network.node_first_port[0]) + np.arange(4)
    assert packets[ports, 1].tolist() == [652, 652, 0, 652]
    base_us = int(engine.state.hosts.tx["base_rtt_ps"][0]) / US
    times_us = acked_ps(whole)[0] / US, acked_ps(engine)[0] / US
    assert times_us[1] - base_us == pytest.approx((times_us[0] - base_us) * 4 / 3, rel=0.02)


def test_lost_end_of_a_message_is_requested_without_a_timeout() -> None:
    """The last 20 packets are lost: after 1.5 base round trips of silence, a request and its
    answers take another one, and the repair half of one."""
    network = fat_tree(8, 4, "100Gbps")
    port = int(network.node_first_port[0])
    fault = hit(port, (489 - 20) * 332_800, 490 * 332_800, 332_800)
    flows = flow_table([(0, 31, FLOW_BYTES, 0)])
    faults = combine([fault], network.n_ports)
    engine = run(build(network, flows, "mrc", bdp_queues(), faults=faults))
    lost = int(engine.flow_states().retransmits[0])
    assert 20 <= lost <= 22
    trip_us = int(engine.state.hosts.tx["base_rtt_ps"][0]) / US
    sent_us = 489 * 0.3328
    assert acked_ps(engine)[0] / US == pytest.approx(
        sent_us + (1.5 + 1 + 1) * trip_us + lost * 0.3328, abs=trip_us
    )


def test_digits_of_entropies_load_uplinks_equally() -> None:
    """In each round 64 EVs take eight uplinks eight times, whichever row is the first."""
    network = fat_tree(8, 4, "100Gbps")
    fabric = replace(bdp_queues(), routing=routing_spec("entropy_digits", digit_base=8))
    params = {"entropy_values": 64, "spare_values": 0}
    flows = flow_table([(0, 31, 8 * 64 * PAYLOAD, 0)])
    engine = run(build(network, flows, "mrc", fabric, params=params))
    leaf = int(network.port_node[network.port_peer[network.node_first_port[0]]])
    uplinks = int(network.node_first_port[leaf]) + 8 + np.arange(8)
    sent = engine.link_counters().sent_packets.reshape(-1, fabric.n_link_classes)
    assert sent[uplinks, 1].tolist() == [64] * 8
