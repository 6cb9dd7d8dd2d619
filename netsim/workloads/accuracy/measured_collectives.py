"""Calibrated curves against collectives that machines took: sizes, node counts and machines that
were left out of the calibration."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

from netsim.accuracy.cases import Case, Row, Tolerance
from netsim.errors import InputError
from netsim.inputs import read_text
from netsim.units import format_bytes
from netsim.workloads.calibration.fit import Rates, fitted
from netsim.workloads.calibration.measured import NAMES, Measurement
from netsim.workloads.calibration.validate import Residual, residuals, without_sizes
from netsim.workloads.job.curves import Shape
from netsim.workloads.job.load import load_machine

GBPS = 10**9
BAND = 1 << 20
"""Size up to which latencies count, and beyond which rates do."""

SMALL_SIZES = Tolerance(0.10, "up to 1 MiB; latencies vary between runs")
LARGE_SIZES = Tolerance(0.05, "above 1 MiB; pairs of nodes of one machine differ as much")
NEXT_COUNT = Tolerance(0.15, "fitted to one number of nodes; others follow NCCL's model")
OTHER_NETWORK = Tolerance(0.25, "fitted to another network; only the rate of ports is known")


class Table(NamedTuple):
    """A machine with a table: rates in Gbps of a GPU inside a domain and of its share of ports."""

    inside: int
    port: int
    reduces: bool = False
    nodes_per_domain: int = 1
    source: str = ""

    @property
    def rates(self) -> Rates:
        return Rates(self.inside * GBPS, self.port * GBPS, self.reduces)


TABLES = {
    "h100_10x8": Table(3600, 400, True, source="xxrjun/nccl-tests-cluster 455de4f"),
    "h100_a3mega_2x8": Table(3600, 200, True, source="lessizzmore/create-a3mega-ztan-fork"),
    "h100_nt290": Table(3600, 400, True, source="nccl-tests issue 290"),
    "h100_8x8_sharp": Table(3600, 400, True, source="coreweave/nccl-tests cb86553"),
    "gb200_nvl72": Table(7200, 400, True, 18, source="coreweave/nccl-tests cb86553"),
    "polaris_a100": Table(2400, 100, source="argonne-lcf/alcf-nccl-tests 385be33"),
    "mi300x_1x8": Table(3584, 400, source="hisohara/ai-scripts 7b8b1ec"),
    "mi300x_2x8": Table(3584, 400, source="hisohara/ai-scripts 7b8b1ec"),
    "mi325x_Nx8_ring": Table(3584, 400, source="hisohara/ai-scripts 7b8b1ec"),
    "mi355x_2x8_pollara": Table(4300, 400, source="hisohara/ai-scripts 7b8b1ec"),
}
"""Tables of nccl-tests and rccl-tests, `NAME.csv`."""

NODE_COUNTS = ("gb200_nvl72", "polaris_a100", "mi325x_Nx8_ring")
"""Tables of several numbers of nodes with as many GPUs each."""

OTHER_NETWORKS = {
    "h100_a3mega_2x8": "h100_10x8",
    "h100_8x8_sharp": "h100_10x8",
    "h100_nt290": "h100_10x8",
}
"""Table -> one of the same GPU on another network, to which the curves are fitted."""

VERSIONS = "256 nodes ran NCCL 2.21, the others 2.18"
SHORT = "the machine's collectives are measured from 32 MB on"
KNOWN = {
    "h100_nt290: h100_10x8": "a fault, which the issue reports: two nodes reach a third of one's",
    "gb200_nvl72: all_reduce, 2 to 20": "two racks take as long as one; what limits 20 is not seen",
    "polaris_a100: all_reduce, 8 to 256": VERSIONS,
    "polaris_a100: all_reduce, 256 to 540": VERSIONS,
    "polaris_a100: all_gather, 256 to 540": VERSIONS,
    "polaris_a100: all_to_all, 256 to 540": VERSIONS,
}
"""Beginning of a row's name -> reason."""

CHANGE = "another algorithm or protocol"

