"""Series against the reference simulator, which notes every value of a queue and all counters.

The engine's code runs as plain Python here; ``test_compiled_series.py`` compares it with what is
compiled.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from engine_case import engine_for, network_of, run
from reference.cases import COMBINATIONS, random_case
from reference.model import Case
from reference.series import Held, area, largest, percentile
from reference.simulator import Simulator
from reference.switch import SwitchPort
from series_case import equal, reading, sampled

from netsim.engine.engine import Engine
from netsim.engine.kernels.series import BINS, bin_of
from netsim.engine.series import interval_bytes, intervals
from netsim.engine.series_reading import SeriesReading, middle_of
from netsim.errors import InputError
from netsim.model.sampling import LEAST_INTERVALS, Sampling

CASES = 3
MORE_CASES = 120
"""Random cases for each transport and discipline, and of the slow test."""


def pair(transport: str, model: str, seed: int) -> tuple[Case, Simulator, Engine]:
    """A case that was run on both; with windows of several lengths, and some thinning."""
    balancing = ("ecmp", "least_loaded", "spray_rr")[seed % 3]
    case = random_case(seed, transport, model, balancing)
    assert case.until_ps is not None
    every = case.until_ps // (9, 25, 60)[seed % 3] + seed
    sampling = sampled(case, every)
    if seed % 2:
        n_classes = case.fabric["n_classes"]
        least = (
            sampling.budget_bytes
            // intervals(sampling, network_of(case), n_classes)
            * (LEAST_INTERVALS + 2)
        )
        sampling = replace(sampling, interval_ps=every // 16, budget_bytes=least)
    lookahead = min(min(c.delay_ab_ps, c.delay_ba_ps) for c in case.cables)
    window_ps = None if seed % 4 < 2 else lookahead // 3 + 1
    engine = engine_for(case, trace=False, jit=False, sampling=sampling, window_ps=window_ps)
    run(engine, case.until_ps)
    simulator = Simulator(replace(case, sample_ps=reading(engine).interval_ps))
    simulator.run()
    return case, simulator, engine


def compare(transport: str, model: str, seed: int) -> None:
    case, simulator, engine = pair(transport, model, seed)
    found = reading(engine)
    moments = simulator.series.up_to(engine.now_ps)
    assert found.end_ps.tolist() == [moment.time_ps for moment in moments]
    n_classes = engine.fabric.n_classes
    for k, queue in enumerate(found.queues.tolist()):
        port, c = divmod(queue, n_classes)
        counters = [moment.counters[port, c] for moment in moments]
        for ours, name in (
            (found.queue_sent_bytes, "bytes"),
            (found.drops, "drops"),
            (found.trims, "trims"),
            (found.marks, "marks"),
            (found.paused_ps, "paused_ps"),
        ):
            expected = [getattr(each, name) for each in counters]
            assert np.cumsum(ours[:, k]).tolist() == expected, (name, port, c)
        compare_levels(simulator, engine, found, (k, port, c))
    for name, ours in (("delivered", found.flow_delivered_bytes), ("sent", found.flow_sent_bytes)):
        expected = [getattr(moment, name) for moment in moments]
        assert np.cumsum(ours, axis=0).tolist() == expected, name
    for name, values in found.fields.items():
        assert values.tolist() == [[s[name] for s in moment.senders] for moment in moments]
    compare_hosts(case, found, engine)


def compare_levels(
    simulator: Simulator, engine: Engine, found: SeriesReading, at: tuple[int, int, int]
) -> None:
    """What a queue held: nothing at a host; at a switch as the reference noted it."""
    k, port, c = at
    levels = engine.queue_levels()
    assert levels is not None
    queue = port * engine.fabric.n_classes + c
    where = simulator.ports[port]
    if not isinstance(where, SwitchPort):
        assert not found.max_bytes[:, k].any()
        assert levels.mean_bytes[queue] == 0
        return
    assert isinstance(where.held, Held)
    history, begin = where.held.history[c], 0
    for j, end in enumerate(found.end_ps.tolist()):
        assert found.max_bytes[j, k] == largest(history, begin, end), (port, c, j)
        assert found.mean_bytes[j, k] == area(history, begin, end) / (end - begin)
        begin = end
    assert levels.mean_bytes[queue] == area(history, 0, engine.now_ps) / engine.now_ps
    exact = percentile(history, engine.now_ps)
    bound = exact // 32
    assert abs(levels.p99_bytes[queue] - exact) <= bound, (port, c)


def compare_hosts(case: Case, found: SeriesReading, engine: Engine) -> None:
    """A host's bytes are those of its port, and of the flows that end there."""
    n_classes = engine.fabric.n_classes
    ports = found.queues // n_classes
    dst = np.array([flow[1] for flow in case.flows])
    for host in range(case.n_hosts):
        port = int(engine.network.node_first_port[host])
        sent = found.queue_sent_bytes[:, ports == port].sum(axis=1)
        assert found.host_sent_bytes[:, host].tolist() == sent.tolist()
        delivered = found.flow_delivered_bytes[:, dst == host].sum(axis=1)
        assert found.host_delivered_bytes[:, host].tolist() == delivered.tolist()
    received = engine.conservation().bytes.received
    assert found.host_received_bytes.sum() == received


