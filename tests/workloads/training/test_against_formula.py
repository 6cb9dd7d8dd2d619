"""The analytic step time against the simulated step, both from the same kernel times."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from task_times import run_alone

from netsim.workloads.job import load_job
from netsim.workloads.job.step import step_time
from netsim.workloads.training.sample import KINDS, SampleSize, sample_job
from netsim.workloads.training.step import operations_of

TIMED = frozenset(KINDS) - {"pp"}
"""Kinds timed by formula; pipeline transfers are simulated as flows."""

PLAIN = {"schedule": "1f1b", "virtual_stages": 1}
REPLICAS = {"dp": 8, "global_batch": 128}
HIDDEN = {"grad_reduce": True, "param_gather": True}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "interleaved": ("gpt3_175b", {"global_batch": 16}),
    "1f1b, full": ("gpt3_175b", {**PLAIN, "global_batch": 16, "recompute": "full", "sp": False}),
    "gpipe": ("gpt3_175b", {**PLAIN, "global_batch": 16, "schedule": "gpipe"}),
    "zb_h1": ("gpt3_175b", {**PLAIN, "global_batch": 16, "schedule": "zb_h1"}),
    "transfers hidden": ("gpt3_175b", {"global_batch": 16, "p2p_comm": True}),
    "tp hidden": ("gpt3_175b", {"global_batch": 16, "tp_comm": True}),
    "replicas": ("gpt3_175b", REPLICAS),
    "gradients hidden": ("gpt3_175b", {**REPLICAS, "grad_reduce": True}),
    "gradients hidden, 1f1b": ("gpt3_175b", {**PLAIN, **REPLICAS, "grad_reduce": True}),
    "gradients hidden, zb_h1": (
        "gpt3_175b",
        {**PLAIN, **REPLICAS, "schedule": "zb_h1", "zero": 1, "grad_reduce": True},
    ),
    "weights hidden": ("gpt3_175b", {**PLAIN, **REPLICAS, "zero": 1, **HIDDEN}),
    "no pipeline": ("megatron_22b", {}),
    "no tp": ("llama3_8b", {}),
    "experts": ("mixtral_8x7b", {}),
}


@pytest.mark.parametrize(("name", "changes"), CASES.values(), ids=CASES)
def test_simulated_step_time_matches_formula(name: str, changes: dict[str, Any]) -> None:
    """Both agree within 1 %, because no flows of the simulated part share a link."""
    job = load_job(name)
    # Simulated transfers have the port rate, so measured rates must not apply to the formula.
    up, out = (replace(link, measured=()) for link in (job.machine.scale_up, job.machine.scale_out))
    machine = replace(job.machine, scale_up=up, scale_out=out)
    layout = {key: value for key, value in changes.items() if hasattr(job.layout, key)}
    overlap = {key: value for key, value in changes.items() if hasattr(job.overlap, key)}
    job = replace(
        job,
        machine=machine,
        layout=replace(job.layout, **layout),
        overlap=replace(job.overlap, **overlap),
    )
    part = sample_job(job, SampleSize(tensor_ranks=1, replicas=job.layout.ep), formula=TIMED)
    rate = round(out.rate * out.efficiency.at(1e7))
    ends = [0]
    # Weights gathered during the next step lengthen that one, so the second step is measured.
    for steps in (1, 2) if job.overlap.param_gather else (1,):
        load = operations_of(part, steps).lower(np.arange(len(part.ranks)))
        ends.append(run_alone(load, rate_bps=lambda *_: rate).makespan)
    assert ends[-1] - ends[-2] == pytest.approx(step_time(job).total_ps, rel=0.01)