AZURE = {
    "h100_80gb_measured": (
        *(0.07, 0.14, 0.27, 0.53, 0.95, 1.71, 2.72, 5.4, 10.86, 21.35, 43.7, 81.93, 128.73, 172.13),
        *(234.45, 295.53, 361.78, 400.61, 423.38, 438.46, 466.35, 472.36, 475.54, 478.87),
    ),
    "h200_141gb_measured": (
        *(0.06, 0.12, 0.23, 0.47, 0.93, 1.84, 3.72, 7.39, 14.75, 29.38, 52.96, 88.78, 138.44),
        *(181.94, 240.41, 300.91, 368.11, 412.45, 432.24, 442.72, 467.58, 472.57, 477.41, 479.98),
    ),
}
"""Machine -> bus bandwidth of all-reduces of 1 KiB, 2 KiB, ... 8 GiB on eight GPUs, in GB/s."""


class Times(NamedTuple):
    """Measured rows, and their times in place in us."""

    rows: list[Measurement]
    in_place: dict[Measurement, float]


def left_out_sizes(name: str, path: Path) -> Iterator[Row]:
    """Compare sizes that were left out of a fit, one by one, and by median."""
    table, times = TABLES[name], read(name, path)
    source = f"nccl-tests, {table.source}; this size left out of the calibration"
    neighbors = _neighbors(times.rows)
    for what, found in without_sizes(times.rows, table.rates).items():
        reasons = [_reason(one, times, neighbors[one.row]) for one in found]
        changes = sum(CHANGE in one for one in reasons)
        why = f"{changes} of {len(found)} sizes are next to {CHANGE}" if changes else ""
        yield from _medians(f"{name}: {what}, sizes left out", found, None, source, why)
        for (row, error), reason in zip(found, reasons, strict=True):
            shape = f"{row.shape.nodes} x {row.shape.per_node} GPUs"
            yield Row(
                f"{name}: {what} of {format_bytes(row.size_bytes)} on {shape}",
                row.time_us * (1 + error),
                row.time_us,
                "us",
                LARGE_SIZES if row.size_bytes > BAND else SMALL_SIZES,
                source,
                reason,
            )


def next_node_counts(name: str, path: Path) -> Iterator[Row]:
    """Compare a fit to one number of nodes with the next number."""
    table, times = TABLES[name], read(name, path)
    shapes: dict[tuple[str, int], set[Shape]] = defaultdict(set)
    for row in times.rows:
        if row.shape.nodes > 1:
            shapes[row.what, row.shape.per_node].add(row.shape)
    for (what, _), some in sorted(shapes.items()):
        for shape, further in pairwise(sorted(some)):
            known = [row for row in times.rows if (row.what, row.shape) == (what, shape)]
            asked = [row for row in times.rows if (row.what, row.shape) == (what, further)]
            found = residuals(fitted(known, table.rates), asked, table.rates)
            title = f"{name}: {what}, {shape.nodes} to {further.nodes} nodes"
            yield from _medians(title, found, NEXT_COUNT, f"nccl-tests, {table.source}")


def other_networks(name: str, path: Path, known_path: Path) -> Iterator[Row]:
    """Compare a fit to one machine with the same GPU on another network, above 1 MiB."""
    known, table = OTHER_NETWORKS[name], TABLES[name]
    fits = fitted(read(known, known_path).rows, TABLES[known].rates)
    asked = [row for row in read(name, path).rows if row.shape.nodes > 1 and row.size_bytes > BAND]
    found = residuals(fits, asked, replace(TABLES[known].rates, port_bps=table.rates.port_bps))
    title = f"{name}: {known} predicts it"
    yield from _medians(title, found, OTHER_NETWORK, f"nccl-tests, {table.source}")


def azure() -> Iterator[Row]:
    """Compare shipped machines with all-reduces on another's eight GPUs."""
    shape = Shape(1, 8)
    for name, bandwidths in AZURE.items():
        machine = load_machine(name)
        curves = machine.scale_up.curves("all_reduce")
        rows = [
            Measurement("all_reduce", shape, size, 2 * 7 / 8 * size / bandwidth / 1e3)
            for size, bandwidth in ((1 << 10 + k, one) for k, one in enumerate(bandwidths))
        ]
        found = residuals({("all_reduce", False): curves} if curves else {}, rows, Rates(1, 1))
        source = "Azure/AI-benchmarking-guide 0126c30, NDv5 Results.md; in place, NVLS"
        yield from _medians(f"{name}: all_reduce on Azure", found, OTHER_NETWORK, source, SHORT)


