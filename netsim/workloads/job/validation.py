"""The model against published step times and memory (published.toml)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

from netsim.common.inputs import read_toml
from netsim.workloads.job.job import Job
from netsim.workloads.job.load import load_job
from netsim.workloads.job.step import StepTime, step_time
from netsim.workloads.job.work import bytes_of_parameter, layer_held, stage_memory

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
    why: str = ""

    @property
    def seconds(self) -> float:
        return self.step.total_ps / PS_PER_S

    @property
    def error(self) -> float:
        """Ours over theirs, minus one."""
        return self.seconds / self.measured_s - 1


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
        parts = {
            name: row.get(name, group.get(name, {})) for name in ("machine", "precision", "overlap")
        }
        layout, model = row["layout"], row["model"]
        job = load_job({"name": row["name"], "model": model, "layout": layout, **parts}, fits=False)
        step = step_time(job)
        why = row.get("why", group.get("why", ""))
        measured_s = _measured_s(row, job, step)
        found.append(TrainingRow(number, row["group"], row["name"], job, measured_s, step, why))
    return tuple(found)


def _measured_s(row: dict[str, Any], job: Job, step: StepTime) -> float:
    """Return the seconds of a step from what a row tells."""
    if "tokens" in row:
        tokens = job.layout.global_batch * job.model.sequence
        return tokens / (float(row["tokens"]) * job.layout.gpus)
    if "mfu" in row:
        return step.mfu / float(row["mfu"]) * step.total_ps / PS_PER_S
    return float(row["seconds"])


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
