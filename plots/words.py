"""What plots and reports call axes, quantities, transports and values."""

from __future__ import annotations

import re
from collections.abc import Sequence
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
    "fabric.xoff_bytes": "PFC threshold (XOFF)",
    "fabric.queue_discipline": "queue discipline",
    "topology.host_rate": "rate of a host",
    "topology.rail.host_rate": "rate of a GPU's port on its rail",
    "topology.prediction_error": "share of wrong predictions",
    "traffic.fan_in": "senders",
    "traffic.load": "load",
    "traffic.n_flows": "flows",
    "traffic.pooled_fraction": "share of the KV cache in other GPUs' memory",
    "traffic.rate": "requests per second",
    "traffic.size": "flow size",
    "traffic.sizes": "flow sizes",
}
"""Axis -> its name on plots; the default is its last word."""

EXPOSED = "exposed communication, {} (share of the step)"

QUANTITIES = {
    "fct": "flow completion time", "ideal": "ideal completion time", "job_step": "step time",
    "step": "step time", "forecast": "step time of the whole job, forecast",
    "formula": "step time of the whole job, by formula",
    "forecast_exposed": EXPOSED.format("all networks, forecast"),
    "job_exposed": EXPOSED.format("all networks"),
    "exposed": EXPOSED.format("all networks"), "ttft": "time to first token",
    "tbt": "time between tokens", "second_token": "first to second token",
    "packet_hops_per_s": "speed", "pfc_pauses": "PFC pauses", "ecn_marks": "packets marked by ECN",
    "drops": "packets dropped", "trims": "packets trimmed", "lost": "packets lost",
    "retransmits": "packets sent again", "mfu": "model FLOPs utilization",
}  # fmt: skip
"""Metric, or its first words before a statistic -> its name."""

STATISTICS = {
    "p50": "median", "p90": "90th percentile", "p99": "99th percentile",
    "p999": "99.9th percentile", "max": "longest", "mean": "mean",
}  # fmt: skip

TRANSPORTS = {
    "bbr": "BBR", "cubic": "CUBIC", "datagram": "datagrams", "dcqcn": "DCQCN", "dctcp": "DCTCP",
    "expresspass": "ExpressPass", "homa": "Homa", "hpcc": "HPCC", "ndp": "NDP", "nscc": "NSCC",
    "pfabric": "pFabric", "rccc": "RCCC", "roce": "RoCE", "smartt": "SMaRTT", "swift": "Swift",
    "wan_fec": "FEC",
}  # fmt: skip

PRESET = re.compile(r"^([a-z_]+)(:[\w-]+)?(?=$|,| \()")

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


def metric_name(name: str) -> str:
    """Return what a number of a summary is called: "99th percentile of the time to first token"
    for "ttft_p99_ps"; unknown ones keep their words."""
    whose, dot, rest = name.rpartition(".")
    if dot:
        return f"{whose}: {metric_name(rest)}"
    if name in QUANTITIES:
        return QUANTITIES[name]
    if found := re.fullmatch(r"(?:job_)?exposed_(?:by_)?scale_(up|out)_?(.*)", name):
        network, kind = found.groups()
        return EXPOSED.format(f"scale-{network} {kind.replace('_', ' ')}".rstrip())
    name = name.removesuffix("_per_s").removesuffix("_ps").removesuffix("_s")
    quantity, _, statistic = name.rpartition("_")
    if statistic in STATISTICS:
        return f"{QUANTITIES.get(quantity, quantity.replace('_', ' '))}, {STATISTICS[statistic]}"
    return QUANTITIES.get(name, name.replace("_", " "))


def for_people(labels: Sequence[str]) -> list[str]:
    """Return labels that begin with a transport as titles: "NDP, load 1" for "ndp:800g, load 1".

    Presets stay if they tell labels apart.
    """
    titles = []
    for label in labels:
        found = PRESET.match(label)
        if found is None or found[1] not in TRANSPORTS:
            titles.append((label, "", ""))
        else:
            titles.append((TRANSPORTS[found[1]], found[2] or "", label[found.end() :]))
    plain = [name + rest for name, _, rest in titles]
    return plain if len(set(plain)) == len(set(labels)) else ["".join(one) for one in titles]
