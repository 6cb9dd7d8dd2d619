"""Models of jobs and deployments against what machines took."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from netsim.accuracy.cases import Case, Row, Tolerance
from netsim.errors import InputError
from netsim.inputs import locate
from netsim.units import format_bytes
from netsim.workloads.calibration.fit import Rates
from netsim.workloads.calibration.measured import NAMES, Measurement
from netsim.workloads.calibration.validate import without_sizes
from netsim.workloads.inference import validation as served
from netsim.workloads.job import validation as trained
from netsim.workloads.job.curves import Shape
from netsim.workloads.job.keys import read_part
from netsim.workloads.job.load import presets, read_toml
from netsim.workloads.job.machine import Machine

STEPS = Tolerance(0.10, "kernels and overlap are efficiencies; nothing is fitted to these rows")
MEMORY = Tolerance(0.001, "the same accounting; the figures are rounded")
ITERATIONS = Tolerance(0.10, "overheads are fitted to ten times of one deployment")
SMALL_SIZES = Tolerance(0.10, "up to 1 MiB; latencies vary between runs")
LARGE_SIZES = Tolerance(0.05, "above 1 MiB; pairs of nodes of one machine differ as much")
TABLES = {"h100_10x8": "h100_80gb", "polaris_a100": "a100_80gb"}
"""Table of measured collectives -> machine whose port rates it has."""

FORMULAS = Tolerance(0.10, "another model of the same iteration, with other details")

KNOWN = {
    "mtnlg": "30 % slower per micro-batch than row 5, of the same model: software or cluster",
}
MACHINES = {"h100": "H100", "a100": "A100", "other": "A100, FasterTransformer"}
LARGE = "beyond 2,048 prompt tokens in an iteration, on four and eight GPUs; cause unknown"


def steps(group: str) -> Iterator[Row]:
    """Compare step times of one source."""
    for row in trained.rows():
        if row.group == group:
            layout = row.job.layout
            name = f"{row.name}: step on {layout.gpus:,} GPUs (row {row.number})"
            source, why = trained.groups()[group], KNOWN.get(group, "")
            yield Row(name, row.seconds, row.measured_s, "s", STEPS, source, why)


def memory() -> Iterator[Row]:
    """Compare memory with the figures of the first source."""
    source = next(iter(trained.groups().values()))
    for row in trained.memory_rows():
        name = f"{row.model}: {row.what}"
        yield Row(name, row.gib, row.published_gib, "GiB", MEMORY, source)


def iterations(group: str) -> Iterator[Row]:
    """Compare iterations of one source that nothing was fitted to."""
    for row in served.rows():
        if row.group == group and not row.fitted:
            what = {"prefill": "prompt tokens", "prefills": "prompts", "decode": "sequences"}
            gpus = f"{row.deployment.tp} {MACHINES[group]}"
            name = f"{row.model} on {gpus}: {row.size:,} {what[row.phase]}"
            source, why = (
                served.groups()[group]["title"],
                LARGE if row.large and row.deployment.tp > 2 else "",
            )
            yield Row(name, row.ms, row.measured_ms, "ms", ITERATIONS, source, why)


def formulas() -> Iterator[Row]:
    """Compare iterations with llm-analysis."""
    for row in served.formulas():
        name = f"{row.name}: {row.phase}"
        yield Row(name, row.ms, row.stated_ms, "ms", FORMULAS, "llm-analysis")


def collectives(table: str, machine: str, path: Path) -> Iterator[Row]:
    """Compare collectives of sizes that were left out of a calibration with the others."""
    base = read_toml(locate(machine, Path(), presets("machines"), "machine"))
    link = read_part(Machine, base, "")
    rates = Rates(link.scale_up.rate, link.scale_out.rate, link.scale_up.in_network_reduction)
    rows = list(_measurements(path))
    for what, found in without_sizes(rows, rates).items():
        for (_, (nodes, per_node), size, took_us, _), error in found:
            yield Row(
                f"{table}: {what} of {format_bytes(size)} on {nodes} x {per_node} GPUs",
                took_us * (1 + error),
                took_us,
                "us",
                LARGE_SIZES if size > 1 << 20 else SMALL_SIZES,
                f"nccl-tests, {path.name}; this size left out of the calibration",
            )


def _measurements(path: Path) -> Iterator[Measurement]:
    """Yield the out-of-place times of a table of nccl-tests."""
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                shape = Shape(int(row["nodes"]), int(row["gpus_per_node"]))
                size, took_us = int(row["size_bytes"]), float(row["oop_time_us"])
                what = NAMES.get(row["collective"].replace("_", ""))
                if what and size:
                    yield Measurement(what, shape, size, took_us, path.name)
    except (OSError, KeyError, ValueError):
        raise InputError("not a table of collectives", file=str(path)) from None


def cases() -> Iterator[Case]:
    for table, machine in TABLES.items():
        measure = partial(collectives, table, machine)
        yield Case(f"collectives_{table}", measure, 30, needs=(f"{table}.csv",))
    for group in trained.groups():
        yield Case(f"steps_{group}", partial(steps, group), 2, quick=group == "megatron")
    yield Case("memory", memory, 1, quick=True)
    for group in served.groups():
        yield Case(f"iterations_{group}", partial(iterations, group), 1)
    yield Case("llm_analysis", formulas, 1)
