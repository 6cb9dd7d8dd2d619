"""Models of jobs and deployments against what machines took."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from netsim.common.inputs import read_toml
from netsim.validation.laws import Measured
from netsim.workloads.inference.deployment import (
    LONG_PROMPT,
    Deployment,
    decode_ps,
    load_deployment,
    prefill_ps,
)
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


# --- iterations of served models ------------------------------------------------------------------

ITERATIONS = Path(__file__).parents[1] / "inference/published.toml"
PS_PER_MS = 1e9

PROMPT = 512  # tokens of each prompt in phase "prefills"
CONTEXT = PROMPT + 128 // 2  # mean context of a decoded token

PHASES = {"prefill": "prompt tokens", "prefills": "prompts", "decode": "sequences"}
"""Phases, and what the size of a measured iteration counts."""


@dataclass(frozen=True)
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