def _medians(
    title: str, found: Sequence[Residual], tolerance: Tolerance | None, source: str, why: str = ""
) -> Iterator[Row]:
    """Yield 1 plus the median error, up to and above 1 MiB."""
    why = next((why for name, why in KNOWN.items() if title.startswith(name)), why)
    for large, band in ((False, "up to 1 MiB"), (True, "above 1 MiB")):
        errors = [abs(error) for row, error in found if (row.size_bytes > BAND) is large]
        if errors:
            limit = tolerance or (LARGE_SIZES if large else SMALL_SIZES)
            name = f"{title}: 1 + median error {band}, {len(errors)} times"
            yield Row(name, 1 + median(errors), 1.0, "", limit, source, why)


def _neighbors(rows: Iterable[Measurement]) -> dict[Measurement, list[Measurement]]:
    """Return the row of the next smaller and of the next larger size, where there are any."""
    groups: dict[tuple[str, Shape], list[Measurement]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.size_bytes):
        groups[row.what, row.shape].append(row)
    found: dict[Measurement, list[Measurement]] = defaultdict(list)
    for group in groups.values():
        for smaller, larger in pairwise(group):
            found[smaller].append(larger)
            found[larger].append(smaller)
    return found


def _reason(found: Residual, times: Times, neighbors: Sequence[Measurement]) -> str:
    """Return what the table itself says of a size that is not predicted, or "".

    Within one algorithm and protocol, the time neither falls with the size nor grows faster, and
    a byte more takes as long on either side of a size.
    """
    row, error = found
    for one in (row, *neighbors):
        spread = times.in_place[one] / one.time_us - 1
        if abs(spread) > abs(error) / 2:
            size = format_bytes(one.size_bytes)
            return f"the machine's own spread: {size} took {spread:+.0%} in place"
    per_byte = []
    for other in neighbors:
        small, large = sorted((row, other), key=lambda one: one.size_bytes)
        growth, step = large.time_us / small.time_us, large.size_bytes / small.size_bytes
        if growth < 1 or growth > step:
            sizes = f"{format_bytes(small.size_bytes)} to {format_bytes(large.size_bytes)}"
            took = f"{small.time_us:,.0f} to {large.time_us:,.0f} us"
            how = "falls" if growth < 1 else "grows faster than the size"
            return f"from {sizes} the time {how}, {took}: {CHANGE}"
        per_byte.append((large.time_us - small.time_us) / (large.size_bytes - small.size_bytes))
    before, after = (1 / max(one, 1e-9) / 1e3 for one in per_byte)
    if not 0.5 < before / after < 2:
        rates = f"{before:,.3g} GB/s up to this size and {after:,.3g} beyond"
        return f"size over added time is {rates}: {CHANGE}"
    return ""


def read(name: str, path: Path) -> Times:
    """Read a table; scale-up networks of several nodes are its nodes."""
    times = Times([], {})
    try:
        for row in csv.DictReader(read_text(path).splitlines()):
            found = _measurement(row, TABLES[name].nodes_per_domain, path.name)
            if found:
                times.rows.append(found)
                times.in_place[found] = float(row["ip_time_us"])
    except (KeyError, TypeError, ValueError, ArithmeticError, csv.Error):
        raise InputError("not a table of collectives", file=str(path)) from None
    return times


def _measurement(row: Mapping[str, str], nodes_per_domain: int, file: str) -> Measurement | None:
    nodes, per_node = int(row["nodes"]), int(row["gpus_per_node"])
    together = min(nodes, nodes_per_domain)
    size, took_us = int(row["size_bytes"]), float(row["oop_time_us"])
    what = NAMES.get(row["collective"].replace("_", ""))
    if not what or size <= 0:
        return None
    if nodes % together or not 0 < took_us < math.inf or per_node < 1:
        raise ValueError
    return Measurement(what, Shape(nodes // together, per_node * together), size, took_us, file)


def cases() -> Iterator[Case]:
    yield Case("collectives_azure", azure, 0.1)
    for name in TABLES:
        compare = partial(left_out_sizes, name)
        yield Case(f"collectives_{name}", compare, 1, needs=(f"{name}.csv",))
    for name in NODE_COUNTS:
        compare = partial(next_node_counts, name)
        yield Case(f"node_counts_{name}", compare, 1, needs=(f"{name}.csv",))
    for name, known in OTHER_NETWORKS.items():
        compare = partial(other_networks, name)
        yield Case(f"network_of_{name}", compare, 1, needs=(f"{name}.csv", f"{known}.csv"))
