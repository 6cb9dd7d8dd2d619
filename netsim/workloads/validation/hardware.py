"""Models of jobs and deployments against what machines took."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from netsim.common.inputs import read_toml
from netsim.validation.laws import Measured
from netsim.workloads.inference import validation as served
from netsim.workloads.job.job import Job
from netsim.workloads.job.load import load_job
from netsim.workloads.job.step import StepTime, step_time
from netsim.workloads.job.work import bytes_of_parameter, layer_held, stage_memory

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


def iterations(group: str, machine: str) -> Measured:
    """Predict iterations of one source that nothing was fitted to."""
    counted = {"prefill": "prompt tokens", "prefills": "prompts", "decode": "sequences"}
    about = served.groups()[group]
    for row in served.rows():
        if row.group == group and not row.fitted:
            tp = row.deployment.tp
            yield {
                "title": f"{row.model} on {tp} {machine}: {row.size:,} {counted[row.phase]}",
                "ours": row.ms,
                "theirs": row.measured_ms,
                "source": about["title"],
                "why": LARGE if row.large and tp > 2 else about.get("why", ""),
            }


def formulas() -> Measured:
    """Predict iterations of which llm-analysis has formulas."""
    for row in served.formulas():
        yield {"title": f"{row.name}: {row.phase}", "ours": row.ms, "theirs": row.stated_ms}
