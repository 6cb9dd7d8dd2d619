"""Declared parameters: conversion, defaults, presets, and complete messages."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raises_input import raises_input

from netsim.errors import InputError
from netsim.experiment.schema import SECTIONS
from netsim.params import (
    NUMBER,
    REQUIRED,
    UNITS,
    Param,
    as_table,
    key,
    keys_of,
    read_table,
    resolve_params,
    table_of,
    tables_of,
)


def test_values_convert_and_format_back():
    for unit, written, value in [
        ("time", "1us", 10**6),
        ("bytes", "2MB", 2 * 10**6),
        ("rate", "100Gbps", 10**11),
        ("count", 15, 15),
        ("fraction", 1, 1.0),
        ("ratio", 2.5, 2.5),
        ("bool", True, True),
        ("text", "x", "x"),
        ("file", "a.csv", "a.csv"),
        ("sizes", "2MB", ((2 * 10**6, 1.0),)),
        ("sizes", "web_search", "web_search"),
        ("sizes", [["1KB", 0.5], ["1MB", 1]], ((1000, 0.5), (10**6, 1.0))),
    ]:
        param = Param("p", unit, REQUIRED, "")
        assert param.convert(written) == value
        assert type(param.convert(written)) is type(value)
        assert param.convert(param.format(value)) == value


PARAMS = [
    Param("rto", "time", "1ms", "timeout"),
    Param("window", "count", 8, "packets in flight"),
    Param("size", "bytes", REQUIRED, "message of each flow"),
]
PRESETS = {"fast": {"rto": "10us", "window": 2}}


def resolve(given, preset=None):
    return resolve_params(PARAMS, PRESETS, given, preset, file="a.toml", key="transport")


def test_given_values_override_presets_and_defaults():
    assert resolve({"size": "1B"}) == {"rto": 10**9, "window": 8, "size": 1}
    assert resolve({"size": "1B", "window": 3}, "fast") == {"rto": 10**7, "window": 3, "size": 1}


ANYTHING = st.recursive(
    st.one_of(st.text(max_size=8), st.none(), st.booleans(), st.floats(), st.integers()),
    lambda inner: st.lists(inner, max_size=3),
)


@given(st.sampled_from([unit for unit in UNITS if unit != "choice"]), ANYTHING)
def test_any_value_converts_or_is_an_input_error(unit, value):
    param = Param("p", unit, REQUIRED, "")
    try:
        converted = param.convert(value)
    except InputError:
        return
    assert param.convert(param.format(converted)) == converted


@dataclass(frozen=True)
class Inner:
    share: float = key("fraction", 0.5, "of a port")


@dataclass(frozen=True)
class Table:
    """A table of keys, one of another name, one that is a table."""

    limit_ps: int = key("time", REQUIRED, "longest wait", name="limit", minimum="1ns")
    number: float = key(NUMBER, 1, "of ports", above=0, maximum=8)
    inner: Inner = key(table_of(Inner), {}, "of a port")
    each: dict[str, Inner] = key(tables_of(Inner), {}, "by port")

    def conflicts(self, given):
        if self.number > 4 and "inner" in given:
            yield InputError("conflicts with number", key="inner")


def test_table_is_read_and_written():
    table = read_table(Table, {"limit": "1us", "each": {"a": {"share": 1}}})
    assert table == Table(10**6, 1.0, Inner(0.5), {"a": Inner(1.0)})
    written = {"limit": "1us", "number": 1.0, "inner": {"share": 0.5}, "each": {"a": {"share": 1}}}
    assert as_table(table) == written
    assert read_table(Table, written) == table


def test_errors_of_a_table_are_reported_at_once():
    given = {"number": 0, "inner": {"shar": 1}, "each": {"a": {"share": 2}, "b": 3}, "limt": 1}
    with pytest.raises(InputError) as caught:
        read_table(Table, given, key="top")
    assert [(error.key, error.code) for error in caught.value.errors] == [
        ("top.limt", "unknown_key"),
        ("top.limit", "missing"),
        ("top.number", "out_of_range"),
        ("top.inner.shar", "unknown_key"),
        ("top.each.a.share", "out_of_range"),
        ("top.each.b", "wrong_type"),
    ]
    with raises_input(key="top.inner"):
        read_table(Table, {"limit": "1us", "number": 5, "inner": {}}, key="top")


@pytest.mark.parametrize("table", SECTIONS.values(), ids=SECTIONS)
def test_default_of_every_section_is_as_written(table):
    for param in keys_of(table).values():
        if not param.required and param.default is not None:
            value = param.convert(param.default)
            assert param.convert(param.format(value)) == value, param.name
