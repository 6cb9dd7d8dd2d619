"""Measurements for this folder's cases: jobs, deployments and calibrated curves against measured
times, with sizes, node counts and machines held out of a calibration; collectives on one switch
against closed forms."""

from __future__ import annotations

import csv
import math
from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from netsim.common.inputs import read_text, read_toml
from netsim.common.writing import write_text
from netsim.conformance.networks import star
from netsim.errors import InputError
from netsim.frozen import frozen
from netsim.model.builder import build_topology
from netsim.model.fabric import PacketFormat
from netsim.model.flows import FlowTable
from netsim.running.drive import drive
from netsim.units import format_bytes
from netsim.validation.bed import GBPS, US, Bed, simulated
from netsim.validation.laws import CONTROL, PAYLOAD, Measured
from netsim.workloads.collectives import ALGORITHMS, closed_form_ps
from netsim.workloads.collectives.steps import CollectiveOptions, Wire
from netsim.workloads.inference.deployment import (
    Deployment,
    decode_ps,
    load_deployment,
    prefill_ps,
)
from netsim.workloads.job.calibration import (
    CHANGE,
    NAMES,
    NINE_IN_TEN,
    Fits,
    Measurement,
    Rates,
    Residual,
    fitted,
    gaps,
    left_out,
    residuals,
    thirds,
    with_spreads,
)
from netsim.workloads.job.job import Job
from netsim.workloads.job.load import load_job, load_machine, with_changes
from netsim.workloads.job.machine import Shape
from netsim.workloads.job.step import StepTime, step_time
from netsim.workloads.job.work import bytes_of_parameter, layer_held, stage_memory
from netsim.workloads.operations import Operations

STEPS = Path(__file__).parents[1] / "job/published.toml"
PS_PER_S = 1e12
GIB = 2**30


class MeasuredStep(NamedTuple):
    """A measured step and ours, by formula; `tree` is the table of its job."""

    group: str
    name: str
    model: Any
    job: Job
    measured_s: float
    step: StepTime
    tree: dict[str, Any]

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
        table = {"name": name, "model": model, "layout": row["layout"], **parts}
        job = load_job(table, fits=False)
        step = step_time(job)
        took_s = _measured_s(row, job, step)
        found.append(MeasuredStep(row["group"], name, model, job, took_s, step, table))
    return tuple(found)


PARTS = ("machine", "precision", "overlap")  # parts of a job from a row, or else from its group

TOLERANCE = 0.1  # of steps and iterations


Changes = Mapping[str, Any]
"""New values of keys, for each table of a job or deployment that changes."""


def reason(
    ours: float, theirs: float, causes: Iterable[Changes], without: Callable[[Changes], float]
) -> str:
    """Return the first cause whose removal makes a value agree, and that value; else "".

    A cause has a text, `why`, and the changes that remove it. `without` computes the value with
    these changes.
    """
    for cause in causes if abs(ours / theirs - 1) > TOLERANCE else ():
        value = without({key: changes for key, changes in cause.items() if key != "why"})
        if abs(value / theirs - 1) <= TOLERANCE:
            return f"{cause['why']}: {value:.4g} ({value / theirs - 1:+.1%})"
    return ""


def step_without(table: Mapping[str, Any], changes: Mapping[str, Any]) -> float:
    """Return the seconds of a step of a job with changes in its tables."""
    return step_time(load_job(with_changes(table, changes), fits=False)).total_ps / PS_PER_S


def _measured_s(row: dict[str, Any], job: Job, step: StepTime) -> float:
    """Return the seconds of a step from a row's data: tokens/s of a GPU, MFU, or seconds."""
    if "tokens" in row:
        tokens = job.layout.global_batch * job.model.sequence
        return tokens / (float(row["tokens"]) * job.layout.gpus)
    if "mfu" in row:
        return step.mfu / float(row["mfu"]) * step.total_ps / PS_PER_S
    return float(row["seconds"])


