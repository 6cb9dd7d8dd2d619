"""Flows of a flow.txt, as the ns-3 simulators of HPCC's family read it.

    2
    0 2 3 100 1000000 2.000000000
    1 2 3 100 1000000 2.000000000

The number of flows, then for each its source, destination, priority group, destination port (some
write none), bytes and start in seconds. Nodes are hosts of the same number. Those simulators begin
most experiments at 2 s; `start_times = "from_zero"` moves all flows, so that the first one starts
at 0.

They read the next line as the last flow has started, so that a line out of order starts late; here
it starts when it says. Ports name nothing here. Priority groups are not told apart, unless
`classes` names the one of each traffic class.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.flows import TrafficContext, Workload
from netsim.inputs import user_path, whole
from netsim.network import Network
from netsim.params import REQUIRED, Param
from netsim.units import written
from netsim.workloads.importers.flow_text import ListedFlows, read_ns3_flows
from netsim.workloads.traffic._listed import AS_WRITTEN, BEGIN, flow_table

PARAMS = [
    Param("file", "file", REQUIRED, "the flow.txt"),
    Param(
        "start_times",
        "choice",
        AS_WRITTEN,
        "starts are as written, or the first is 0",
        choices=BEGIN,
    ),
    Param(
        "classes",
        "text",
        None,
        'priority groups of traffic class 0, 1, ..., such as "5 3"; all in class 0 by default',
    ),
]


def flows(
    params: Mapping[str, Any], network: Network, rng: np.random.Generator, context: TrafficContext
) -> Workload:
    """The flows in the order of the file."""
    path = user_path(params["file"], context.directory)
    listed = read_ns3_flows(path)
    cls = _classes(params["classes"], listed)
    table = flow_table(listed, network, context, params["start_times"], cls)
    return Workload(table, notes=tuple(_notes(params, listed)))


def _classes(given: str | None, listed: ListedFlows) -> NDArray[np.int64]:
    """The traffic class of each flow."""
    if given is None:
        return np.zeros(len(listed.src), np.int64)
    try:
        groups = [whole(word) for word in given.replace(",", " ").split()]
    except ValueError:
        groups = []
    if not groups or len(set(groups)) < len(groups):
        raise InputError(
            f"{written(given)} are not priority groups",
            key="traffic.classes",
            hint='each once, such as "5 3"',
        )
    order = np.argsort(groups)
    place = np.searchsorted(groups, listed.priority_group, sorter=order)
    cls = order[np.minimum(place, len(groups) - 1)]
    for flow in np.flatnonzero(np.array(groups)[cls] != listed.priority_group)[:1].tolist():
        group = listed.priority_group[flow]
        raise listed.error(flow, f"traffic.classes does not have priority group {group}")
    return cls


def _notes(params: Mapping[str, Any], listed: ListedFlows) -> Iterator[str]:
    """What is not as in the file, or not as ns-3 would do it."""
    name, groups = written(params["file"]), np.unique(listed.priority_group)
    if params["classes"] is None and groups.size > 1:
        found = ", ".join(map(str, groups[:8].tolist()))
        yield f"{name}: priority groups {found} are not told apart: traffic.classes may name them"
    if listed.late_lines:
        what = f"{listed.late_lines} of {len(listed.src)} lines are out of order"
        yield f"{name}: {what}: these flows start when they say, in ns-3 they start later"