@pytest.mark.parametrize(("transport", "model"), COMBINATIONS)
def test_every_interval(transport: str, model: str) -> None:
    for seed in range(CASES):
        compare(transport, model, seed)


@pytest.mark.slow
@pytest.mark.parametrize(("transport", "model"), COMBINATIONS)
def test_every_interval_of_many(transport: str, model: str) -> None:
    for seed in range(CASES, MORE_CASES):
        compare(transport, model, seed)


@pytest.mark.parametrize(("transport", "model"), [("ndp", "trim"), ("roce", "lossless")])
def test_thinned_is_as_if_sampled_so_from_the_start(transport: str, model: str) -> None:
    """And to sample changes nothing."""
    case = random_case(5, transport, model, "ecmp")
    assert case.until_ps is not None
    fine = sampled(case, case.until_ps // 4000)
    each = interval_bytes(fine, network_of(case), case.fabric["n_classes"])
    options = {"trace": False, "jit": False}

    def runs(sampling: Sampling | None) -> Engine:
        return run(engine_for(case, sampling=sampling, **options), case.until_ps)

    thinned = runs(replace(fine, budget_bytes=(LEAST_INTERVALS + 2) * each))
    interval_ps = reading(thinned).interval_ps
    assert fine.interval_ps is not None
    assert interval_ps >= 4 * fine.interval_ps
    coarse = runs(replace(fine, interval_ps=interval_ps))
    equal(reading(thinned), reading(coarse), besides=("first_interval_ps",))
    assert thinned.digest() == coarse.digest() == runs(None).digest()


def test_sums_over_all_intervals_are_the_counters_of_links() -> None:
    case = random_case(4, "ndp", "trim", "spray_random")
    sampling = sampled(case, 1_000_000)
    engine = run(engine_for(case, trace=False, jit=False, sampling=sampling), case.until_ps)
    found, links = reading(engine), engine.link_counters()
    assert found.queue_sent_bytes.sum(axis=0).tolist() == links.sent_bytes.tolist()
    for name in ("drops", "trims", "marks"):
        assert getattr(found, name).sum(axis=0).tolist() == getattr(links, name).tolist()
    assert found.max_bytes.max(axis=0).tolist() == links.max_queue_bytes.tolist()
    assert links.trims.any()


def test_a_run_in_two_pieces_has_the_series_of_a_whole_one() -> None:
    case = random_case(1, "roce", "lossless", "ecmp")
    assert case.until_ps is not None
    options = {"trace": False, "jit": False, "sampling": sampled(case, case.until_ps // 50)}
    whole, first, second = (engine_for(case, **options) for _ in range(3))
    run(whole, case.until_ps)
    first.advance(whole.counts.windows // 2, case.until_ps)
    second.restore(first.snapshot())
    equal(reading(run(second, case.until_ps)), reading(whole))


def test_bins_are_as_wide_as_the_model_says() -> None:
    for held in [*range(5000), *(2**k + d for k in range(13, 36) for d in (-1, 0, 1))]:
        number = bin_of(held)
        assert number <= bin_of(held + 1) <= number + 1
        assert bin_of(middle_of(number)) == number
        if number < BINS - 1:
            assert abs(middle_of(number) - held) <= held // 32
    assert bin_of(2**35 - 1) == bin_of(2**40) == BINS - 1


def test_a_budget_for_too_few_intervals_is_refused() -> None:
    case = random_case(1, "roce", "lossless", "ecmp")
    with pytest.raises(InputError, match="hold 0 intervals of these series") as refused:
        engine_for(case, jit=False, sampling=sampled(case, 1000, budget_bytes=1000))
    assert refused.value.key == "outputs.budget"
