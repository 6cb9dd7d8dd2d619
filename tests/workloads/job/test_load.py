"""Job files and presets, plans, and values of the paper."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from raises_input import raises_input

from netsim.common.inputs import read_toml
from netsim.errors import InputError
from netsim.params import keys_of
from netsim.workloads.job.load import PARTS, WITH_PRESETS, load_job, presets
from netsim.workloads.job.messages import messages
from netsim.workloads.job.paper import (
    AGREEMENTS,
    BASE,
    JOBS,
    LOSS_A,
    LOSS_ALPHA,
    LOSS_B,
    LOSS_BETA,
    WAN_DELAY_S,
    computed,
    exposed_seconds,
    figures,
    fullest_link,
    ideal_layers,
    make_plan,
    optimal_parameters,
    paper_job,
    stage_seconds,
    wan_needed_bps,
    width,
)
from netsim.workloads.job.step import step_time
from netsim.workloads.job.work import stage_memory

SMALL = {
    "model": {"layers": 4, "hidden": 512, "heads": 8, "sequence": 1024, "vocabulary": 1000},
    "machine": "a100_80gb",
    "layout": {"global_batch": 8},
}


def test_preset_jobs_load():
    for name in presets():
        job = load_job(name)
        assert (job.name, job.layout.micro_batches > 0) == (name, True)


def test_job_extends_a_preset_key_by_key(tmp_path):
    changes = {"layout": {"dp": 16}, "machine": {"scale_out": {"rate": "800Gbps"}}}
    job, base = load_job({"preset": "llama3_8b", **changes}), load_job("llama3_8b")
    assert (job.name, job.layout.dp, job.layout.global_batch) == ("llama3_8b", 16, 512)
    assert job.machine.scale_out.rate == 800_000_000_000 != base.machine.scale_out.rate
    assert job.machine.scale_up == base.machine.scale_up
    assert job.model == base.model
    (tmp_path / "loop.toml").write_text('preset = "loop.toml"')
    with raises_input("extends itself"):
        load_job({"preset": "loop.toml"}, tmp_path)
    with raises_input("preset", "3 is not a name"):
        load_job({"preset": 3})


def test_job_file_overrides_presets(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        'model = "gpt3_175b"\n[machine]\npreset = "a100_80gb"\n[machine.scale_out]\n'
        'rate = "100Gbps"\n[layout]\ntp = 8\npp = 16\nglobal_batch = 32\nrecompute = "full"\n'
    )
    job = load_job("mine.toml", tmp_path)
    assert job == load_job(str(file))
    assert job.machine.scale_out.rate == 100 * 10**9
    assert job.machine.scale_out.launch == 20 * 10**6  # as in the preset
    assert job.layout.gpus == 128


def test_invalid_toml_is_rejected(tmp_path):
    for text in ["layers = ", "a = " + "[" * 2000, "\x00", "a = " + "9" * 5000]:
        file = tmp_path / "mine.toml"
        file.write_text(text)
        with raises_input(code="unreadable", file="mine.toml"):
            load_job(file)
    file.write_text("[layout]\ntp = 0x" + "f" * 5000)
    with raises_input(code="out_of_range", file="mine.toml", key="layout.tp"):
        load_job(file)


def test_unknown_preset_is_rejected_with_suggestion(tmp_path):
    with raises_input("gpt3_175b"):
        load_job("gpt3_175", tmp_path)


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


HERE = Path()


def plan(**tree):
    return make_plan(tree, "plan", HERE)


def test_paper_budget_and_size_yield_the_paper_job():
    """The size 95 T was chosen to yield the paper's shape (POST-HOC)."""
    found = plan(plan={"parameters": 95e12})
    paper = paper_job("dense")
    assert found.job.layout == paper.layout
    assert found.job.machine == paper.machine
    assert stage_seconds(found.job) == stage_seconds(paper)
    assert found.site.gpus == 1_677_600


