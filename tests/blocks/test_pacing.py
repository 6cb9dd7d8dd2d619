"""The pacing block, in plain Python."""

from __future__ import annotations

from types import SimpleNamespace

from netsim import limits
from netsim.blocks import pacing

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
