"""Flow lists as columns of numbers: flow.txt of the ns-3 simulators of the HPCC line, and
opera-sim's.

HPCC and its descendants (SimAI, ASTRA-sim's ns-3 network, ConWeave) have the number of flows in the
first line, then for each flow

    src dst priority_group dport bytes start_s

where some omit dport. opera-sim and Flare have no first line, and

    src dst bytes start_ns

Source: alibaba-edu/High-Precision-Congestion-Control, simulation/scratch/third.cc;
TritonNetworking/opera-sim.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from netsim.common.inputs import at_line, bounded, read_lines, reading, require_file, whole
from netsim.errors import InputError
from netsim.limits import HORIZON_PS, SIZE_BYTES
from netsim.units import written

NS3 = ("src", "dst", "priority_group", "dport", "bytes", "start_s")
NS3_SHORT = tuple(name for name in NS3 if name != "dport")
OPERA = ("src", "dst", "bytes", "start_ns")

PS = {"start_s": 10**12, "start_ns": 10**3}
"""Picoseconds per unit of start times."""

EXACT = 2.0**53
"""Start times above this, in ps, are inexact in double precision."""


@dataclass(frozen=True)
class ListedFlows:
    """Flows in file order: int64[n] each.

    `priority_group` is 0 in formats without it; `lines` are line numbers.
    """

    path: Path
    src: NDArray[np.int64]
    dst: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    start_ps: NDArray[np.int64]
    priority_group: NDArray[np.int64]
    lines: NDArray[np.int64]

    def error(self, flow: int, message: str, hint: str | None = None) -> InputError:
        return at_line(self.path, int(self.lines[flow]), message, hint)

    @property
    def late_lines(self) -> int:
        """Number of flows that start earlier than one above them."""
        before = np.maximum.accumulate(self.start_ps)
        return int((self.start_ps < before).sum())


def read_ns3_flows(path: Path) -> ListedFlows:
    """Read a flow.txt. Raises InputError with the line."""
    require_file(path)
    first = list(itertools.islice(read_lines(path), 2))
    if not first:
        raise InputError(
            "is empty", file=str(path), hint="the number of flows, then one line per flow"
        )
    number, line = first[0]
    with reading(path, number):
        count = bounded("the number of flows", line, least=1)
    width = len(first[1][1].split()) if len(first) > 1 else len(NS3)
    flows = _flows(path, NS3_SHORT if width == len(NS3_SHORT) else NS3, header=True)
    if len(flows.src) != count:
        raise at_line(path, number, f"{count} flows announced, {len(flows.src)} found")
    return flows


def read_opera_flows(path: Path) -> ListedFlows:
    """Read an opera-sim list. Raises InputError with the line."""
    require_file(path)
    return _flows(path, OPERA, header=False)


def _flows(path: Path, names: Sequence[str], *, header: bool) -> ListedFlows:
    listed = list(read_lines(path))[header:]
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
        for flow in np.flatnonzero(bad)[:1].tolist():
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
