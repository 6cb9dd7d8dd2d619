"""The sample of a job that distorts a step least within a budget of time.

By formula: a sample's step is that of a job with its replicas and micro-batches, in which each step
of a collective also takes the delay of the network's links over the scale, since delays are not
scaled. Its distortion is the larger of two: how far its model FLOPs utilization is from the job's,
as a share, and how far its share of exposed communication.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.workloads.collectives import ONE_WAY
from netsim.workloads.job.step import StepTime, step_time
from netsim.workloads.operations import Wires
from netsim.workloads.training.sample import JobSample, SampleSize, sample_job

SCALES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)

SMALL = 0.03
"""Distortion for which no other sample is proposed."""


class Distortion(NamedTuple):
    """Model FLOPs utilization and exposed share of a sample, and its distortion."""

    mfu: float
    exposed: float
    most: float

    def __str__(self) -> str:
        return f"MFU {100 * self.mfu:.1f} %, exposed {100 * self.exposed:.1f} %"


def proposal(
    sample: JobSample, hosts: NDArray[np.int64], wires: Wires, budget_s: float, seconds: float
) -> str | None:
    """Return which sample distorts least in `budget_s`, and by how much this one does, in two
    sentences; None if this one hardly distorts and fits, or for a job of `dp_levels` or a sample
    of some stages.

    `hosts` are those of the sample's ranks; this sample takes `seconds`.
    """
    layout, payload_bytes = sample.job.layout, wires.payload_bytes
    if sample.ranks.pp < layout.pp or layout.dp_levels is not None:
        return None
    apart = sample.ranks.tp * sample.ranks.cp
    if hosts.size <= apart:
        return None
    delay_ps = wires.wire(ONE_WAY, hosts[[0, apart]]).delay_ps  # to the next replica or stage
    whole = replace(sample, micro_batches=layout.micro_batches, scale=1.0)
    target = shares(by_formula(whole, layout.replicas, delay_ps))
    own = distortion_of(sample, delay_ps, target)
    if own.most <= SMALL and seconds <= budget_s:
        return None
    per_packet = seconds / _packets(sample, payload_bytes)
    found: list[tuple[float, float, JobSample, Distortion]] = []
    for one in _smaller(sample):
        for scale in SCALES:
            scaled = replace(one, scale=scale)
            time = per_packet * _packets(scaled, payload_bytes)
            if time <= budget_s:
                distortion = distortion_of(scaled, delay_ps, target)
                found.append((distortion.most, time, scaled, distortion))
                break
    text = f"The job has {Distortion(*target, 0.0)} by formula, this sample {own}."
    if not found:
        return f"{text} No sample takes less than {budget_s:.0f} s."
    _, time, best, distortion = min(found, key=lambda one: one[:2])
    keys = {
        "replicas": best.ranks.dp,
        "micro_batches": best.micro_batches,
        "message_scale": best.scale,
    }
    named = ", ".join(f"{key} = {value:g}" for key, value in keys.items())
    least = f"{100 * distortion.most:.1f} %"
    return (
        f"{text} In {budget_s:.0f} s (--budget), {named} distorts least: {distortion}, "
        f"{least} off, about {time:.0f} s of simulation."
    )


def _smaller(sample: JobSample) -> Iterator[JobSample]:
    """Yield samples with halves of the replicas and of the micro-batches, at full scale."""
    layout = sample.job.layout
    how: dict[str, Any] = {"formula": sample.formula, "how": sample.how, "buckets": sample.buckets}
    for replicas in _halves(layout.replicas):
        for batches in _halves(layout.micro_batches):
            size = SampleSize(None, replicas, None, None, None, sample.ranks.tp, batches)
            try:
                yield sample_job(sample.job, size, **how)
            except InputError:  # not a multiple of what the schedule or the experts need
                continue


def _halves(n: int) -> list[int]:
    return [n >> k for k in range(n.bit_length()) if n % (1 << k) == 0]


def by_formula(sample: JobSample, replicas: int, delay_ps: int) -> StepTime:
    """Return the step of a job like a sample, by formula."""
    job = sample.job
    batch = sample.micro_batches * replicas * job.layout.micro_batch
    link = job.machine.scale_out
    latency = link.step_latency + round(delay_ps / sample.scale)
    machine = replace(job.machine, scale_out=replace(link, step_latency=latency, measured=()))
    layout = replace(job.layout, dp=replicas, global_batch=batch)
    return step_time(replace(job, layout=layout, machine=machine))


def shares(step: StepTime) -> tuple[float, float]:
    """Return model FLOPs utilization and the share of exposed communication."""
    return step.mfu, sum(step.exposed.values()) / step.total_ps


def distortion_of(sample: JobSample, delay_ps: int, target: tuple[float, float]) -> Distortion:
    """Return the distortion of a sample, whose job has the shares `target`."""
    mfu, exposed = shares(by_formula(sample, sample.ranks.dp, delay_ps))
    return Distortion(mfu, exposed, max(abs(mfu / target[0] - 1), abs(exposed - target[1])))


def _packets(sample: JobSample, payload_bytes: int) -> int:
    """Return about how many packets a step of a sample sends; collectives as by ring."""
    found = 1
    for one, times in sample.occurrences():
        if one.kind in sample.formula:
            continue
        sends, parts = (1, 1) if one.what == "send" else (one.n - 1, one.n)
        sends *= 1 + (one.what == "all_reduce")
        found += times * sends * -(-sample.bytes_of(one) // parts // payload_bytes)
    return found * len(sample.ranks) // sample.ranks.pp