def steps(group: str) -> Measured:
    """Predict the step times of one source."""
    causes = read_toml(STEPS)["group"][group].get("causes", ())
    for number, row in enumerate(measured_steps(), 1):
        if row.group == group:
            without = partial(step_without, row.tree)
            yield {
                "title": f"{row.name}: step on {row.job.layout.gpus:,} GPUs (row {number})",
                "ours": row.seconds,
                "theirs": row.measured_s,
                "source": step_sources()[group],
                "question": "moe" if row.job.model.experts else "step",
                "why": reason(row.seconds, row.measured_s, causes, without),
            }


MODEL = ("hidden", "heads", "layers", "sequence")

LAYOUT = ("tp", "dp", "pp", "micro_batch", "global_batch")


def predicted_steps(path: Path, file: str, job: Mapping[str, Any], causes: Any) -> Measured:
    """Compare predicted steps of `vtrain.csv` with the measured steps in a file's last column.

    `job` has the jobs' common keys, to find reasons.
    """
    with Path(__file__).with_name("vtrain.csv").open() as text:
        columns = next(csv.reader(text))[1:-1]
        rows = list(csv.DictReader(text, ("file", *columns, "seconds")))
    lines = [line.split(",") for line in read_text(path).splitlines()[1:]]
    try:
        took = {tuple(line[-len(columns) - 1 : -1]): float(line[-1]) / 1e3 for line in lines}
        found = [
            (row, took[tuple(row[name] for name in columns)]) for row in rows if row["file"] == file
        ]
    except (KeyError, ValueError):
        raise InputError("not vTrain's table of steps", file=str(path)) from None
    for row, theirs in found:
        own = {"model": MODEL, "layout": LAYOUT}
        of_row = {part: {name: int(row[name]) for name in names} for part, names in own.items()}
        without = partial(step_without, with_changes(job, of_row))
        ours = float(row["seconds"])
        yield {
            "title": "{layers} layers of {hidden}, {sequence} tokens, {gpus} GPUs: tp {tp}, "
            "dp {dp}, pp {pp}, batch {global_batch}, micro-batch {micro_batch}".format(**row),
            "ours": ours,
            "theirs": theirs,
            "why": reason(ours, theirs, causes, without),
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
"""Phases, and the unit of a measured iteration's size."""


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
    tree: Mapping[str, Any]  # the table of its deployment
    causes: Sequence[Changes]  # overheads of its group, and its own
    runs_ms: Sequence[float]  # its repetitions, if our time agrees with some

    @property
    def ms(self) -> float:
        """Our time, with the group's overheads."""
        return _time_ms(self.deployment, self.phase, self.size)

    @property
    def agrees(self) -> bool:
        return abs(self.ms / self.measured_ms - 1) <= TOLERANCE


def _time_ms(deployment: Deployment, phase: str, size: int, context: int = CONTEXT) -> float:
    """Return the time of an iteration; `context` is each decoding sequence's context."""
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
    tree = {"model": table["model"], "options": options, **parts}
    about = table["group"], table["model"], load_deployment(tree), table.get("fitted", False)
    causes = (*group.get("causes", ()), *table.get("causes", ()))
    for phase in PHASES:
        runs = dict(table.get(f"{phase}_runs_ms", ()))
        for size, measured_ms in table.get(f"{phase}_ms", ()):
            again = runs.get(size, ())
            yield MeasuredIteration(*about, phase, size, measured_ms, tree, causes, again)


def iterations(group: str, machine: str) -> Measured:
    """Predict iterations of one source; nothing was fitted to them."""
    for row in measured_iterations():
        if row.group == group and not row.fitted:
            yield {
                "title": f"{row.model} on {row.deployment.tp} {machine}: "
                f"{row.size:,} {PHASES[row.phase]}",
                "ours": row.ms,
                "theirs": row.measured_ms,
                "source": iteration_sources()[group]["title"],
                "why": "" if row.agrees else _iteration_reason(row),
            }


def _iteration_reason(row: MeasuredIteration) -> str:
    def without(changes: Mapping[str, Any]) -> float:
        return _time_ms(load_deployment(with_changes(row.tree, changes)), row.phase, row.size)

    if found := reason(row.ms, row.measured_ms, row.causes, without):
        return found
    if agree := [ms for ms in row.runs_ms if abs(row.ms / ms - 1) <= TOLERANCE]:
        runs = f"in {len(agree)} of {len(row.runs_ms)} runs it took {median(agree):.4g} ms"
        return f"{runs}; ours is {row.ms:.4g}"
    about = row.group, row.model, row.deployment.tp, "prefill", row.size * PROMPT
    for one in measured_iterations() if row.phase == "prefills" else ():
        if about == (one.group, one.model, one.deployment.tp, one.phase, one.size):
            why = f"ours is {one.ms:.4g}" if one.agrees else _iteration_reason(one)
            took = f"one prompt of as many tokens took {one.measured_ms:.4g} ms"
            return why and f"{took}; for it, {why}"
    return ""


def formulas(causes: Sequence[Mapping[str, Any]]) -> Measured:
    """Predict iterations that llm-analysis has formulas for: 16 bits, full attention."""
    for table in read_toml(ITERATIONS)["formula"]:
        deployment = {
            "model": table["model"],
            "machine": table.get("machine", "a100_80gb"),
            "formats": dict.fromkeys(("weights", "kv", "activations", "compute"), "fp16"),
            "options": {"tp": table["tp"], "attention": "full", "embeddings": True},
            "overheads": table.get("overheads", {}),
        }
        for phase, size in (("prefill", PROMPT), ("decode", 1)):

            def ours(changes: Mapping[str, Any], phase: str = phase, size: int = size) -> float:
                changed = with_changes(deployment, changes)  # noqa: B023
                return _time_ms(load_deployment(changed), phase, size, PROMPT)

            theirs, value = table[f"{phase}_ms"], ours({})
            why = reason(value, theirs, causes, ours)
            yield {
                "title": f"{table['name']}: {phase}",
                "ours": value,
                "theirs": theirs,
                "why": why,
            }


BAND = 1 << 20  # size up to which latencies matter, and beyond which rates do

BANDS: tuple[dict[str, Any], ...] = (
    {"tolerance": 0.10, "because": "up to 1 MiB; latencies vary between runs"},
    {"tolerance": 0.05, "because": "above 1 MiB; pairs of nodes of one machine differ as much"},
)
"""Tolerances for held-out sizes, up to and above BAND."""


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


Tested = tuple[Residual, dict[str, float]]
"""A held-out measurement, and the errors that remain in experiments, by their change.

Each removes a possible cause. Some rows agree by chance: with the error of another failing row in a
row's place, 11 of 104 have the same bend as another run instead of 38, 11 are on a line of one side
instead of 23, and 11 agree without a size instead of 20. Of failing rows, 35 of 104 agree in
repetitions, of the others 261 of 282 (2026-11-28).

These experiments explain no more than chance: linear interpolation, a power law, times that do not
fall with the size, the difference of the times in place, another run's time as the truth, and the
bend on another machine. The bend at other numbers of nodes explains 18 of 56 (8 by chance), but
only one of the twelve rows among them that have no reason."""


def left_out_sizes(path: Path, name: str) -> Measured:
    """Predict sizes held out of a fit: each size, the median error, and intervals."""
    table, in_place = TABLES[name], read(name, path)
    source = f"nccl-tests, {table.source}; this size left out of the calibration"
    by_what: dict[str, list[Tested]] = defaultdict(list)
    for tested in _tested(name, in_place):
        by_what[tested[0].row.what].append(tested)
    for what, found in by_what.items():
        for band, medians in _medians(f"{name}: {what}, sizes left out", [one for one, _ in found]):
            some = [one for one in found if (one[0].row.size_bytes > BAND) is bool(band)]
            yield {
                **medians,
                **BANDS[band],
                "source": source,
                "why": _median_why(some, band),
            }
        for one, left in found:
            shape = f"{one.row.shape.nodes} x {one.row.shape.per_node} GPUs"
            yield {
                "title": f"{name}: {what} of {format_bytes(one.row.size_bytes)} on {shape}",
                "ours": one.row.time_us * (1 + one.error),
                "theirs": one.row.time_us,
                **BANDS[one.row.size_bytes > BAND],
                "source": source,
                "why": _why(one, left),
            }
    yield from _intervals(f"{name}: left-out sizes", thirds(in_place), table)


def _tested(name: str, in_place: Mapping[Measurement, float]) -> Iterator[Tested]:
    """Yield the error of each inner size, from fits that hold out every third size."""
    rates, others = TABLES[name].rates, _other_runs(name)
    repeated = {"in place": {row[:3]: time_us for row, time_us in in_place.items()}, **others}
    for what, mirrored in MIRRORED.items():
        like = (row for row in in_place if row.what == mirrored)
        others[mirrored] = {(what, *row[1:3]): row.time_us for row in like}
    for rest, out in thirds(in_place):
        fits = fitted(rest, rates)
        errors: dict[tuple[Any, ...], list[float]] = defaultdict(list)
        for times in repeated.values():
            known = fitted(_with_times(rest, times), rates)
            for one in residuals(known, _with_times(out, times), rates):
                errors[one.row[:3]].append(one.error)
        for one in residuals(fits, out, rates):
            row, again = one.row, errors[one.row[:3]]
            near = sorted(each for each in rest if (each.what, each.shape) == (row.what, row.shape))
            run = f"in {len(again)} other runs, the median" if len(again) > 1 else "in place"
            yield (
                one,
                {
                    **_as_elsewhere(row, near, others),
                    **_by_pieces(row, near, fits, rates),
                    f"the machine's own spread: {run}": median(again),
                },
            )


def _why(one: Residual, left: Mapping[str, float]) -> str:
    """Return the first experiment that makes a failing measurement agree; else ""."""
    limit = BANDS[one.row.size_bytes > BAND]["tolerance"]
    agree = (f"{text}: {error:+.1%}" for text, error in left.items() if abs(error) <= limit)
    return next(agree, "") if abs(one.error) > limit else ""


Times = Mapping[tuple[Any, ...], float]
"""Times in us of a run by collective, shape and size."""

MIRRORED = {"all_gather": "reduce_scatter", "reduce_scatter": "all_gather"}
"""Collectives that send the same bytes around the same ring."""


def _other_runs(name: str) -> dict[str, Times]:
    """Return times of `NAME_again.csv`."""
    found: dict[str, dict[tuple[Any, ...], float]] = defaultdict(dict)
    path = Path(__file__).with_name(f"{name}_again.csv")
    for line in csv.DictReader(path.read_text().splitlines()) if path.exists() else ():
        what, *numbers = (line.pop(key) for key in AGAIN)
        nodes, per_node, size_bytes = map(int, numbers)
        for run, time_us in line.items():
            if time_us:
                found[run][what, Shape(nodes, per_node), size_bytes] = float(time_us)
    return {**found}


AGAIN = ("collective", "nodes", "gpus_per_node", "size_bytes")


def _with_times(rows: Iterable[Measurement], times: Times) -> list[Measurement]:
    return [row._replace(time_us=times[row[:3]]) for row in rows if row[:3] in times]


BEND = "the same bend in"


def _as_elsewhere(
    row: Measurement, like: Sequence[Measurement], runs: Mapping[str, Times]
) -> dict[str, float]:
    """Take the time from another run, scaled by the ratios of both runs at the next smaller and
    larger sizes; use the run whose two ratios are most similar."""
    at = bisect([each.size_bytes for each in like], row.size_bytes)
    ends, left = like[at - 1 : at + 1], dict[float, tuple[str, float]]()
    sizes = [math.log(each.size_bytes) for each in ends]
    for run, times in runs.items():
        there = _with_times([*ends, row], times)
        if len(there) == len(ends) + 1:
            logs = [math.log(a.time_us / b.time_us) for a, b in zip(ends, there, strict=False)]
            scale = math.exp(np.interp(math.log(row.size_bytes), sizes, logs))
            error = there[-1].time_us * scale / row.time_us - 1
            left[abs(logs[1] - logs[0])] = f"{BEND} {run}", error
    return dict([left[min(left)]] if left else ())


def _by_pieces(
    row: Measurement, like: Sequence[Measurement], fits: Fits, rates: Rates
) -> dict[str, float]:
    """Extend the line through the next two smaller or larger sizes if the algorithm changes in the
    gap around the row, but not between these two. If it changes on both sides of a neighbor,
    interpolate without that neighbor."""
    sizes, found, left = [each.size_bytes for each in like], list(gaps(like)), dict[str, float]()
    lows, at = {each.low_bytes for each in found}, bisect(sizes, row.size_bytes)
    if sizes[at - 1] in lows:
        curves = fits[row.what, row.shape.nodes > 1]
        times_ps = curves.times_ps(row.shape, row.size_bytes, rates.port_bps)
        text = f"from {format_bytes(sizes[at - 1])} to {format_bytes(sizes[at])}; with that of the"
        for time_ps, pair, side in (
            (times_ps[2], sizes[at - 2 : at] if at > 1 else (), "smaller"),
            (times_ps[3], sizes[at : at + 2], "larger"),
        ):
            if len(pair) == 2 and pair[0] not in lows:
                name = f"{CHANGE} begins somewhere {text} {side} sizes"
                left[name] = time_ps / 1e6 / row.time_us - 1
    for size in lows.intersection([each.high_bytes for each in found], sizes[at - 1 : at + 1]):
        others = [each for each in like if each.size_bytes != size]
        known, times = zip(*((each.size_bytes, each.time_us) for each in others), strict=True)
        name = f"{CHANGE} at {format_bytes(size)} alone; without that size"
        left[name] = float(np.interp(row.size_bytes, known, times)) / row.time_us - 1
    return left


def _median_why(found: Sequence[Tested], band: int) -> str:
    """Return the median error without sizes near a change, or in an experiment with all sizes, if
    that is within tolerance; else ""."""
    limit = BANDS[band]["tolerance"]
    if median(abs(one.error) for one, _ in found) <= limit:
        return ""
    rest = [abs(one.error) for one, left in found if CHANGE not in _why(one, left)]
    if rest and median(rest) <= limit:
        n = len(found) - len(rest)
        return f"without {n} of {len(found)} sizes where {CHANGE} begins: {1 + median(rest):.3f}"
    there = [abs(error) for _, left in found for text, error in left.items() if BEND in text]
    if len(there) == len(found) and median(there) <= limit:
        return f"{BEND} other runs: {1 + median(there):.3f}"
    return ""


def _intervals(
    title: str, splits: Iterable[tuple[list[Measurement], list[Measurement]]], table: Table
) -> Measured:
    """Count measurements inside 90 % intervals that a fit without them predicts."""
    inside, widths = 0, []
    for rest, out in splits:
        fits = with_spreads(fitted(rest, table.rates), left_out(rest, table.rates))
        for row in out:
            curves = fits.get((row.what, row.shape.nodes > 1))
            if curves is None:
                continue
            found = curves.estimate(row.shape, row.size_bytes, table.rates.port_bps)
            if found.low_ps is not None and found.high_ps is not None:
                inside += found.low_ps <= row.time_us * 1e6 <= found.high_ps
                widths.append(found.high_ps / found.low_ps)
    if n := len(widths):
        yield {
            "title": f"{title} within their 90 % intervals, {n} times",
            "ours": inside / n,
            "theirs": NINE_IN_TEN,
            "spread": (NINE_IN_TEN, 1.0),
            "tolerance": 2 * math.sqrt((1 - NINE_IN_TEN) / NINE_IN_TEN / n),
            "because": f"two standard errors of a share of {n}",
            "source": f"nccl-tests, {table.source}; ends of intervals differ by a factor of "
            f"{median(widths):.2f} in the median, {np.mean(widths):.2f} in the mean",
            "unit": "",
            "question": "",
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
    counts = sorted({row.shape.nodes for row in rows if row.shape.nodes > 1})
    splits = (
        (
            [row for row in rows if row.shape.nodes != nodes],
            [row for row in rows if row.shape.nodes == nodes],
        )
        for nodes in counts
    )
    if len(counts) > 2:
        yield from _intervals(f"{name}: left-out node counts", splits, table)


def other_networks(path: Path, known_path: Path, name: str, known: str) -> Measured:
    """Predict the same GPU on another network by a fit to one machine, above 1 MiB."""
    table = TABLES[name]
    fits = fitted(list(read(known, known_path)), TABLES[known].rates)
    asked = [row for row in read(name, path) if row.shape.nodes > 1 and row.size_bytes > BAND]
    found = residuals(fits, asked, replace(TABLES[known].rates, port_bps=table.rates.port_bps))
    for _, row in _medians(f"{name}: {known} predicts it", found):
        yield {**row, "source": f"nccl-tests, {table.source}"}


def of_preset(path: Path, name: str, machine: str) -> Measured:
    """Predict the table of another machine by a shipped one, above 1 MiB."""
    by_nodes: dict[int, list[Measurement]] = defaultdict(list)
    for row in read(name, path):
        by_nodes[row.shape.nodes].append(row)
    for nodes, rows in sorted(by_nodes.items()):
        for _, medians in _medians(
            f"{name}: {machine} on {nodes} nodes", _by_machine(machine, rows)
        ):
            yield {**medians, "source": f"nccl-tests, {TABLES[name].source}"}


def published(tables: Sequence[Mapping[str, Any]]) -> Measured:
    """Predict tables of all-reduces on full nodes by shipped machines."""
    for table in tables:
        machine, step = table["machine"], table.get("step", 2)
        shape = Shape(table["nodes"], load_machine(machine).domain_gpus)
        share = 2 * (shape.n - 1) / shape.n
        rows = [
            Measurement(
                "all_reduce", shape, size, share * size / each / 1e3 if "busbw" in table else each
            )
            for size, each in (
                (table["first"] * step**k, each)
                for k, each in enumerate(table.get("busbw") or table["times_us"])
            )
        ]
        title = f"{machine}: all_reduce on {table['at']}"
        for _, row in _medians(title, _by_machine(machine, rows)):
            yield row


def _by_machine(name: str, rows: Sequence[Measurement]) -> list[Residual]:
    """Return the errors of a shipped machine, with its own rates."""
    machine = load_machine(name)
    links = {False: machine.scale_up, True: machine.scale_out}
    fits = {
        ("all_reduce", between): curves
        for between, link in links.items()
        if (curves := link.curves("all_reduce"))
    }
    return residuals(fits, rows, Rates(machine.scale_up.rate, machine.scale_out.rate))


def _medians(title: str, found: Sequence[Residual]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield 1 plus the median error, up to and above 1 MiB, with the index of the band."""
    for band, text in enumerate(("up to 1 MiB", "above 1 MiB")):
        errors = [abs(one.error) for one in found if (one.row.size_bytes > BAND) is bool(band)]
        if errors:
            name = f"{title}: 1 + median error {text}, {len(errors)} times"
            row = {"title": name, "ours": 1 + median(errors), "theirs": 1.0, "unit": ""}
            yield band, row | {"question": ""}


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


def astra(network: Mapping[str, Sequence[object]], route: Sequence[int] = ()) -> Measured:
    """Measure when a chunk of 1 MiB has passed the NPUs of a route, in ns. Each NPU receives the
    whole chunk before it forwards it. Without a route, every NPU sends a chunk to every other NPU.

    `network` has the keys of ASTRA-sim's analytical back end, with a value per dimension.
    """
    with TemporaryDirectory() as folder:
        file = Path(folder, "network.yml")
        lines = (f"{key}: [ {', '.join(map(str, of))} ]\n" for key, of in network.items())
        write_text(file, "".join(lines))
        built = build_topology("astra", file=str(file))
    if route:
        n = len(route) - 1
        waits = np.maximum(np.arange(-1, n), 0), np.arange(n - 1)
        flows = FlowTable(route[:-1], route[1:], 2**20, 0, *waits)
    else:
        src, dst = np.nonzero(~np.eye(built.n_hosts, dtype=bool))
        flows = FlowTable(src, dst, 2**20)
    packets = PacketFormat(payload_bytes=1024, header_bytes=0)
    bed = Bed("datagram", built, fabric={"queue_bytes": "1TB"}, packets=packets)
    engine = bed.engine(flows)
    drive(engine)
    yield {"ours": float(engine.flow_states().done_ps.max()) / 1000}
