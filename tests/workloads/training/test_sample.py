"""Samples of jobs: their ranks and groups, their notes, and invalid sizes."""

from __future__ import annotations

import pytest
from raises_input import mentions, raises_input
from small_job import small_job

from netsim.errors import InputError
from netsim.workloads.training.sample import JobSample, SampleSize, sample_job, sample_notes

LEVELS = {"tp": 2, "pp": 4, "dp_levels": [4, 3, 2], "global_batch": 48}


def test_sample_has_requested_ranks_and_groups() -> None:
    part = sample_job(small_job(LEVELS), SampleSize(stages=2, racks=2, sites=1, micro_batches=1))
    assert (part.ranks.pp, part.ranks.dp, part.ranks.dp_levels) == (2, 8, (4, 2, 1))
    assert part.positions == (0, 1)
    assert (part.schedule.stages, part.schedule.micro_batches) == (2, 1)
    kinds = {one.kind: one.n for one in part.messages}
    assert kinds == {"tp": 2, "pp": 2, "dp_s1": 4, "dp_s2": 2, "dp_s4": 2, "dp_s5": 4}


def test_sample_of_one_rail_keeps_formula_group_sizes() -> None:
    cut = SampleSize(tensor_ranks=1, rack_replicas=1, sites=1)
    part = sample_job(small_job(LEVELS), cut, formula=frozenset({"tp", "dp_s1", "dp_s5"}))
    assert part.ranks.dp_levels == (1, 3, 1)
    assert len(part.ranks) == 4 * 3
    sent = {one.kind: one.n for one in part.messages if one.kind not in part.formula}
    assert sent == {"pp": 4, "dp_s2": 3, "dp_s4": 3}
    assert {one.n for one in part.messages if one.kind == "dp_s1"} == {4}
    assert mentions(sample_notes(part, 1), "1", "4")


def test_model_flops_scale_with_sampled_ranks() -> None:
    job = small_job({"tp": 2, "pp": 4, "dp": 2})
    whole = sample_job(job, SampleSize())
    # Matrices: 72 B s L h^2 (1 + s / 6h + V / 12Lh): Narayanan et al. (SC 2021), section 3.
    h, s, layers, v = 256, 128, 8, 1024
    flops = 72 * 8 * s * layers * h**2 * (1 + s / (6 * h) + v / (12 * layers * h))
    assert whole.model_flops == pytest.approx(flops)
    one = sample_job(job, SampleSize(replicas=1)).model_flops
    assert one == pytest.approx(flops / 2)
    # The first stage has a quarter of the layers and no head.
    first = sample_job(job, SampleSize(stages=1)).model_flops
    assert first == pytest.approx(72 * 8 * s * 2 * h**2 * (1 + s / (6 * h)))


def notes(part: JobSample) -> str:
    return " ".join(sample_notes(part, 1))


def test_sample_notes_state_full_and_sampled_sizes() -> None:
    cut = SampleSize(stages=2, racks=2, sites=1, tensor_ranks=1, micro_batches=1)
    formula = frozenset({"tp", "dp_s5"})
    text = notes(sample_job(small_job(LEVELS), cut, scale=0.01, formula=formula))
    for words in (
        "192 GPUs (tp 2, pp 4, dp 24), 2 micro-batches",
        "16 GPUs (pp 2, dp 8), 1 micro-batch.",
        "0.01",
        "100 times",
        "tp, dp_s5",
        "75.0%",
    ):
        assert words in text
    assert "dp_s1 " not in text


def test_invalid_sample_sizes_are_rejected() -> None:
    for layout, size, key, number in [
        (LEVELS, SampleSize(stages=5), "stages", "4"),
        (LEVELS, SampleSize(replicas=4), "replicas", "[4, 3, 2]"),
        (LEVELS, SampleSize(rack_replicas=5), "rack_replicas", "4"),
        ({"dp": 4}, SampleSize(racks=1), "racks", ""),
        ({"dp": 4}, SampleSize(replicas=8), "replicas", "4"),
        ({"tp": 4}, SampleSize(tensor_ranks=1), "tensor_ranks", "4"),
        ({"dp": 4}, SampleSize(micro_batches=3), "micro_batches", "2"),
        (
            {"pp": 4, "schedule": "interleaved", "virtual_stages": 2},
            SampleSize(micro_batches=6),
            "micro_batches",
            "6",
        ),
    ]:
        with pytest.raises(InputError) as caught:
            sample_job(small_job(layout), size)
        assert number in str(caught.value)
        assert caught.value.key == key


def test_sample_replicas_must_be_whole_expert_groups() -> None:
    model = {"experts": 8, "active_experts": 2}
    job = small_job({"dp": 8, "ep": 4}, **model)
    with raises_input("6", "4", key="replicas"):
        sample_job(job, SampleSize(replicas=6))
    assert sample_job(job, SampleSize(replicas=4)).ranks.ep == 4
