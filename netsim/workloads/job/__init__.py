"""Analytic model of a training job: compute times, messages, memory, step time."""

from netsim.workloads.job.job import Job
from netsim.workloads.job.load import load_job, presets
from netsim.workloads.job.messages import Message, group_sizes, messages, network_of
from netsim.workloads.job.work import LayerTimes, StageMemory, StageTimes, stage_memory, stage_times

__all__ = [
    "Job",
    "LayerTimes",
    "Message",
    "StageMemory",
    "StageTimes",
    "group_sizes",
    "load_job",
    "messages",
    "network_of",
    "presets",
    "stage_memory",
    "stage_times",
]
