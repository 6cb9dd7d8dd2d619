"""What the cases of this folder measure: jobs, deployments and calibrated curves against what
machines took, with sizes, node counts and machines that were left out of a calibration; collectives
on one switch against closed forms."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from netsim.common.inputs import read_text, read_toml
from netsim.conformance.networks import star
from netsim.errors import InputError
from netsim.frozen import frozen
from netsim.units import format_bytes
from netsim.validation.bed import GBPS, US, simulated
from netsim.validation.laws import CONTROL, PAYLOAD, Measured
from netsim.workloads.collectives import ALGORITHMS, closed_form_ps
from netsim.workloads.collectives.steps import CollectiveOptions, Wire
from netsim.workloads.inference.deployment import (
    LONG_PROMPT,
    Deployment,
    decode_ps,
    load_deployment,
    prefill_ps,
)
from netsim.workloads.job.calibration import (
    NAMES,
    Measurement,
    Rates,
    Residual,
    fitted,
    residuals,
    without_sizes,
)
from netsim.workloads.job.job import Job
from netsim.workloads.job.load import load_job, load_machine
from netsim.workloads.job.machine import Shape
from netsim.workloads.job.step import StepTime, step_time
from netsim.workloads.job.work import bytes_of_parameter, layer_held, stage_memory
from netsim.workloads.operations import Operations

LARGE = (
    "beyond 2,048 prompt tokens in an iteration, on four and eight GPUs: probably memory that the "
    "server allocates again (netsim/workloads/inference/README.md)"
)


STEPS = Path(__file__).parents[1] / "job/published.toml"
PS_PER_S = 1e12
GIB = 2**30


class MeasuredStep(NamedTuple):
    """A measured step and ours, by formula."""

    group: str
    name: str
    model: Any
    job: Job
    measured_s: float
    step: StepTime
    why: str = ""

    @property
    def seconds(self) -> float:
        return self.step.total_ps / PS_PER_S


@cache
def step_sources() -> dict[str, str]:
    """Return the source of each group of measured steps."""
    return {name: table["title"] for name, table in read_toml(STEPS)["group"].items()}


@cache
def measured_steps() -> tuple[MeasuredStep, ...]:
    tree = read_toml(STEPS)
    found = []
    for row in tree["row"]:
        name, model, group = row["name"], row["model"], tree["group"][row["group"]]
        parts = {key: row.get(key, group.get(key, {})) for key in PARTS}
        job = load_job({"name": name, "model": model, "layout": row["layout"], **parts}, fits=False)
        step, why = step_time(job), row.get("why", group.get("why", ""))
        took_s = _measured_s(row, job, step)
        found.append(MeasuredStep(row["group"], name, model, job, took_s, step, why))
    return tuple(found)


PARTS = ("machine", "precision", "overlap")  # parts of a job that a row has, or else its group


def _measured_s(row: dict[str, Any], job: Job, step: StepTime) -> float:
    """Return the seconds of a step from what a row tells: tokens/s of a GPU, MFU, or seconds."""
    if "tokens" in row:
        tokens = job.layout.global_batch * job.model.sequence
        return tokens / (float(row["tokens"]) * job.layout.gpus)
    if "mfu" in row:
        return step.mfu / float(row["mfu"]) * step.total_ps / PS_PER_S
    return float(row["seconds"])


def steps(group: str) -> Measured:
    """Predict the step times of one source."""
    for number, row in enumerate(measured_steps(), 1):
        if row.group == group:
            yield {
                "title": f"{row.name}: step on {row.job.layout.gpus:,} GPUs (row {number})",
                "ours": row.seconds,
                "theirs": row.measured_s,
                "source": step_sources()[group],
                "why": row.why,
                "question": "moe" if row.job.model.experts else "step",
            }


def memory() -> Measured:
    """Predict memory of the first source's models: parameters of layers, and activations."""
    source = next(iter(step_sources().values()))
    for table in read_toml(STEPS)["memory"]:
        for index, model in enumerate(table["models"]):
            selective = next(
                row.job for row in measured_steps() if row.job.layout.sp and row.model == model
            )
            plain = replace(selective, layout=replace(selective.layout, sp=False, recompute="none"))
            layers = len(selective.layers_of_stage(0))
            held = layer_held(selective, False).total * layers * bytes_of_parameter(selective)
            for what, key, ours in (
                ("parameters, optimizer", "parameters_gib", held),
                ("activations", "activations_gib", stage_memory(plain, 0).activations),
                (
                    "activations, sp, selective",
                    "selective_gib",
                    stage_memory(selective, 0).activations,
                ),
            ):
                yield {
                    "title": f"{model}: {what}",
                    "ours": ours / GIB,
                    "theirs": table[key][index],
                    "source": source,
                }


