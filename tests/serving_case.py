"""Hand-written serving runs: a plan, and a log that a run of it could have."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from netsim.workloads.inference.deployment import IterationCost, iteration_cost, load_deployment
from netsim.workloads.serving.failures import Outages
from netsim.workloads.serving.plan import (
    DECODE,
    DECODE_START,
    DONE,
    FIRST_TOKEN,
    ITERATION,
    KV_TRANSFER_END,
    LOG,
    MIXED,
    PREFILL,
    PREFILL_START,
    Requests,
    ServingInstances,
    ServingPlan,
)

Row = dict[str, int]


def cost() -> IterationCost:
    """Return the cost of an iteration on an example instance."""
    return iteration_cost(
        load_deployment({"model": "llama3_8b", "machine": "h100_80gb", "options": {"tp": 2}})
    )


def plan_of(
    roles: Sequence[int], requests: Sequence[tuple[int, int, int]], hosts: int = 2, **more: Any
) -> ServingPlan:
    """Return a plan of instances of `hosts` hosts each and requests (arrival, prompt, output).
    Instance 0 runs every prefill, and the last instance every decode."""
    k, n = len(roles), len(requests)
    columns = np.array(requests, np.int64).reshape(-1, 3).T
    split = DECODE in roles
    plan: dict[str, Any] = {
        "instances": ServingInstances(
            np.array(roles, np.int8), np.arange(k + 1) * hosts, np.arange(k * hosts, dtype=np.int32)
        ),
        "requests": Requests(*columns),
        "prefill_instance": np.zeros(n, np.int32),
        "decode_instance": np.full(n, k - 1 if split else -1, np.int32),
        "costs": (cost(),) * 3,
        "ttft_ps": None,
        "tbt_ps": None,
        "kv_first_flow": np.arange(n) * (2 if split else 0),
        "kv_flows": np.full(n, 2 if split else 0),
    }
    return ServingPlan(**(plan | more))


def log_of(rows: Sequence[Row]) -> dict[str, np.ndarray]:
    """Return rows in the engine's log format: host by host, in order."""
    ordered = sorted(rows, key=lambda row: row["host"])
    return {
        name: np.array([row.get(name, -1 if name == "request" else 0) for row in ordered], np.int64)
        for name in ("host", "time_ps", *LOG)
    }


def row(host: int, time: int, what: int, request: int = -1, **more: int) -> Row:
    return {"host": host, "time_ps": time, "event": what, "request": request, **more}


def split_run() -> tuple[ServingPlan, list[Row]]:
    """Return two requests that are prefilled in sequence and decoded together.

    Request 0 arrives at 100 and gets 3 tokens at 300, 500 and 560; request 1 arrives at 150 and
    gets 4 tokens at 400, 560, 640 and 700.
    """
    plan = plan_of([PREFILL, DECODE], [(100, 10, 3), (150, 20, 4)])
    rows = [
        row(0, 200, PREFILL_START, 0),
        row(0, 300, ITERATION, start_ps=200, count=10, attention_pairs=50),
        row(0, 300, FIRST_TOKEN, 0),
        row(0, 300, PREFILL_START, 1),
        row(0, 400, ITERATION, start_ps=300, count=20, attention_pairs=200),
        row(0, 400, FIRST_TOKEN, 1),
        row(2, 440, KV_TRANSFER_END, 0),
        row(2, 440, DECODE_START, 0),
        row(2, 500, ITERATION, start_ps=440, decode_batch=1, context_tokens=11),
        row(2, 470, KV_TRANSFER_END, 1),
        row(2, 500, DECODE_START, 1),
        row(2, 560, ITERATION, start_ps=500, decode_batch=2, context_tokens=33),
        row(2, 560, DONE, 0, count=3),
        row(2, 640, ITERATION, start_ps=560, decode_batch=1, context_tokens=22),
        row(2, 700, ITERATION, start_ps=640, decode_batch=1, context_tokens=23),
        row(2, 700, DONE, 1, count=4),
    ]
    return plan, rows


def mixed_plan(
    requests: Sequence[tuple[int, int, int]], instances: int = 1, hosts: int = 2
) -> ServingPlan:
    return plan_of([MIXED] * instances, requests, hosts)


def lost_shares(outages: Outages, instances: int, until_ps: int) -> tuple[np.ndarray, ...]:
    """Return the fractions of time in which each instance is down, and up without one GPU."""
    of = outages
    ends = [np.minimum(one, until_ps) for one in (of.down_ps, of.up_ps, of.whole_ps)]
    parts = (ends[1] - ends[0], ends[2] - ends[1])
    return tuple(np.bincount(of.instance, part, instances) / until_ps for part in parts)
