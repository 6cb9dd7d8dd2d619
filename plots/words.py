"""Words and values for people: what an axis of a sweep is called on a figure, and its values."""

from __future__ import annotations

from typing import Any

from netsim.errors import InputError
from netsim.units import (
    format_bytes,
    format_rate,
    format_time,
    parse_bytes,
    parse_rate_bps,
    parse_time_ps,
    written,
)

NAMES = {
    "fabric.load_balancing": "load balancing",
    "fabric.queue_discipline": "queue discipline",
    "topology.host_rate": "rate of a host",
    "traffic.fan_in": "senders",
    "traffic.load": "load",
    "traffic.n_flows": "flows",
    "traffic.rate": "requests per second",
    "traffic.size": "flow size",
    "traffic.sizes": "flow sizes",
}
"""Axis -> what people call it; others are their last word."""

FORMATS = (
    (parse_bytes, format_bytes),
    (parse_rate_bps, format_rate),
    (parse_time_ps, format_time),
)


def axis_name(axis: str) -> str:
    """What an axis of a sweep is called: "fan in" for "traffic.classes.fan_in"."""
    return NAMES.get(axis, axis.rpartition(".")[2].replace("_", " "))


def value_text(value: Any) -> str:
    """A value of an axis, in a unit that suits it: "3MB" for "3000KB"."""
    if not isinstance(value, str):
        return written(value)
    for parse, form in FORMATS:
        try:
            return form(parse(value))
        except InputError:
            continue
    return value
