"""Deployments: files, presets and random tables."""

from __future__ import annotations

import random

import pytest
from raises_input import raises_input

from netsim.common.inputs import read_toml
from netsim.errors import InputError
from netsim.limits import INT64
from netsim.params import keys_of
from netsim.workloads.inference import (
    all_reduce_bytes,
    iteration_cost,
    iteration_ps,
    kv_bytes_of_token,
    kv_capacity_tokens,
    load_deployment,
    network_ps,
    prompt_pairs,
)
from netsim.workloads.inference.limits import PHASES, best_batch, best_size
from netsim.workloads.inference.load import PARTS, with_tp
from netsim.workloads.job.load import WITH_PRESETS, presets


def table(**parts):
    return {"model": "llama3_70b", "machine": "h100", **parts}


def test_deployment_presets_load():
    for name in presets("deployments"):
        assert load_deployment(name).tp > 0


@pytest.mark.parametrize("name", presets("overheads"))
def test_overhead_presets_load(name):
    assert load_deployment(table(overheads=name)).overheads.layer_overhead > 0


def test_deployment_file_is_loaded_and_checked(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('model = "llama3_70b"\nmachine = "lite"\n[options]\ntp = 16\n')
    found = load_deployment("mine.toml", tmp_path)
    assert (found.name, found.tp, found.machine.sms) == ("mine", 16, 33)
    file.write_text('model = "llama3_70b"\nmachine = "lite"\n[options]\ntp = 2\n')
    with raises_input("mine.toml", "GPU", "20GB", key="options.tp"):
        load_deployment("mine.toml", tmp_path)


def test_unspecified_tp_must_be_chosen():
    one = load_deployment(table())
    with raises_input(key="options.tp"):
        assert one.tp
    found = with_tp(one, 4)
    assert found is not None
    assert found.tp == 4
    assert with_tp(one, 16) is None


def test_kv_heads_are_shared_by_gpus_that_they_do_not_divide():
    odd = {"preset": "llama3_70b", "heads": 48, "kv_heads": 6, "head_size": 128}
    load_deployment(table(model=odd, options={"tp": 8, "kv_replicated": False}))


COUNTS = (0, 1, 2, 3, 4, 7, 8, 16, 32, 64, 100, 1000, 12345, 10**9, 10**13, -1)
WORDS = ("ring", "direct", "causal", "full", "latent", "multi_head", "fp4", "fp8", "fp16", "x", "")
OTHERS = (
    *(True, False, 0.01, 0.5, 1.5, 1e-12, float("nan"), float("inf"), [], {}, {"a": 1}),
    *("10us", "1s", "1GB", "1TB", "100Gbps", "2048GB/s", "1TFLOP/s"),
)


def changed(rng):
    """Return a preset with a random model and up to two keys changed."""
    tree = read_toml(rng.choice(list(presets("deployments").values())))
    tree["model"] = rng.choice(sorted(presets("models")))
    for part in WITH_PRESETS:
        if isinstance(tree.get(part), str):
            tree[part] = {"preset": tree[part]}
    for _ in range(rng.choice((0, 1, 1, 2))):
        part = rng.choice(list(PARTS))
        known = keys_of(PARTS[part])
        key = rng.choice(list(known))
        kind = rng.choice(
            (COUNTS, COUNTS, WORDS, OTHERS) if known[key].unit == "count" else (WORDS, OTHERS)
        )
        tree.setdefault(part, {})[key] = rng.choice(kind)
    return tree


def loaded(tree):
    try:
        return load_deployment(tree), ()
    except InputError as error:
        return None, error.errors


def test_random_deployment_is_rejected_or_gives_valid_times():
    for seed in range(2):
        rng = random.Random(seed)
        valid = 0
        for _ in range(150):
            one, errors = loaded(changed(rng))
            assert all(each.key for each in errors), errors
            if one is None:
                continue
            valid += 1
            for phase in PHASES:
                best_size(one, phase)
            if not one.options.tp:
                continue
            cost = iteration_cost(one)
            assert kv_capacity_tokens(one) > 0
            assert kv_bytes_of_token(one) > 0
            parts = [network_ps(cost, 1500), network_ps(cost, 3000)]
            times = [iteration_ps(cost, n, prompt_pairs(True, 0, n), 0, 0) for n in (1500, 3000)]
            times += [iteration_ps(cost, n, 0, n, 1500 * n) for n in (5000, 10_000)]
            assert 0 < times[0] <= times[1]
            assert 0 < times[2] <= times[3]
            assert parts[0] <= parts[1] <= times[1]
            assert all(isinstance(value, int) for value in (*times, all_reduce_bytes(cost, 3)))
            most = kv_capacity_tokens(one)
            assert iteration_ps(cost, most, prompt_pairs(True, 0, most), 0, 0) < INT64
            assert best_batch(one, "decode").capacity_tokens > 0
        assert valid > 20