# --- iterations of served models ------------------------------------------------------------------

ITERATIONS = Path(__file__).parents[1] / "inference/published.toml"
PS_PER_MS = 1e9

PROMPT = 512  # tokens of each prompt in phase "prefills"
CONTEXT = PROMPT + 128 // 2  # mean context of a decoded token

PHASES = {"prefill": "prompt tokens", "prefills": "prompts", "decode": "sequences"}
"""Phases, and what the size of a measured iteration counts."""


@frozen
class MeasuredIteration:
    """A measured time, and ours by formula."""

    group: str
    model: str
    deployment: Deployment
    fitted: bool
    phase: str
    size: int
    measured_ms: float

    @property
    def large(self) -> bool:
        """Whether its prompts have more than `LONG_PROMPT` tokens in total."""
        tokens = {"prefill": self.size, "prefills": self.size * PROMPT, "decode": 0}[self.phase]
        return tokens > LONG_PROMPT

    @property
    def ms(self) -> float:
        """Our time, with the group's overheads."""
        return _time_ms(self.deployment, self.phase, self.size)


def _time_ms(deployment: Deployment, phase: str, size: int, context: int = CONTEXT) -> float:
    """Return the time of an iteration; `context` is that of each decoding sequence."""
    if phase == "decode":
        return decode_ps(deployment, size, context) / PS_PER_MS
    prompts, tokens = (1, size) if phase == "prefill" else (size, PROMPT)
    return prefill_ps(deployment, tokens, prompts) / PS_PER_MS


@cache
def iteration_sources() -> dict[str, dict[str, Any]]:
    """Return the source and setup of each group of measured iterations."""
    return dict(read_toml(ITERATIONS)["group"])


@cache
def measured_iterations() -> tuple[MeasuredIteration, ...]:
    return tuple(one for table in read_toml(ITERATIONS)["row"] for one in _iterations_of(table))


def _iterations_of(table: dict[str, Any]) -> Iterator[MeasuredIteration]:
    group = iteration_sources()[table["group"]]
    parts = {name: group[name] for name in ("machine", "overheads", "formats")}
    options = {"tp": table["tp"], "embeddings": True}
    deployment = load_deployment({"model": table["model"], "options": options, **parts})
    about = table["group"], table["model"], deployment, table.get("fitted", False)
    for phase in PHASES:
        for size, measured_ms in table.get(f"{phase}_ms", ()):
            yield MeasuredIteration(*about, phase, size, measured_ms)


def iterations(group: str, machine: str) -> Measured:
    """Predict iterations of one source that nothing was fitted to."""
    about = iteration_sources()[group]
    for row in measured_iterations():
        if row.group == group and not row.fitted:
            tp = row.deployment.tp
            yield {
                "title": f"{row.model} on {tp} {machine}: {row.size:,} {PHASES[row.phase]}",
                "ours": row.ms,
                "theirs": row.measured_ms,
                "source": about["title"],
                "why": LARGE if row.large and tp > 2 else about.get("why", ""),
            }


