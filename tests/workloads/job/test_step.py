"""The analytic step time: its parts, and the formulas of schedules and overlaps."""

from dataclasses import replace

import pytest

from netsim.workloads.job import load_job, stage_times
from netsim.workloads.job.step import model_flops, step_time
from netsim.workloads.validation import hardware


def laid_out(name, **changes):
    job = load_job(name)
    return replace(job, layout=replace(job.layout, **changes))


def test_model_flops_match_closed_form():
    """Narayanan et al. 2021, section 5.1, with factor 72, not 96: without recomputation."""
    job = load_job("gpt3_175b")
    shape, batch = job.model, job.layout.global_batch
    s, h, n, v = shape.sequence, shape.hidden, shape.layers, shape.vocabulary
    expected = 72 * batch * s * n * h**2 * (1 + s / (6 * h) + v / (12 * n * h))
    assert model_flops(job) == pytest.approx(expected)
    whole = replace(job, layout=replace(job.layout, recompute="full"))
    assert model_flops(whole) == model_flops(job)


def equal_stages(schedule, chunks=1):
    """Return a job of equal stages; embedding, head, messages and optimizer are negligible."""
    job = laid_out("gpt3_175b", schedule=schedule, virtual_stages=chunks, recompute="none")
    machine = replace(
        job.machine,
        scale_up=replace(job.machine.scale_up, rate=10**15, launch=0),
        scale_out=replace(job.machine.scale_out, rate=10**15, launch=0),
    )
    model = replace(job.model, vocabulary=1, dropout=False, tied_embeddings=False)
    return replace(job, model=model, machine=machine)


def test_pipeline_bubble_matches_formula():
    for schedule, chunks in [("gpipe", 1), ("1f1b", 1), ("interleaved", 3)]:
        job = equal_stages(schedule, chunks)
        layer = stage_times(job).layer
        once = 12 * (layer.forward_ps + layer.backward_ps)
        assert step_time(job).bubble_ps == pytest.approx(7 / chunks * once, rel=0.01)


def test_zb_h1_shortens_step_by_weight_gradient_time():
    layer = stage_times(equal_stages("zb_h1")).layer
    saved = 2 * 7 * 12 * layer.backward_weight_ps
    shorter = step_time(equal_stages("1f1b")).total_ps - step_time(equal_stages("zb_h1")).total_ps
    assert shorter == pytest.approx(saved, rel=0.01)


def test_overlap_reduces_only_its_own_exposed_time():
    for what in ["grad_reduce", "param_gather", "tp_comm", "p2p_comm"]:
        job = laid_out("gpt3_175b", dp=8, global_batch=512, zero=1)
        shown = step_time(job)
        hidden = step_time(replace(job, overlap=replace(job.overlap, **{what: True})))
        kind = {"grad_reduce": "dp", "param_gather": "dp", "tp_comm": "tp", "p2p_comm": "pp"}[what]
        assert hidden.exposed.get(kind, 0) < shown.exposed[kind]
        assert hidden.total_ps < shown.total_ps
        assert hidden.compute_ps == shown.compute_ps
        others = set(shown.exposed) - {kind}
        assert {one: hidden.exposed[one] for one in others} == {
            one: shown.exposed[one] for one in others
        }


def test_step_times_match_published_times():
    """For comparison, Calculon's error on these rows is 3.65 % on average and 8.87 % at most."""
    errors = [abs(row["ours"] / row["theirs"] - 1) for row in hardware.steps("megatron")]
    assert sum(errors) / 8 <= 0.04
    assert max(errors) <= 0.10
    assert len(errors) == 8


def test_memory_matches_published_memory():
    rows = list(hardware.memory())
    assert len(rows) == 12
    for row in rows:
        tolerance = 1e-3 if ": parameters" in row["title"] else 1e-9  # biases and norms
        assert row["ours"] == pytest.approx(row["theirs"], rel=tolerance), row
