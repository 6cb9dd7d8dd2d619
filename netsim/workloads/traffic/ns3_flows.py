"""Flows from a flow.txt of the ns-3 simulators that descend from HPCC's.

    2
    0 2 3 100 1000000 2.000000000
    1 2 3 100 1000000 2.000000000

The number of flows, then for each its source, destination, priority group, destination port (some
omit it), bytes and start in seconds. Node k is host k. Those simulators start most experiments at 2
s; `start_times = "from_zero"` shifts all flows so that the first starts at 0.

They stop after that number of flows; a message counts the lines that follow. They read a line when
the previous flow has started, so a flow out of order starts late; here it starts on time. Ports are
ignored. Priority groups are merged, unless `classes` assigns them to traffic classes.

Source: alibaba-edu/High-Precision-Congestion-Control, simulation/scratch/third.cc, read also by
SimAI, ASTRA-sim's ns-3 network and ConWeave.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from netsim.common.inputs import (
    at_line,
    bounded,
    read_lines,
    require_file,
    user_path,
    whole,
)
from netsim.errors import InputError, errors_at
from netsim.flows import FlowTable, Rng, TrafficContext, Workload
from netsim.frozen import frozen
from netsim.limits import HORIZON_PS, SIZE_BYTES
from netsim.model.columns import Ints, first_of
from netsim.network import Network
from netsim.params import REQUIRED, Param, Params
from netsim.units import written

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


def flows(params: Params, network: Network, rng: Rng, context: TrafficContext) -> Workload:
    path = user_path(params["file"], context.directory)
    listed = read_ns3_flows(path)
    cls = _classes(params["classes"], listed)
    table = flow_table(listed, network, context, params["start_times"], cls)
    return Workload(table, notes=tuple(_notes(params, listed)))


def _classes(given: str | None, listed: ListedFlows) -> Ints:
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
    same = listed.priority_group[:, None] == np.array(groups)
    for flow in first_of(~same.any(axis=1)):
        group = listed.priority_group[flow]
        raise listed.error(flow, f"priority group {group} is missing in traffic.classes")
    found: Ints = same.argmax(axis=1)
    return found


def _notes(params: Params, listed: ListedFlows) -> Iterator[str]:
    name, groups = written(params["file"]), np.unique(listed.priority_group)
    if params["classes"] is None and groups.size > 1:
        found = ", ".join(map(str, groups[:8].tolist()))
        yield f"{name}: priority groups {found} share a class (set traffic.classes)"
    if listed.late_lines:
        what = f"{listed.late_lines} of {len(listed.src)} lines are out of order"
        yield f"{name}: {what}: they start at their times; in ns-3 they start later"
    if listed.unread_lines:
        yield f"{name}: {listed.unread_lines} lines after its {len(listed.src)} flows are not read"


def flow_table(
    listed: ListedFlows, network: Network, context: TrafficContext, begin: str, cls: ArrayLike = 0
) -> FlowTable:
    """Return the flows; node k is host k. Raises InputError with a line."""
    context.reserve(len(listed.src), key="traffic.file")
    for what, host in (("source", listed.src), ("destination", listed.dst)):
        for flow in first_of((host < 0) | (host >= network.n_hosts)):
            last = network.n_hosts - 1
            raise listed.error(flow, f"{what} {host[flow]} does not exist (hosts are 0..{last})")
    first = listed.start_ps.min() if begin == ZERO else 0
    return FlowTable(listed.src, listed.dst, listed.size_bytes, listed.start_ps - first, cls=cls)


NS3 = ("src", "dst", "priority_group", "dport", "bytes", "start_s")
NS3_SHORT = tuple(name for name in NS3 if name != "dport")
OPERA = ("src", "dst", "bytes", "start_ns")

PS = {"start_s": 10**12, "start_ns": 10**3}  # picoseconds per unit of start times
EXACT = 2.0**53  # start times above this, in ps, are inexact in double precision


@frozen
class ListedFlows:
    """Flows in file order: int64[n] each. `priority_group` is 0 in formats without it; `lines` are
    line numbers."""

    path: Path
    src: Ints
    dst: Ints
    size_bytes: Ints
    start_ps: Ints
    priority_group: Ints
    lines: Ints
    unread_lines: int = 0

    def error(self, flow: int, message: str, hint: str | None = None) -> InputError:
        return at_line(self.path, int(self.lines[flow]), message, hint)

    @property
    def late_lines(self) -> int:
        """Number of flows that start earlier than a flow on an earlier line."""
        before = np.maximum.accumulate(self.start_ps)
        return int((self.start_ps < before).sum())


def read_ns3_flows(path: Path) -> ListedFlows:
    """Read a flow.txt. Raises InputError with the line."""
    require_file(path)
    lines = list(read_lines(path))
    if not lines:
        raise InputError(
            "is empty", file=str(path), hint="the number of flows, then one line per flow"
        )
    (number, line), *listed = lines
    with errors_at(file=f"{path}:{number}"):
        count = bounded("the number of flows", line, least=1)
    if len(listed) < count:
        raise at_line(path, number, f"{count} flows announced, {len(listed)} found")
    width = len(listed[0][1].split())
    flows = _flows(path, NS3_SHORT if width == len(NS3_SHORT) else NS3, listed[:count])
    return replace(flows, unread_lines=len(listed) - count)


def read_opera_flows(path: Path) -> ListedFlows:
    """Read an opera-sim list. Raises InputError with the line."""
    require_file(path)
    return _flows(path, OPERA, list(read_lines(path)))


def _flows(path: Path, names: Sequence[str], listed: Sequence[tuple[int, str]]) -> ListedFlows:
    if not listed:
        raise InputError("has no flows", file=str(path), hint=f"a line is: {' '.join(names)}")
    unit = names[-1]
    kinds = [(name, np.float64 if name == unit else np.int64) for name in names]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            rows = np.loadtxt([line for _, line in listed], kinds, ndmin=1)
    except (ValueError, OverflowError, Warning):
        raise _wrong_line(path, listed, names) from None
    size, start = rows["bytes"], rows[unit]
    lines = np.array([number for number, _ in listed], np.int64)
    none = np.zeros(lines.size, np.int64)
    group = rows["priority_group"] if "priority_group" in names else none
    exact = np.abs(start) < EXACT / PS[unit]
    starts = np.rint(np.where(exact, start, 0.0) * PS[unit]).astype(np.int64)
    flows = ListedFlows(path, rows["src"], rows["dst"], size, starts, group, lines)
    wrong = [
        (~exact | (starts < 0) | (starts >= HORIZON_PS), "must start within 20 h"),
        ((size < 1) | (size >= SIZE_BYTES), "its size must be 1 B to 1 PiB"),
        (flows.src == flows.dst, "sends to itself"),
    ]
    for bad, what in wrong:
        for flow in first_of(bad):
            raise flows.error(flow, f"flow {flow}: {what}")
    return flows


def _wrong_line(path: Path, listed: Sequence[tuple[int, str]], names: Sequence[str]) -> InputError:
    for number, line in listed:
        words = line.split()
        try:
            if len(words) == len(names):
                _ = [whole(word) for word in words[:-1]], float(words[-1])
                continue
        except ValueError:
            pass
        return at_line(path, number, f"{written(line)} is not a flow", f"{' '.join(names)}")
    return InputError("is not a list of flows", file=str(path), hint=f"{' '.join(names)}")
