"""Training in packets on a non-blocking network: stages and bubbles follow their formulas."""

import numpy as np
import pytest
from engine_runs import DROP_TAIL, build, run
from part_of_load import operations_of as table_of
from small_job import small_job
from task_times import Times

from netsim.model.builder import NetworkBuilder
from netsim.model.fabric import PacketFormat
from netsim.model.network import Network
from netsim.workloads.job.job import Job
from netsim.workloads.job.schedules import SCHEDULES, bubble_ps
from netsim.workloads.job.work import stage_times
from netsim.workloads.operations import CollectiveOptions
from netsim.workloads.training.sample import KINDS, JobSample, SampleSize, sample_job
from netsim.workloads.training.step import operations_of

GBPS = 10**9
NS = 1000
LINKS = {"scale_up": {"rate": "100Gbps"}, "scale_out": {"rate": "100Gbps"}}
FAST = LINKS | {"wan_rate": "100Gbps", "wan_delay": "0ms"}
LARGE = ("layer", "dense_layer", "moe_layer", "virtual_stage")
"""Parts of the job large enough for their formula; embedding and head are too small here."""
RINGS = {kind: CollectiveOptions("direct" if kind in ("ep", "dp_s3") else "ring") for kind in KINDS}


def switch(n_hosts: int) -> Network:
    """Return hosts around one switch, with 100 Gbps and 100 ns each."""
    builder = NetworkBuilder()
    hosts = builder.add_hosts(n_hosts)
    builder.cables(np.array(hosts), builder.add_switch(), 100 * GBPS, 100 * NS)
    return builder.build("switch")


def simulated(part: JobSample) -> Times:
    """Simulate one step with packets of 32 KiB and the datagram transport."""
    n = len(part.ranks)
    load = operations_of(part).lower(np.arange(n))
    load.validate(n)
    engine = build(
        switch(n),
        load.flows,
        "datagram",
        DROP_TAIL,
        tasks=load.tasks,
        packets=PacketFormat(32768, 64, 64),
        jit=False,
    )
    states = run(engine).task_states()
    assert (states.end_ps >= 0).all()
    return Times(load, states.start_ps, states.end_ps)


def against_formula(job: Job, kinds: tuple[str, ...], **how: int) -> None:
    """Check that messages of some kinds take the time of the job's model, or up to 2 % more."""
    part = sample_job(job, SampleSize(), how=RINGS, **how)
    found = simulated(part)
    table = table_of(found.load)
    for kind in kinds:
        rows = found.rows(kind=kind)
        begin, end = found.span(rows)
        took, size = (end - begin).astype(float), table.size_bytes[rows]
        for message in (m for m in part.messages if (m.kind == kind and m.per in LARGE)):
            exchange = message.n if message.what == "send" and kind != "pp" else 1
            of_size = took[size == message.size_bytes * exchange]
            assert of_size.size
            # A rank may start before its peers and wait for them, so the longest time counts.
            assert of_size.max() == pytest.approx(message.time_ps(job), rel=0.02)
            assert of_size.max() >= message.time_ps(job)


def test_tensor_parallel_ring_matches_formula() -> None:
    layout = {"tp": 4, "sp": True, "regather": False, "global_batch": 1}
    job = small_job(layout, machine=FAST, layers=1, hidden=2560, sequence=2048)
    against_formula(job, ("tp",))


def test_context_parallel_ring_matches_formula() -> None:
    layout = {"cp": 3, "global_batch": 1}
    job = small_job(layout, machine=FAST, layers=1, hidden=640, sequence=3072)
    against_formula(job, ("cp",))


def test_expert_exchange_matches_formula() -> None:
    model = {"experts": 4, "active_experts": 2, "layers": 1, "hidden": 512, "sequence": 2048}
    job = small_job({"dp": 4, "ep": 4, "global_batch": 4}, machine=FAST, **model)
    against_formula(job, ("ep",))


def test_pipeline_transfer_matches_formula() -> None:
    job = small_job({"pp": 2, "global_batch": 2}, machine=FAST, hidden=1280, sequence=2048)
    against_formula(job, ("pp",))


@pytest.mark.parametrize("accounting", ["hierarchical", "paper"])
def test_data_parallel_stages_match_formulas(accounting: str) -> None:
    layout = {"dp_levels": [2, 3, 2], "accounting": accounting, "global_batch": 12}
    job = small_job(layout, machine=FAST, layers=1, hidden=608, vocabulary=8)
    against_formula(job, ("dp_s1", "dp_s2", "dp_s3", "dp_s4", "dp_s5"))


def test_bubble_of_each_schedule_matches_formula() -> None:
    for name in SCHEDULES:
        # Transfers are one small packet, whose time is negligible.
        chunks = 2 if name == "interleaved" else 1
        layout = {"pp": 5, "schedule": name, "virtual_stages": chunks, "global_batch": 20}
        machine = FAST | {"matrix": {"peak": {"bf16": "10GFLOP/s"}}}
        job = small_job(layout, machine=machine, layers=20, hidden=64, sequence=64)
        m = 8
        part = sample_job(job, SampleSize(stages=4, micro_batches=m), scale=1.0)
        found = simulated(part)
        layer = stage_times(job).layer
        f, b, w = (
            4 * one for one in (layer.forward_ps, layer.backward_input_ps, layer.backward_weight_ps)
        )
        bubble = bubble_ps(name, 4, f, b, w, chunks)
        assert found.makespan - m * (f + b + w) == pytest.approx(bubble, rel=0.01)
