"""Analytic model of prefill and decode: iteration times, and what fits in memory."""

from netsim.workloads.inference.deployment import Deployment
from netsim.workloads.inference.load import load_deployment
from netsim.workloads.inference.roofline import (
    IterationCost,
    all_reduce_bytes,
    compute_ps,
    iteration_cost,
    iteration_ps,
    kv_bytes_of_token,
    kv_capacity_tokens,
    network_ps,
    prompt_pairs,
)

__all__ = [
    "Deployment",
    "IterationCost",
    "all_reduce_bytes",
    "compute_ps",
    "iteration_cost",
    "iteration_ps",
    "kv_bytes_of_token",
    "kv_capacity_tokens",
    "load_deployment",
    "network_ps",
    "prompt_pairs",
]