def test_plan_uses_formats_and_domain_of_the_machine():
    found = plan(
        machine="h100_80gb",
        site={"rack_gpus": 8, "rack_usd": 300e3, "rack_flops": "7.9PFLOP/s", "datacenters": 1},
        plan={"parameters": 1e12, "vocabulary": 128_000, "sequence": 8192},
    )
    assert found.job.precision.compute == "bf16"
    assert found.job.machine.domain_gpus == 8
    assert 8 % found.job.layout.tp == 0
    assert 0 < found.exposed < 1


def test_hoffmann3_minimizes_its_loss():
    flops = 5.76e23

    def loss(n):
        return LOSS_A / n**LOSS_ALPHA + LOSS_B / (flops / 6 / n) ** LOSS_BETA

    best = optimal_parameters("hoffmann3", flops)
    assert loss(best) < min(loss(best * 1.01), loss(best / 1.01))


def test_optimal_width_matches_its_source():
    """30K is optimal for 10^12 parameters: the abstract of Levine et al."""
    layers = ideal_layers(1e12)
    assert 12 * layers * width(layers) ** 2 == pytest.approx(1e12)
    assert width(layers) == pytest.approx(30_000, rel=0.02)


@pytest.mark.parametrize("name", JOBS)
def test_hierarchical_stages_take_half_of_full_all_reduces(name):
    full, parts = (stage_seconds(paper_job(name, how)) for how in ("paper", "hierarchical"))
    assert parts.s1_s == pytest.approx(full.s1_s / 2)
    assert parts.s2_s == pytest.approx(full.s2_s / 2)
    same = replace(full, s1_s=parts.s1_s, s2_s=parts.s2_s)
    assert parts == same


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("round_trips", [0, 1])
def test_wan_time_is_exposed_below_needed_rate(name, round_trips):
    stages = stage_seconds(paper_job(name))
    needed = wan_needed_bps(stages, round_trips)
    hidden = exposed_seconds(stages)
    for share, is_exposed in ((1.001, False), (0.9, True)):
        network = replace(BASE, wan_bps=share * needed, wan_round_trips=round_trips)
        assert (exposed_seconds(stages, network) > hidden + 1e-6) == is_exposed
    late = replace(stages, forward_s=WAN_DELAY_S / 4, s2_s=0.0)
    assert wan_needed_bps(late) == float("inf")


def agrees(one):
    """Return whether our value, rounded or truncated, equals the stated one or meets its bound."""
    if one.number is None:
        return False
    if one.stated[0] in "<>":
        return (one.ours > one.number) == (one.stated[0] == ">")
    digits, _, power = one.stated.partition("e")
    last = 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
    return -0.5 <= (one.ours - one.number) / last < 1  # truncation loses up to a digit


def test_figures_marked_yes_match_all_stated_digits():
    found = {one.name: one for one in figures()}
    assert len(found) == 86
    wrong = [one for one in found.values() if one.agreement == "yes" and not agrees(one)]
    assert wrong == []
    assert {one.agreement for one in found.values()} == set(AGREEMENTS)
    marks = Counter(one.agreement for one in found.values())
    assert (marks["yes"], marks["approx"], marks["no"]) == (46, 27, 6)


def test_figures_agree_with_independent_calculations():
    ours = computed()
    assert ours["mem_grad"] + ours["mem_model"] + ours["mem_opt"] == pytest.approx(
        ours["mem_total_dense"]
    )
    assert ours["dp_s4"] == pytest.approx(ours["dp_s2"] / 2)
    assert ours["dp_s5_moe"] == pytest.approx(ours["dp_s1_moe"] / 2)
    assert ours["devices_per_dc"] * 2 == paper_job("dense").layout.gpus
    # The paper's 7 ms on a single path are about 7 times the 0.974 ms of an idle path.
    assert 6 < fullest_link(trials=20, seed=5) < 8
