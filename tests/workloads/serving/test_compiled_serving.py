"""Compiled serving runs against queueing theory and against plain Python.

An instance that computes one prompt at a time is a single server. The transport and the fabric are
those of `serving_small`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netsim.experiment import Experiment, Point
from netsim.model.columns import Ints
from netsim.running.point import simulate
from netsim.workloads.inference.deployment import (
    iteration_cost,
    iteration_ps,
    load_deployment,
    prompt_pairs,
)
from netsim.workloads.serving.plan import LOST, PREFILL_START

LOAD = 0.6
REQUESTS = 100_000
EXPERIMENT = """
name = "queue"
transport = "ndp"
[topology]
kind = "fat_tree"
hosts_per_leaf = 8
leaves = 2
host_rate = "400Gbps"
[traffic]
kind = "serving"
deployment = "llama3_70b_h100"
prefill_instances = 1
decode_instances = 1
max_batch = 1
"""
"""One instance of each role. Requests of one token end where they are prefilled."""


def point(folder: Path, *more: str) -> Point:
    """Return the experiment's point with these lines added to `[traffic]`."""
    file = folder / "queue.toml"
    file.write_text(EXPERIMENT + "\n".join(more) + "\n")
    (one,) = Experiment.load(file).points()
    return one


def takes_ps(prompt: int) -> int:
    """Return the time of an iteration that prefills this prompt."""
    cost = iteration_cost(load_deployment("llama3_70b_h100"))
    return iteration_ps(cost, prompt, prompt_pairs(True, 0, prompt), 0, 0)


def waits(one: Point) -> tuple[Ints, dict[str, Any]]:
    """Return the time from arrival to prefill start of each request, and the request table."""
    result = simulate(one, threads=1)
    assert result.complete
    assert result.log is not None
    assert result.requests is not None
    began = result.log["event"] == PREFILL_START
    start_ps = np.empty(result.requests["request"].size, np.int64)
    start_ps[result.log["request"][began]] = result.log["time_ps"][began]
    return start_ps - result.requests["arrival_ps"], result.requests


def lindley_waits_ps(arrival_ps: Sequence[int], service_ps: Sequence[int]) -> list[int]:
    """Return the waiting times of a single server, by Lindley's recursion."""
    found, free_ps = [], 0
    for at, takes in zip(arrival_ps, service_ps, strict=True):
        start = max(at, free_ps)
        found.append(start - at)
        free_ps = start + takes
    return found


def pollaczek_khinchine_ps(rate_per_ps: float, *service_ps: int) -> float:
    """Return the mean wait of an M/G/1 queue with these service times, equally likely."""
    times = np.array(service_ps, np.float64)
    load = rate_per_ps * times.mean()
    return float(rate_per_ps * (times**2).mean() / (2 * (1 - load)))


@pytest.mark.slow
@pytest.mark.parametrize("lengths", [(1500,), (300, 3000)])
def test_prompt_waits_match_md1_and_mg1_queues(tmp_path: Path, lengths: tuple[int, ...]) -> None:
    takes = tuple(map(takes_ps, lengths))
    rate = LOAD / float(np.mean(takes))
    prompt = np.random.default_rng(3).choice(lengths, REQUESTS)
    rows = "\n".join(f"{at},{tokens},1" for at, tokens in enumerate(prompt.tolist()))
    (tmp_path / "trace.csv").write_text(f"arrival_ms,prompt_tokens,output_tokens\n{rows}\n")
    asked = f"requests = {REQUESTS}", f"rate = {rate * 1e12}", "token_budget = 3000"
    found, requests = waits(
        point(tmp_path, *asked, 'length_distribution = "trace"', 'trace = "trace.csv"')
    )
    assert requests["prompt_tokens"].tolist() == prompt.tolist()
    service = np.array(takes)[np.searchsorted(lengths, prompt)].tolist()
    assert found.tolist() == lindley_waits_ps(requests["arrival_ps"].tolist(), service)
    assert abs(found.mean() / pollaczek_khinchine_ps(rate, *takes) - 1) < 0.03


SPLIT = """
name = "split"
transport = "ndp"
[topology]
kind = "fat_tree"
hosts_per_leaf = 4
leaves = 2
host_rate = "100Gbps"
[traffic]
kind = "serving"
requests = 12
rate = 3000.0
prompt = 200
output = 5
token_budget = 300
{more}
[traffic.deployment]
model = {{ layers = 2, hidden = 64, heads = 24, head_size = 8, kv_heads = 8, feed_forward = 128, \
sequence = 64, vocabulary = 1024 }}
machine = {{ memory = "1GB", memory_rate = "1TB/s", domain_gpus = 8, \
matrix = {{ peak = {{ fp8 = "1TFLOP/s" }} }}, scale_up = {{ rate = "800Gbps" }}, \
scale_out = {{ rate = "100Gbps" }} }}
options = {{ tp = 2 }}
overheads = {{ iteration_overhead = "100us" }}
"""


@pytest.mark.parametrize(
    "more",
    [
        'prefill_instances = 2\ndecode_instances = 2\nkv_transfer = "layerwise"\n'
        'mtbf = "10ms"\nrepair_time = "300us"',
        'prefill_instances = 2\ndecode_instances = 1\nkv_transfer = "layerwise"\n'
        'all_reduces = "packets"\npool_hosts = 2\npooled = "kv"',
    ],
    ids=["caches and failures", "all-reduces and a pool"],
)
def test_compiled_and_threaded_runs_match_plain_python(
    more: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "split.toml"
    file.write_text(SPLIT.format(more=more).replace("\\\n", ""))
    (one,) = Experiment.load(file).points()
    compiled = [simulate(one, threads=n).hash for n in (1, 2)]
    monkeypatch.setattr("netsim.engine.engine.jit_enabled", lambda: False)
    plain = simulate(one)
    assert plain.complete
    assert plain.log is not None
    assert (plain.log["event"] == LOST).any() == ("mtbf" in more)
    assert [plain.hash] * 2 == compiled
