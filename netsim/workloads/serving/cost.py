"""The duration of an iteration, from the leader's record.

Compiled into the engine, as `instance.py` is; the formulas are those of
`netsim.workloads.inference.cost`.
"""

from netsim.workloads.inference.cost import IterationCost, compute_ps, iteration_ps
from netsim.workloads.serving.state import SHRUNK


def cost_of(host):
    """Return the cost model of the host's instance; a program's record can hold only numbers."""
    return IterationCost(
        layers=host.cost_layers,
        tp=host.cost_tp,
        prompt_row_ps=host.cost_prompt_row_ps,
        decode_row_ps=host.cost_decode_row_ps,
        weights_ps=host.cost_weights_ps,
        experts_ps=host.cost_experts_ps,
        expert_share=host.cost_expert_share,
        pair_ps=host.cost_pair_ps,
        context_ps=host.cost_context_ps,
        kv_ps=host.cost_kv_ps,
        activation_ps=host.cost_activation_ps,
        head_read_ps=host.cost_head_read_ps,
        head_row_ps=host.cost_head_row_ps,
        layers_ps=host.cost_layers_ps,
        iteration_ps=host.cost_iteration_ps,
        sequence_ps=host.cost_sequence_ps,
        prefill_floor_ps=host.cost_prefill_floor_ps,
        long_prompt_row_ps=host.cost_long_prompt_row_ps,
        one_roofline=host.cost_one_roofline != 0,
        async_launch=host.cost_async_launch != 0,
        all_reduces=host.cost_all_reduces,
        all_reduce_ps=host.cost_all_reduce_ps,
        reduced_row_ps=host.cost_reduced_row_ps,
        row_bytes=host.cost_row_bytes,
        overlap=host.cost_overlap != 0,
    )


def duration_of(env):
    """Return the duration of the iteration that begins.

    Reads from a memory pool overlap with compute: the longer counts. A shrunk instance spreads the
    work of the missing GPU over the others.
    """
    host = env.host
    cost = cost_of(host)
    rows = host.tokens + host.batch
    duration = iteration_ps(cost, rows, host.pairs, host.batch, host.context)
    reading = int(host.reading_ps + host.token_reading_ps * host.context)
    if cost.overlap:
        duration = max(duration, reading)
    else:
        computing = compute_ps(cost, rows, host.pairs, host.batch, host.context)
        duration += max(0, reading - computing)
    if host.state == SHRUNK:
        duration = duration * host.size // (host.size - 1)
    return duration
