"""Flows of a flow.txt of the ns-3 simulators of the HPCC line.

    2
    0 2 3 100 1000000 2.000000000
    1 2 3 100 1000000 2.000000000

The number of flows, then for each its source, destination, priority group, destination port (some
omit it), bytes and start in seconds. Node k is host k. Those simulators start most experiments at 2
s; `start_times = "from_zero"` shifts all flows so that the first starts at 0.

They read a line when the previous flow has started, so a flow out of order starts late; here it
starts on time. Ports are ignored. Priority groups are merged, unless `classes` assigns them to
traffic classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.common.inputs import user_path, whole
from netsim.errors import InputError
from netsim.flows import FlowTable, TrafficContext, Workload
from netsim.network import Network
from netsim.params import REQUIRED, Param
from netsim.units import written
from netsim.workloads.importers.flow_text import ListedFlows, read_ns3_flows

AS_WRITTEN, ZERO = BEGIN = ("as_given", "from_zero")
"""Whether starts are as in the file, or shifted so that the first is 0."""

START_TIMES = Param(
    "start_times",
    "choice",
    AS_WRITTEN,
    "start times as in the file, or shifted so that the first is 0",
    choices=BEGIN,
)

PARAMS = [
    Param("file", "file", REQUIRED, "flow list, a flow.txt"),
    START_TIMES,
    Param(
        "classes",
        "text",
        None,
        'priority groups of traffic classes 0, 1, ..., such as "5 3"; default: all in class 0',
    ),
]


def flows(
    params: Mapping[str, Any], network: Network, rng: np.random.Generator, context: TrafficContext
) -> Workload:
    path = user_path(params["file"], context.directory)
    listed = read_ns3_flows(path)
    cls = _classes(params["classes"], listed)
    table = flow_table(listed, network, context, params["start_times"], cls)
    return Workload(table, notes=tuple(_notes(params, listed)))


def _classes(given: str | None, listed: ListedFlows) -> NDArray[np.int64]:
    if given is None:
        return np.zeros(len(listed.src), np.int64)
    try:
        groups = [whole(word) for word in given.replace(",", " ").split()]
    except ValueError:
        groups = []
    if not groups or len(set(groups)) < len(groups):
        raise InputError(
            f"invalid priority groups {written(given)}",
            key="traffic.classes",
            hint='each once, such as "5 3"',
        )
    order = np.argsort(groups)
    place = np.searchsorted(groups, listed.priority_group, sorter=order)
    cls = order[np.minimum(place, len(groups) - 1)]
    for flow in np.flatnonzero(np.array(groups)[cls] != listed.priority_group)[:1].tolist():
        group = listed.priority_group[flow]
        raise listed.error(flow, f"priority group {group} is missing in traffic.classes")
    return cls


def _notes(params: Mapping[str, Any], listed: ListedFlows) -> Iterator[str]:
    """Yield notes on deviations from the file and from ns-3."""
    name, groups = written(params["file"]), np.unique(listed.priority_group)
    if params["classes"] is None and groups.size > 1:
        found = ", ".join(map(str, groups[:8].tolist()))
        yield f"{name}: priority groups {found} share a class (set traffic.classes)"
    if listed.late_lines:
        what = f"{listed.late_lines} of {len(listed.src)} lines are out of order"
        yield f"{name}: {what}: they start at their times; in ns-3 they start later"


def flow_table(
    listed: ListedFlows, network: Network, context: TrafficContext, begin: str, cls: ArrayLike = 0
) -> FlowTable:
    """Return the flows; node k is host k. Raises InputError with a line."""
    context.reserve(len(listed.src), key="traffic.file")
    for what, host in (("source", listed.src), ("destination", listed.dst)):
        for flow in np.flatnonzero((host < 0) | (host >= network.n_hosts))[:1].tolist():
            last = network.n_hosts - 1
            raise listed.error(flow, f"{what} {host[flow]} does not exist (hosts are 0..{last})")
    first = listed.start_ps.min() if begin == ZERO else 0
    return FlowTable(listed.src, listed.dst, listed.size_bytes, listed.start_ps - first, cls=cls)
