"""Names of axes and texts of values on plots."""

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
    "fabric.routing": "routing",
    "fabric.queue_discipline": "queue discipline",
    "topology.host_rate": "rate of a host",
    "traffic.fan_in": "senders",
    "traffic.load": "load",
    "traffic.n_flows": "flows",
    "traffic.rate": "requests per second",
    "traffic.size": "flow size",
    "traffic.sizes": "flow sizes",
}
"""Axis -> its name on plots; the default is its last word."""

FORMATS = ((parse_bytes, format_bytes), (parse_rate_bps, format_rate), (parse_time_ps, format_time))


def axis_name(axis: str) -> str:
    """Return the name of an axis of a sweep: "fan in" for "flow_classes.a.traffic.fan_in"."""
    return NAMES.get(axis, axis.rpartition(".")[2].replace("_", " "))


def value_text(value: Any) -> str:
    """Return a value in a suitable unit: "3MB" for "3000KB"."""
    if not isinstance(value, str):
        return written(value)
    for parse, form in FORMATS:
        try:
            return form(parse(value))
        except InputError:
            continue
    return value
