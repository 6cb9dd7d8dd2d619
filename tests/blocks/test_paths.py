"""Path selection: which entropy each packet of a flow gets."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

from netsim.blocks import paths

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
