"""Timestamps, and the estimator compared with the arithmetic of RFC 6298."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim.blocks import rtt

MS = 10**9
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
    """Exact fractions of SRTT and RTTVAR are the reference; integers lose less than one per
    step."""
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
