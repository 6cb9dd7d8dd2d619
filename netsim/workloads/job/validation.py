"""The model against published step times and memory (published.toml)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

from netsim.workloads.job.job import Job
from netsim.workloads.job.load import load_job, read_toml
from netsim.workloads.job.memory import bytes_of_parameter, layer_held, stage_memory
from netsim.workloads.job.step import StepTime, step_time

FILE = Path(__file__).with_name("published.toml")
PS_PER_S = 1e12
GIB = 2**30


@dataclass(frozen=True)
class TrainingRow:
    """A measured step and ours."""

    number: int
    group: str
    name: str
    job: Job
    measured_s: float
    step: StepTime

    @property
    def seconds(self) -> float:
        return self.step.total_ps / PS_PER_S

    @property
    def error(self) -> float:
        """Ours over theirs, minus one."""
        return self.seconds / self.measured_s - 1

    @property
    def measured_mfu(self) -> float:
        """MFU of the measured time, by our count of FLOP."""
        return self.step.mfu * self.seconds / self.measured_s


@dataclass(frozen=True)
class MemoryRow:
    """Published memory per GPU and ours, in GiB."""

    model: str
    what: str
    published_gib: float
    gib: float

    @property
    def error(self) -> float:
        """Ours over theirs, minus one."""
        return self.gib / self.published_gib - 1


@cache
def groups() -> dict[str, str]:
    """Return the source of each group of rows."""
    return {name: table["title"] for name, table in read_toml(FILE)["group"].items()}


@cache
def rows() -> tuple[TrainingRow, ...]:
    """Return all measured steps."""
    tree = read_toml(FILE)
    found = []
    for number, row in enumerate(tree["row"], 1):
        group = tree["group"][row["group"]]
        parts = {name: group[name] for name in ("machine", "precision")}
        job = load_job(
            {"name": row["name"], "model": row["model"], "layout": row["layout"], **parts}
        )
        step = step_time(job)
        found.append(TrainingRow(number, row["group"], row["name"], job, row["seconds"], step))
    return tuple(found)


def errors(group: str) -> tuple[float, float]:
    """Return the mean and largest absolute error of a group."""
    all_of = [abs(row.error) for row in rows() if row.group == group]
    return mean(all_of), max(all_of)


@cache
def memory_rows() -> tuple[MemoryRow, ...]:
    """Return the memory of the first group's models; parameters of layers only."""
    found = []
    for table in read_toml(FILE)["memory"]:
        for index, model in enumerate(table["models"]):
            selective = next(
                row.job for row in rows() if row.job.layout.sp and _model(row) == model
            )
            layers = len(selective.layers_of_stage(0))
            held = layer_held(selective, False).total * layers * bytes_of_parameter(selective)
            plain = _without(selective)
            for what, published, ours in (
                ("parameters, optimizer", table["parameters_gib"], held),
                ("activations", table["activations_gib"], stage_memory(plain, 0).activations),
                (
                    "activations, sp, selective",
                    table["selective_gib"],
                    stage_memory(selective, 0).activations,
                ),
            ):
                found.append(MemoryRow(model, what, published[index], ours / GIB))
    return tuple(found)


def _model(row: TrainingRow) -> Any:
    return read_toml(FILE)["row"][row.number - 1]["model"]


def _without(job: Job) -> Job:
    """Return the job without sequence parallelism and recomputation."""
    return replace(job, layout=replace(job.layout, sp=False, recompute="none"))


TRACED = 6
"""Row for `trace`: one of the largest errors, with every part of a step."""


@cache
def trace() -> tuple[tuple[str, float], ...]:
    """Return the step time of the traced row with one assumption changed at a time."""
    job = rows()[TRACED - 1].job
    machine = job.machine
    matrix, up = machine.matrix, machine.scale_up
    capped = replace(matrix.efficiency, shares=tuple(min(0.9, x) for x in matrix.efficiency.shares))
    changes = {
        "as it is": job,
        "no head, no embedding": replace(job, model=replace(job.model, vocabulary=job.layout.tp)),
        "matrices at 90 % of the peak at most": _on(job, matrix=replace(matrix, efficiency=capped)),
        "memory traffic hidden by compute": _on(job, memory_overlap=True),
        "reduce-scatter and all-gather by their closed form": _on(
            job, scale_up=replace(up, factors=())
        ),
        "inputs gathered once more, hidden": replace(
            job, layout=replace(job.layout, regather=False)
        ),
        "pipeline transfers hidden": replace(job, overlap=replace(job.overlap, p2p_comm=True)),
    }
    return tuple((what, step_time(one).total_ps / PS_PER_S) for what, one in changes.items())


def _on(job: Job, **changes: Any) -> Job:
    """Return the job on a changed machine."""
    return replace(job, machine=replace(job.machine, **changes))
