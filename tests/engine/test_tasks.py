"""Times of tasks against closed forms, to the picosecond; with threads, and compiled."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_runs import DROP_TAIL, NARROW, PACKET, TRIM, build, changed, counter, run
from small_job import small_job
from small_networks import two_nics
from traffic_cases import made, star

from netsim.engine.engine import Engine
from netsim.engine.kernels.layout import INF
from netsim.flows import RECEIVE, SEND, FlowTable, TaskTable, Workload
from netsim.model.fabric import Ecn, routing_spec
from netsim.model.flows import TrafficContext
from netsim.model.network import Network
from netsim.params import resolve_params
from netsim.plugins import registry
from netsim.plugins.registry import PluginSpec
from netsim.workloads.operations import CollectiveOptions
from netsim.workloads.training.sample import sample_job
from netsim.workloads.training.step import operations_of

US = 10**6
SER = 4160 * 80  # serialization time of a full packet at 100 Gbps, in ps
WIRE = 2 * SER + 2 * US  # latency of a single packet through one switch: sent twice, over two links


def engine(network: Network, load: Workload, **given: Any) -> Engine:
    assert load.tasks is not None
    load.validate(network.n_hosts)
    given = {"transport": "datagram", "fabric": DROP_TAIL, "jit": False, **given}
    return build(network, load.flows, tasks=load.tasks, **given)


def ends(one: Engine) -> list[int]:
    states = run(one).task_states()
    assert (states.ready_ps <= states.start_ps).all()
    assert (states.start_ps <= states.end_ps).all()
    return states.end_ps.tolist()


@pytest.mark.parametrize("chunks", [1, 2])
def test_ring_of_eight_hosts_takes_14_steps(chunks: int) -> None:
    # A chunk is three full packets. Software latency counts once per step.
    latency, size = 1_500_000, f"{8 * chunks * 3 * 4096}B"
    load = made("collective", 8, algorithm="ring", size=size, latency="1.5us", channels=chunks)
    step = latency + 3 * SER + WIRE - SER
    if chunks == 1:
        assert max(ends(engine(star(8), load))) == 14 * step
        return
    # Two chunks share each host's links. Their packets alternate, so that the first chunk arrives
    # one packet before the second.
    found = np.array(ends(engine(star(8), load)))
    assert 14 * step < found.max() <= 14 * (step + 3 * SER)


def test_pipeline_of_four_stages_matches_closed_form() -> None:
    for microbatches in [1, 2, 3, 4, 8, 13]:
        # A microbatch may enter when another leaves. A round trip over k stages takes k (F + B) and
        # 2 (k - 1) transfers; of any four microbatches, all but the first wait for two transfers.
        stages, forward, backward = 4, 10 * US, 21 * US
        transfer = US + WIRE
        times = {"forward": "10us", "backward": "21us", "latency": "1us"}
        given = {"microbatches": microbatches, "activations": "4096B", **times}
        load = made("pipeline_1f1b", stages, **given)
        waits = microbatches - 1 - -(-(microbatches - 1) // stages)
        expected = (microbatches + stages - 1) * (forward + backward)
        expected += 2 * transfer * (stages - 1 + waits)
        one = engine(star(stages), load)
        assert max(ends(one)) == expected
        assert one.counts.tasks_done == len(load.tasks or [])


def random_load(network: Network) -> Workload:
    """Return chains of random flows: when one is delivered, its receiver sends the next."""
    rng = np.random.default_rng(3)
    path = [rng.permutation(network.n_hosts)[:5] for _ in range(20)]
    src = np.concatenate([hosts[:-1] for hosts in path])
    dst = np.concatenate([hosts[1:] for hosts in path])
    n = src.size
    tasks = TaskTable(
        np.repeat([SEND, RECEIVE], n),
        np.concatenate([src, dst]),
        rng.integers(0, 2 * US, 2 * n),
        flow=np.tile(np.arange(n), 2),
    )
    first = np.flatnonzero(np.arange(n) % 4 != 3)
    tasks.wait_for_pairs(n + first, first + 1)
    return Workload(FlowTable(src, dst, rng.integers(1, 40_000, n)), tasks)


def training_step(network: Network) -> Workload:
    """Return a step of a small job: a pipeline with replicas that exchange data at once."""
    layout = {"pp": 2, "dp": 4, "zero": 1, "global_batch": 16}
    job = small_job(layout, layers=2, hidden=64, vocabulary=512)
    part = sample_job(job, {}, how={"dp": CollectiveOptions("direct")})
    return operations_of(part).lower(np.arange(network.n_hosts))


def program_load(network: Network) -> Workload:
    """Return the tasks of a program that uses every service."""
    plugin = registry.find("traffic", str(Path(__file__).parents[1] / "mixed_program.py"))
    params = resolve_params(plugin.params, {}, {}, None, file=None, key="traffic")
    context = TrafficContext(Path(), 1, 100 * 10**9)
    load = plugin.module.flows(params, network, np.random.default_rng(1), context)
    return load.with_program(PluginSpec(plugin, params), network.n_hosts)


@pytest.mark.slow  # test_compiled_serving.py compiles tasks and a program
def test_threads_windows_pieces_and_compiling_do_not_change_results() -> None:
    """A training step and a program next to other tasks, on hosts with several ports and switches
    that trim, mark and spray at random.

    Array bounds are checked, and no other test compiles this combination.
    """
    network = two_nics(domains=4)
    load = Workload.join([random_load(network), training_step(network)])
    n_before = len(load.tasks) if load.tasks is not None else 0
    load = Workload.join([load, program_load(network)])
    fabric = replace(
        changed(TRIM, queue_bytes=4 * PACKET),
        plane_balancing="least_loaded",
        routing=routing_spec("spray_random"),
        ecn=Ecn(PACKET, 5 * PACKET, 0.7),
    )
    compiled = {"jit": True, "checked": True}
    ways: tuple[dict[str, Any], ...] = (
        {},
        {**compiled, "threads": 2, "sizes": NARROW},
        {**compiled, "window_ps": 20_000},
    )
    given = {"transport": "ndp", "fabric": fabric, "program": load.program}
    engines = [run(engine(network, load, **given, **way)) for way in ways]
    # An engine with two threads resumes from the middle of a run with one thread.
    half = engine(network, load, **given, **compiled)
    half.advance(engines[0].counts.windows // 2, INF)
    assert 0 < half.counts.tasks_done < engines[0].counts.tasks_done
    engines.append(engine(network, load, **given, **ways[1]))
    engines[-1].restore(half.snapshot())
    run(engines[-1])
    assert len({one.digest() for one in engines}) == 1
    assert counter(engines[0], "trims") > 0
    assert counter(engines[0], "ecn_marks") > 0
    states = engines[0].task_states()
    assert (states.end_ps[:n_before] >= 0).all()
    assert (states.runs[n_before:] > 1).any()