def formulas() -> Measured:
    """Predict iterations of which llm-analysis has formulas: 16 bits, full attention."""
    for table in read_toml(ITERATIONS)["formula"]:
        deployment = load_deployment(
            {
                "model": table["model"],
                "machine": table.get("machine", "a100_80gb"),
                "formats": dict.fromkeys(("weights", "kv", "activations", "compute"), "fp16"),
                "options": {"tp": table["tp"], "attention": "full", "embeddings": True},
                "overheads": table.get("overheads", {}),
            }
        )
        for phase, size in (("prefill", PROMPT), ("decode", 1)):
            ours = _time_ms(deployment, phase, size, PROMPT)
            title = f"{table['name']}: {phase}"
            yield {"title": title, "ours": ours, "theirs": table[f"{phase}_ms"]}


BAND = 1 << 20  # size up to which latencies count, and beyond which rates do

BANDS: tuple[dict[str, Any], ...] = (
    {"tolerance": 0.10, "because": "up to 1 MiB; latencies vary between runs"},
    {"tolerance": 0.05, "because": "above 1 MiB; pairs of nodes of one machine differ as much"},
)
"""Tolerances of sizes that were left out, up to and above BAND."""


class Table(NamedTuple):
    """A machine with a table: rates in Gbps of a GPU inside a domain and of its share of ports."""

    inside: int
    port: int
    source: str
    reduces: bool = False
    nodes_per_domain: int = 1

    @property
    def rates(self) -> Rates:
        return Rates(self.inside * GBPS, self.port * GBPS, self.reduces)


TABLES = {
    name: Table(**table)
    for name, table in read_toml(Path(__file__).with_name("measured_tables.toml")).items()
}
"""Tables of nccl-tests and rccl-tests, `NAME.csv`."""

CHANGE = "another algorithm or protocol"


def left_out_sizes(path: Path, name: str) -> Measured:
    """Predict sizes that were left out of a fit, one by one, and by median."""
    table, in_place = TABLES[name], read(name, path)
    source = f"nccl-tests, {table.source}; this size left out of the calibration"
    neighbors = _neighbors(in_place)
    for what, found in without_sizes(list(in_place), table.rates).items():
        reasons = [_reason(residual, in_place, neighbors[residual.row]) for residual in found]
        changes = sum(CHANGE in reason for reason in reasons)
        why = f"{changes} of {len(found)} sizes are next to {CHANGE}" if changes else ""
        for band, medians in _medians(f"{name}: {what}, sizes left out", found):
            yield {**medians, **BANDS[band], "source": source, "why": why}
        for (row, error), reason in zip(found, reasons, strict=True):
            shape = f"{row.shape.nodes} x {row.shape.per_node} GPUs"
            yield {
                "title": f"{name}: {what} of {format_bytes(row.size_bytes)} on {shape}",
                "ours": row.time_us * (1 + error),
                "theirs": row.time_us,
                **BANDS[row.size_bytes > BAND],
                "source": source,
                "why": reason,
            }


def next_node_counts(path: Path, name: str) -> Measured:
    """Predict the next number of nodes by a fit to one number."""
    table, rows = TABLES[name], read(name, path)
    shapes: dict[tuple[str, int], set[Shape]] = defaultdict(set)
    for row in rows:
        if row.shape.nodes > 1:
            shapes[row.what, row.shape.per_node].add(row.shape)
    for (what, _), some in sorted(shapes.items()):
        for shape, further in pairwise(sorted(some)):
            known = [row for row in rows if (row.what, row.shape) == (what, shape)]
            asked = [row for row in rows if (row.what, row.shape) == (what, further)]
            found = residuals(fitted(known, table.rates), asked, table.rates)
            title = f"{name}: {what}, {shape.nodes} to {further.nodes} nodes"
            for _, medians in _medians(title, found):
                yield {**medians, "source": f"nccl-tests, {table.source}"}


def other_networks(path: Path, known_path: Path, name: str, known: str) -> Measured:
    """Predict the same GPU on another network by a fit to one machine, above 1 MiB."""
    table = TABLES[name]
    fits = fitted(list(read(known, known_path)), TABLES[known].rates)
    asked = [row for row in read(name, path) if row.shape.nodes > 1 and row.size_bytes > BAND]
    found = residuals(fits, asked, replace(TABLES[known].rates, port_bps=table.rates.port_bps))
    for _, row in _medians(f"{name}: {known} predicts it", found):
        yield {**row, "source": f"nccl-tests, {table.source}"}


