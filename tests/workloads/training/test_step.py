"""Simulated training steps: against formulas, and of samples."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from raises_input import mentions, raises_input
from small_job import small_job
from task_times import Times, run_alone
from task_times import operations_of as table_of

from netsim.workloads.job.job import Job
from netsim.workloads.job.load import load_job
from netsim.workloads.job.schedules import SCHEDULES, bubble_ps
from netsim.workloads.job.step import step_time
from netsim.workloads.job.work import stage_times
from netsim.workloads.operations import CollectiveOptions
from netsim.workloads.training.sample import KINDS, JobSample, sample_job, sample_notes
from netsim.workloads.training.step import operations_of

GBPS = 10**9
UP, OUT = 800 * GBPS, 100 * GBPS
RING = {
    kind: CollectiveOptions("ring") for kind in ("tp", "cp", "dp", "expert_dp", "dp_s1", "dp_s2")
}


def times(part: JobSample, steps: int = 1, **network: Any) -> Times:
    load = operations_of(part, steps).lower(np.arange(len(part.ranks)))
    if len(load.flows):
        load.validate(len(part.ranks))
    return run_alone(load, **network)


def at_rates(src: int, dst: int) -> int:
    """Return the rate between two hosts, with eight hosts per rack."""
    return UP if src // 8 == dst // 8 else OUT


def of_stages(job: Job) -> tuple[int, int, int]:
    """Return forward, input-backward and weight-backward time of a stage over all its chunks."""
    found = stage_times(job)
    layers = job.model.layers // job.layout.pp
    layer = found.layer
    return tuple(  # type: ignore[return-value]
        layers * getattr(layer, f"{name}_ps")
        for name in ("forward", "backward_input", "backward_weight")
    )


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("steps", [1, 2])
def test_pipeline_bubble_matches_formula(name: str, steps: int) -> None:
    # Four of five stages are sampled, so that the head does not slow the last one.
    chunks = 2 if name == "interleaved" else 1
    layout = {"pp": 5, "schedule": name, "virtual_stages": chunks, "global_batch": 20}
    job = small_job(layout, layers=5 * 4)
    m = 12
    found = times(sample_job(job, {"stages": 4, "micro_batches": m}), steps)
    f, b, w = of_stages(job)
    bubble = bubble_ps(name, 4, f, b, w, chunks)
    step = m * (f + b + w) + bubble
    # With zero bubble, each stage starts later than the one before and also ends later.
    later = max(0, 3 * f - bubble) if name == "zb_h2" else 0
    assert found.makespan == step + later if steps == 1 else found.makespan <= 2 * step + later


def test_pipeline_transfers_delay_compute_without_overlap() -> None:
    job = small_job({"pp": 3, "global_batch": 4}, layers=3)
    cut = {"stages": 2, "micro_batches": 4}
    f, b, w = of_stages(job)
    transfer = 128 * 256 * 2 * 8 * 10**12 // OUT
    sequential = times(sample_job(job, cut), rate_bps=lambda *_: OUT)
    # The second stage sends after each backward, and starts one forward and one transfer later.
    assert sequential.makespan == 5 * (f + b + w + transfer)
    overlap = small_job({"pp": 3, "global_batch": 4}, {"p2p_comm": True}, layers=3)
    overlapped = times(sample_job(overlap, cut), rate_bps=lambda *_: OUT)
    # 1F1B waits for the gradients of the next stage.
    assert overlapped.makespan == 5 * (f + b + w) + 4 * transfer


@pytest.mark.parametrize("formula", [False, True])
@pytest.mark.parametrize("overlap", [False, True])
def test_tensor_parallel_time_is_exposed_unless_overlapped(formula: bool, overlap: bool) -> None:
    layout = {"tp": 4, "sp": True, "regather": False, "global_batch": 1}
    job = small_job(layout, {"tp_comm": overlap})
    fidelity = frozenset({"tp"} if formula else ())
    part = sample_job(job, {}, formula=fidelity, how=RING)
    found = times(part, rate_bps=at_rates)
    gathered = 128 * 256 * 2 * 3 // 4 * 8 * 10**12 // UP
    rows = found.rows(kind="tp")
    begin, end = found.span(rows)
    if not formula and not overlap:
        assert (end - begin == gathered).all()
    assert (end - begin).sum() == 4 * (8 * 8 + 4) * gathered  # twice each for embedding and head
    layers = stage_times(job)
    work = 8 * (layers.layer.forward_ps + layers.layer.backward_ps)
    work += layers.head.forward_ps + layers.head.backward_ps
    exposed = found.makespan - work
    if not overlap:
        assert exposed == (8 * 8 + 4) * gathered
    else:  # the last quarter of reduced outputs, and those of embedding and head, overlap nothing
        assert (8 * 2 // 4 + 4) * gathered <= exposed < (8 * 8 + 4) * gathered


def test_hierarchical_gradient_stages_match_formula() -> None:
    layout = {"tp": 2, "dp_levels": [4, 3, 2], "accounting": "hierarchical", "global_batch": 24}
    job = small_job(layout, machine={"wan_rate": "100Gbps", "wan_delay": "0ms"}, layers=1)
    part = sample_job(job, {}, how=RING)
    found = times(part, rate_bps=at_rates)
    for message in part.messages:
        if message.kind.startswith("dp_"):
            begin, end = found.span(found.rows(kind=message.kind))
            of_size = part_sizes(found, message.kind) == message.size_bytes * (
                2 if message.what == "send" else 1
            )
            took = (end - begin)[of_size]
            assert took.size == len(part.ranks)
            assert took == pytest.approx(message.time_ps(job), rel=1e-3)


def test_wan_delay_comes_from_the_topology() -> None:
    layout = {"dp_levels": [1, 1, 2], "global_batch": 2}
    starts = {}
    for delay in ("0ms", "30ms"):
        job = small_job(layout, machine={"wan_rate": "100Gbps", "wan_delay": delay}, layers=1)
        found = times(sample_job(job, {}, how=RING), rate_bps=at_rates)
        starts[delay] = found.makespan
    assert starts["0ms"] == starts["30ms"]


def part_sizes(found: Times, kind: str) -> np.ndarray:
    return table_of(found.load).size_bytes[found.rows(kind=kind)]


def test_gradient_reduction_overlaps_backward_if_enabled() -> None:
    layout = {"dp": 2, "global_batch": 2, "pp": 2}
    ends, starts = {}, {}
    for overlap in (False, True):
        job = small_job(layout, {"grad_reduce": overlap}, vocabulary=8)
        found = times(sample_job(job, {}, how=RING, buckets=2), rate_bps=at_rates)
        begin, end = found.span(found.rows(kind="dp"))
        table = table_of(found.load)
        backward, ranks = found.rows(kind="backward"), table.rank[found.rows(kind="dp")]
        _, computed = found.span(backward)
        starts[overlap] = all(
            begin[ranks == rank].min() >= computed[table.rank[backward] == rank].max()
            for rank in range(4)
        )
        ends[overlap] = end.max()
        assert begin.size == 4 * 2 * (4 + 1)  # ranks, buckets, layers and embedding or head
        optimized, _ = found.span(found.rows(kind="optimizer"))
        for rank in range(4):
            assert optimized[rank] == end[ranks == rank].max()
    assert starts == {False: True, True: False}
    assert ends[True] < ends[False]


@pytest.mark.parametrize("overlap", [False, True])
def test_weights_are_gathered_before_they_are_needed(overlap: bool) -> None:
    layout = {"dp": 4, "zero": 1, "global_batch": 4}
    job = small_job(layout, {"param_gather": overlap}, vocabulary=8)
    found = times(sample_job(job, {}, how=RING), 2, rate_bps=at_rates)
    gathers = found.rows("all_gather", "dp")
    _, optimized = found.span(found.rows(kind="optimizer"))
    begin, end = found.span(gathers)
    first, second = begin[: begin.size // 2], begin[begin.size // 2 :]
    assert first.min() == optimized.min()
    assert second.min() == optimized.max()
    forward, _ = found.span(found.rows(kind="forward"))
    next_step = forward[forward >= optimized.min()].min()
    of_first = end[: end.size // 2]
    assert (next_step >= of_first.max()) == (not overlap)
    assert next_step >= of_first.min()


def test_hierarchical_groups_reduce_inside_racks_first() -> None:
    job = small_job({"dp": 16, "global_batch": 16}, layers=1, vocabulary=8)
    rack = np.arange(16) // 8
    part = sample_job(job, {}, rack=rack, how={"dp": CollectiveOptions("hierarchical")})
    assert part.neighbors(part.ranks.groups("dp")) == 8
    found = times(part, rate_bps=at_rates)
    load = found.load
    away = rack[load.flows.src] != rack[load.flows.dst]
    assert (load.flows.src[away] % 8 == load.flows.dst[away] % 8).all()
    took = np.subtract(*found.span(found.rows(kind="dp"))[::-1])
    message = max(part.messages, key=lambda one: one.size_bytes)
    # Inside a rack, all eight hosts reduce; each port exchanges an eighth with the other rack.
    inside, outside = (message.size_bytes * 8 * 10**12 // rate for rate in (UP, OUT))
    expected = 2 * 7 / 8 * inside + 2 * 1 / 2 / 8 * outside
    assert took.max() == pytest.approx(expected, rel=1e-3)
    apart = sample_job(job, {}, rack=np.arange(16) % 2)
    assert apart.neighbors(part.ranks.groups("dp")) == 1


LEVELS = {"tp": 2, "pp": 4, "dp_levels": [4, 3, 2], "global_batch": 48}


def test_sample_has_requested_ranks_and_groups() -> None:
    part = sample_job(small_job(LEVELS), {"stages": 2, "racks": 2, "sites": 1, "micro_batches": 1})
    assert (part.ranks.pp, part.ranks.dp, part.ranks.dp_levels) == (2, 8, (4, 2, 1))
    assert part.positions == (0, 1)
    assert (part.schedule.stages, part.schedule.micro_batches) == (2, 1)
    kinds = {one.kind: one.n for one in part.messages}
    assert kinds == {"tp": 2, "pp": 2, "dp_s1": 4, "dp_s2": 2, "dp_s4": 2, "dp_s5": 4}


def test_sample_of_one_rail_keeps_formula_group_sizes() -> None:
    cut = {"tensor_ranks": 1, "rack_replicas": 1, "sites": 1}
    part = sample_job(small_job(LEVELS), cut, formula=frozenset({"tp", "dp_s1", "dp_s5"}))
    assert part.ranks.dp_levels == (1, 3, 1)
    assert len(part.ranks) == 4 * 3
    sent = {one.kind: one.n for one in part.messages if one.kind not in part.formula}
    assert sent == {"pp": 4, "dp_s2": 3, "dp_s4": 3}
    assert {one.n for one in part.messages if one.kind == "dp_s1"} == {4}
    assert mentions(sample_notes(part, 1), "1", "4")


def test_model_flops_scale_with_sampled_ranks() -> None:
    job = small_job({"tp": 2, "pp": 4, "dp": 2})
    whole = sample_job(job, {})
    # Matrices: 72 B s L h^2 (1 + s / 6h + V / 12Lh): Narayanan et al. (SC 2021), section 3.
    h, s, layers, v = 256, 128, 8, 1024
    flops = 72 * 8 * s * layers * h**2 * (1 + s / (6 * h) + v / (12 * layers * h))
    assert whole.model_flops == pytest.approx(flops)
    one = sample_job(job, {"replicas": 1}).model_flops
    assert one == pytest.approx(flops / 2)
    # The first stage has a quarter of the layers and no head.
    first = sample_job(job, {"stages": 1}).model_flops
    assert first == pytest.approx(72 * 8 * s * 2 * h**2 * (1 + s / (6 * h)))


def notes(part: JobSample) -> str:
    return " ".join(sample_notes(part, 1))


def test_sample_notes_state_full_and_sampled_sizes() -> None:
    cut = {"stages": 2, "racks": 2, "sites": 1, "tensor_ranks": 1, "micro_batches": 1}
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


def test_sample_replicas_must_be_whole_expert_groups() -> None:
    model = {"experts": 8, "active_experts": 2}
    job = small_job({"dp": 8, "ep": 4}, **model)
    with raises_input("6", "4", key="replicas"):
        sample_job(job, {"replicas": 6})
    assert sample_job(job, {"replicas": 4}).ranks.ep == 4


TIMED = frozenset(KINDS) - {"pp"}
"""Kinds timed by formula; pipeline transfers are simulated as flows."""
PLAIN = {"schedule": "1f1b", "virtual_stages": 1}
REPLICAS = {"dp": 8, "global_batch": 128}
HIDDEN = {"grad_reduce": True, "param_gather": True}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "interleaved": ("gpt3_175b", {"global_batch": 16}),
    "1f1b, full": ("gpt3_175b", {**PLAIN, "global_batch": 16, "recompute": "full", "sp": False}),
    "gpipe": ("gpt3_175b", {**PLAIN, "global_batch": 16, "schedule": "gpipe"}),
    "zb_h1": ("gpt3_175b", {**PLAIN, "global_batch": 16, "schedule": "zb_h1"}),
    "transfers hidden": ("gpt3_175b", {"global_batch": 16, "p2p_comm": True}),
    "tp hidden": ("gpt3_175b", {"global_batch": 16, "tp_comm": True}),
    "replicas": ("gpt3_175b", REPLICAS),
    "gradients hidden": ("gpt3_175b", {**REPLICAS, "grad_reduce": True}),
    "gradients hidden, 1f1b": ("gpt3_175b", {**PLAIN, **REPLICAS, "grad_reduce": True}),
    "gradients hidden, zb_h1": (
        "gpt3_175b",
        {**PLAIN, **REPLICAS, "schedule": "zb_h1", "zero": 1, "grad_reduce": True},
    ),
    "weights hidden": ("gpt3_175b", {**PLAIN, **REPLICAS, "zero": 1, **HIDDEN}),
    "no pipeline": ("megatron_22b", {}),
    "no tp": ("llama3_8b", {}),
    "experts": ("mixtral_8x7b", {}),
}


@pytest.mark.parametrize(("name", "changes"), CASES.values(), ids=CASES)
def test_simulated_step_time_matches_formula(name: str, changes: dict[str, Any]) -> None:
    """Both agree within 1 %, because no flows of the simulated part share a link."""
    job = load_job(name)
    # Simulated transfers have the port rate, so measured rates must not apply to the formula.
    up, out = (replace(link, measured=()) for link in (job.machine.scale_up, job.machine.scale_out))
    machine = replace(job.machine, scale_up=up, scale_out=out)
    layout = {key: value for key, value in changes.items() if hasattr(job.layout, key)}
    overlap = {key: value for key, value in changes.items() if hasattr(job.overlap, key)}
    job = replace(
        job,
        machine=machine,
        layout=replace(job.layout, **layout),
        overlap=replace(job.overlap, **overlap),
    )
    part = sample_job(job, {"tensor_ranks": 1, "replicas": job.layout.ep}, formula=TIMED)
    rate = round(out.rate * out.efficiency.at(1e7))
    ends = [0]
    # Weights gathered during the next step lengthen that one, so the second step is measured.
    for steps in (1, 2) if job.overlap.param_gather else (1,):
        load = operations_of(part, steps).lower(np.arange(len(part.ranks)))
        ends.append(run_alone(load, rate_bps=lambda *_: rate).makespan)
    assert ends[-1] - ends[-2] == pytest.approx(step_time(job).total_ps, rel=0.01)
