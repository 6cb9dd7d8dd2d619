"""Prefill equals the forward pass of training: both models count the same FLOPs and messages."""

from dataclasses import replace

import pytest

from netsim.workloads.inference import iteration_cost, load_deployment, network_ps, prompt_pairs
from netsim.workloads.inference.roofline import compute_ps
from netsim.workloads.job import load_job
from netsim.workloads.job.machine import Efficiency, Link
from netsim.workloads.job.work import layer_kernels

MODELS = ("llama3_70b", "gpt3_175b", "llama3_405b", "mixtral_8x7b", "deepseek_v3", "bloom_176b")


def forward_flops(model):
    """Return the model and its matrix FLOPs in a training forward pass of one sequence."""
    job = load_job(
        {"model": model, "machine": "h100_80gb", "layout": {"global_batch": 1}}, fits=False
    )
    shape = job.model
    layers = {True: shape.moe_layers, False: shape.layers - shape.moe_layers}
    return shape, sum(
        n * kernel.count * kernel.forward.flops
        for experts, n in layers.items()
        if n
        for kernel in layer_kernels(job, experts)
        if kernel.unit != "vector"
    )


def test_prefill_flops_equal_training_forward_pass():
    for model in MODELS:
        shape, expected = forward_flops(model)
        machine = {"preset": "h100", "memory": "2TB", "memory_rate": "100000GB/s"}
        one = load_deployment({"model": model, "machine": machine, "options": {"tp": 1}})
        tokens, causal = shape.sequence, shape.attention_flops == 2
        pairs = prompt_pairs(causal, 0, tokens)
        found = compute_ps(iteration_cost(one), tokens, pairs, 0, 0)
        assert found * 2000e12 / 1e12 == pytest.approx(expected, rel=1e-9)


def test_all_reduce_time_equals_training_ring():
    for tp in [2, 4, 8]:
        overheads = {"network_efficiency": 0.65, "step_latency": "3.4us"}
        one = load_deployment(
            {
                "model": "llama3_70b",
                "machine": "h100",
                "options": {"tp": tp},
                "overheads": overheads,
            }
        )
        link = one.machine.scale_up
        assert isinstance(link, Link)
        link = replace(link, efficiency=Efficiency((0.0,), (0.65,)), step_latency=3_400_000)
        expected = 160 * link.time_ps("all_reduce", tp, 1500 * 8192)
        assert network_ps(iteration_cost(one), 1500) == pytest.approx(expected, abs=1)
