"""Quantities with units: exact parsing and formatting, and errors for invalid ones."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raises_input import raises_input

from netsim import units
from netsim.errors import InputError
from netsim.limits import HORIZON_PS, RATE_BPS, SIZE_BYTES
from netsim.units import (
    format_bytes,
    format_rate,
    format_time,
    parse_bytes,
    parse_queue,
    parse_rate_bps,
    parse_time_ps,
)

SCALES = {
    parse_time_ps: {"ps": 1, "ns": 10**3, "us": 10**6, "µs": 10**6, "ms": 10**9, "s": 10**12},
    parse_bytes: {
        "B": 1,
        "kB": 10**3,
        "KB": 10**3,
        "MB": 10**6,
        "GB": 10**9,
        "TB": 10**12,
        "KiB": 2**10,
        "MiB": 2**20,
        "GiB": 2**30,
        "TiB": 2**40,
    },
    parse_rate_bps: {"bps": 1, "kbps": 10**3, "Mbps": 10**6, "Gbps": 10**9, "Tbps": 10**12},
}
PARSERS = list(SCALES)
LIMITS = {parse_time_ps: HORIZON_PS, parse_bytes: SIZE_BYTES, parse_rate_bps: RATE_BPS}


def test_quantities_are_parsed():
    for parse, text, value in [
        (parse_time_ps, "1.5us", 1_500_000),
        (parse_time_ps, " 10 ms ", 10**10),
        (parse_time_ps, "0ns", 0),
        (parse_time_ps, "0.001ns", 1),
        (parse_bytes, "97.39MB", 97_390_000),
        (parse_bytes, "64KiB", 65_536),
        (parse_bytes, "1.5KiB", 1536),
        (parse_rate_bps, "800Gbps", 800 * 10**9),
        (parse_rate_bps, "1.6Tbps", 16 * 10**11),
    ]:
        assert parse(text) == value


def test_too_long_number_is_reported_by_its_length():
    with raises_input("20001", code="wrong_type"):
        parse_bytes(16**5000)


def test_queue_sizes_accept_packets():
    assert parse_queue("35pkt", 4160) == 35 * 4160
    assert parse_queue("1 pkt", 4160) == 4160
    assert parse_queue("64KB", 4160) == 64_000


def test_quantities_are_formatted():
    for text, expected in [
        (format_time(1_234_567), "1.234567us"),
        (format_time(0), "0ps"),
        (format_time(10**12), "1s"),
        (format_time(-2_500), "-2.5ns"),
        (format_time(1_234_567, 3), "1.23us"),
        (format_time(999_999, 3), "1000ns"),
        (format_bytes(97_390_000), "97.39MB"),
        (format_bytes(4096), "4KiB"),
        (format_bytes(64_000), "64KB"),
        (format_bytes(4096, 3), "4.1KB"),
        (format_rate(800 * 10**9), "800Gbps"),
    ]:
        assert text == expected


@given(st.integers(min_value=0, max_value=min(LIMITS.values()) - 1))
def test_formatted_quantities_round_trip(value):
    assert parse_time_ps(format_time(value)) == value
    assert parse_bytes(format_bytes(value)) == value
    if value:
        assert parse_rate_bps(format_rate(value)) == value


@given(st.data(), st.sampled_from(PARSERS))
def test_parsing_is_exact_or_rejected(data, parse):
    unit = data.draw(st.sampled_from(sorted(SCALES[parse])))
    whole = data.draw(st.integers(0, 10**7))
    fraction = data.draw(st.text("0123456789", max_size=12))
    exact = Fraction(f"{whole}.{fraction or 0}") * SCALES[parse][unit]
    text = f"{whole}.{fraction}{unit}" if fraction else f"{whole}{unit}"
    acceptable = (
        exact.denominator == 1 and exact < LIMITS[parse] and (exact or parse != parse_rate_bps)
    )
    if acceptable:
        assert parse(text) == exact
    else:
        with pytest.raises(InputError):
            parse(text)


@given(
    st.sampled_from(PARSERS),
    st.one_of(st.text(), st.none(), st.booleans(), st.floats(), st.integers(), st.lists(st.text())),
)
def test_other_values_are_input_errors(parse, value):
    try:
        assert isinstance(parse(value), int)
        assert isinstance(value, str)
    except InputError:
        pass


@given(st.integers(1, HORIZON_PS - 1), st.integers(1, 9))
def test_rounded_format_is_within_its_precision(value, digits):
    shown = format_time(value, digits)
    number = "".join(c for c in shown if c in "0123456789.")
    unit = shown[len(number) :]
    assert abs(Fraction(number) * SCALES[parse_time_ps][unit] - value) <= value * Fraction(10) ** (
        1 - digits
    )


def test_units_that_are_not_powers_of_ten_are_only_parsed(monkeypatch):
    minutes = replace(units._TIME, units={**units._TIME.units, "min": 60 * 10**12})
    monkeypatch.setattr(units, "_TIME", minutes)
    assert parse_time_ps("1.5min") == 90 * 10**12
    assert format_time.__wrapped__(90 * 10**12) == "90s"
    assert format_time.__wrapped__(10**14, 1) == "100s"