def azure(machines: Mapping[str, Sequence[float]]) -> Measured:
    """Predict all-reduces on another's eight GPUs by shipped machines. `machines` are the measured
    bus bandwidths in GB/s, of 1 KiB and each power of two after it."""
    shape = Shape(1, 8)
    for name, bandwidths in machines.items():
        curves = load_machine(name).scale_up.curves("all_reduce")
        rows = [
            Measurement("all_reduce", shape, size, 2 * 7 / 8 * size / bandwidth / 1e3)
            for size, bandwidth in ((1 << 10 + k, each) for k, each in enumerate(bandwidths))
        ]
        found = residuals({("all_reduce", False): curves} if curves else {}, rows, Rates(1, 1))
        for _, row in _medians(f"{name}: all_reduce on Azure", found):
            yield row


def _medians(title: str, found: Sequence[Residual]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield 1 plus the median error, up to and above 1 MiB, with the index of the band."""
    for band, text in enumerate(("up to 1 MiB", "above 1 MiB")):
        errors = [abs(error) for row, error in found if (row.size_bytes > BAND) is bool(band)]
        if errors:
            name = f"{title}: 1 + median error {text}, {len(errors)} times"
            row = {"title": name, "ours": 1 + median(errors), "theirs": 1.0, "unit": ""}
            yield band, row | {"question": ""}


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


def _reason(
    found: Residual, in_place: Mapping[Measurement, float], neighbors: Sequence[Measurement]
) -> str:
    """Return what the table itself says of a size that is not predicted, or "".

    Within one algorithm and protocol, the time neither falls with the size nor grows faster, and
    a byte more takes as long on either side of a size.
    """
    row, error = found
    for one in (row, *neighbors):
        spread = in_place[one] / one.time_us - 1
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


def read(name: str, path: Path) -> dict[Measurement, float]:
    """Return measured rows and their times in place in us; domains of several nodes are a node."""
    found = {}
    try:
        for row in csv.DictReader(read_text(path).splitlines()):
            nodes, per_node = int(row["nodes"]), int(row["gpus_per_node"])
            together = min(nodes, TABLES[name].nodes_per_domain)
            size, took_us = int(row["size_bytes"]), float(row["oop_time_us"])
            what = NAMES.get(row["collective"].replace("_", ""))
            if what and size > 0:
                if nodes % together or not 0 < took_us < math.inf or per_node < 1:
                    raise ValueError
                shape = Shape(nodes // together, per_node * together)
                measured = Measurement(what, shape, size, took_us, path.name)
                found[measured] = float(row["ip_time_us"])
    except (KeyError, TypeError, ValueError, ArithmeticError, csv.Error):
        raise InputError("not a table of collectives", file=str(path)) from None
    return found


RATE_BPS = 100 * GBPS


def collectives(algorithm: str, n: int = 6, chunk_bytes: int | None = None) -> Measured:
    """Measure all collectives of an algorithm among n GPUs."""
    for what in ALGORITHMS[algorithm].whats:
        size = 0 if what == "barrier" else 4 * n * PAYLOAD
        how = CollectiveOptions(algorithm, latency_ps=1_500_000, chunk_bytes=chunk_bytes, node=2)
        # Two links of 1 us, and a switch between them that sends the last packet once more.
        last_ps = ((PAYLOAD if size else 1) + CONTROL) * 8 * 10**12 // RATE_BPS
        wire = Wire(RATE_BPS, last_ps + 2 * US, PAYLOAD, CONTROL)
        ops = Operations(n)
        ops.collective(what, np.arange(n), size, how)
        load = ops.lower(np.arange(n))
        yield {
            "title": f"{algorithm}: {what} of {n} GPUs",
            "ours": simulated(star(n, RATE_BPS), load) / US,
            "theirs": closed_form_ps(what, n, size, wire, how) / US,
        }
