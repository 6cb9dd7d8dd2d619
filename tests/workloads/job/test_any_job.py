"""Jobs with random key changes: each is rejected with its key or has a consistent step time."""

import random

import pytest

from netsim.common.inputs import read_toml
from netsim.errors import InputError
from netsim.params import keys_of
from netsim.workloads.job import load_job, messages, presets, stage_memory
from netsim.workloads.job.load import PARTS, WITH_PRESETS
from netsim.workloads.job.step import step_time

COUNTS = (0, 1, 2, 3, 4, 5, 7, 8, 16, 18, 64, 100, 1000, 12345, 10**9, 10**13, -1)
WORDS = (
    *("full", "selective", "none", "interleaved", "gpipe", "zb_h1", "zb_h2", "1f1b", "latent"),
    *("multi_head", "paper", "hierarchical", "fp8", "fp4", "bf16", "fp32", "adam", "sgd", "x", ""),
)
OTHERS = (
    *(True, False, 0.5, 1.5, float("nan"), float("inf"), [], [1, 2, 3], {}, {"a": 1}),
    *([[0, 0.5]], [[0, 0.5], ["1MB", 0.9]], "10us", "1GB", "100Gbps", "2048GB/s", "1TFLOP/s"),
)


def changed(rng):
    """Return a preset job with one or two keys changed."""
    tree = read_toml(presets()[rng.choice(sorted(presets()))])
    for part in WITH_PRESETS:
        if isinstance(tree.get(part), str):
            tree[part] = {"preset": tree[part]}
    for _ in range(rng.choice((1, 1, 2))):
        part = rng.choice(list(PARTS))
        known = keys_of(PARTS[part])
        key = rng.choice(list(known))
        kind = rng.choice(
            (COUNTS, COUNTS, WORDS, OTHERS) if known[key].unit == "count" else (WORDS, OTHERS)
        )
        tree.setdefault(part, {})[key] = rng.choice(kind)
    return tree


def loaded(tree, fits):
    try:
        return load_job(tree, fits=fits), ()
    except InputError as error:
        return None, error.errors


def test_random_job_is_rejected_with_keys_or_has_consistent_step():
    for seed in range(2):
        rng = random.Random(seed)
        valid = 0
        for _ in range(100):
            tree = changed(rng)
            job, errors = loaded(tree, fits=rng.random() < 0.5)
            assert all(one.key for one in errors), errors
            if job is None:
                continue
            valid += 1
            step = step_time(job)
            parts = (step.compute_ps, step.recompute_ps, step.bubble_ps, step.optimizer_ps)
            assert sum(parts) + sum(step.exposed.values()) == pytest.approx(step.total_ps)
            assert min(*parts, *step.exposed.values(), 0.0) == 0.0
            assert 0 < step.mfu <= 1
            assert all(one.size_bytes > 0 and one.n > 1 for one in messages(job))
            assert stage_memory(job, 0).total > 0
        assert valid > 5
