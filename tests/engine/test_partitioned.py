"""Ranks, threads and a watchdog."""

import itertools
import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from agreement import compare_totals, cut_short, variants, way_of
from engine_case import (
    NARROW,
    engine_for,
    flow_results,
    kept,
    log_rows,
    run,
    run_in_pieces,
    slot_begins,
    task_results,
)
from engine_runs import build, fabric_with, fat_tree
from ranks_case import Meeting, ThreadRanks, with_ranks
from reference.cases import random_case
from reference.model import Case
from reference.simulator import simulate
from series_case import equal, reading, sampled

from netsim.engine import partitioned
from netsim.engine.division import divide
from netsim.engine.engine import Engine, watched
from netsim.engine.kernels import loop
from netsim.engine.kernels.layout import INF
from netsim.engine.partitioned import PartitionedEngine
from netsim.engine.simulation import Options
from netsim.engine.snapshot import Snapshot, entries_of
from netsim.engine.state_views import Status
from netsim.experiment import Experiment
from netsim.experiment.scenario import prepare
from netsim.flows import FlowTable
from netsim.running.drive import drive
from netsim.running.point import build_engine

PLACES = ("block", "block_end", "off", "mask", "ctrl_off", "ctrl_mask")
"""Fields that say where packets are stored, which may differ between engines ..."""
WORKING = ("worker", "handler", "next_done", "tx_origin")  # ... and temporary values of a step.
KEPT = ("ports", "readers", "queues", "nics", "host_ports", "tx", "rx", "tasks", "program_hosts")


def seen(engine: Engine) -> tuple[Any, ...]:
    """Return all results of an engine."""
    links = [column.tolist() for column in vars(engine.link_counters()).values()]
    flows, tasks, rows = flow_results(engine), task_results(engine), log_rows(engine)
    slots = slot_begins(engine, INF) if engine.feature_set.phase_driven else []
    counts = replace(engine.counts, windows=0)  # ranks have their own windows
    return engine.digest(), counts, engine.conservation(), links, flows, tasks, rows, slots


def records(engine: Engine) -> dict[str, Any]:
    """Return the fields of the engine's records that must not differ between engines."""
    groups = {**engine.state.links._asdict(), **engine.state.hosts._asdict()}
    return {
        f"{name}.{field}": np.array(np.asarray(groups[name])[field])
        for name in KEPT
        for field in groups[name].dtype.names
        if field not in PLACES + WORKING
    }


def divided(case: Case, **given: Any) -> Callable[[ThreadRanks], Engine]:
    """Return a function that builds the engine of a rank."""

    def build_rank(ranks: ThreadRanks) -> Engine:
        def make(simulation: Any, options: Any) -> Engine:
            return PartitionedEngine(simulation, replace(options, ranks=ranks))

        engine = engine_for(case, make=make, **given)
        engine.advance(0, INF)  # load code
        return engine

    return build_rank


def drawn(seed: int, **named: Any) -> Case:
    """Return a random case that ranks can run: not with UGAL-G, which publishes values."""
    case = random_case(seed, **named)
    is_refused = case.fabric["routing"] == "ugal_g"
    return random_case(seed, routing="ugal_l", **named) if is_refused else case


def check(seed: int, **named: Any) -> None:
    """Compare a case on a random number of ranks with one process, window by window. Then resume it
    from its middle, or start again, with another number of ranks, each up to its own horizon."""
    rng = random.Random(seed)
    case = cut_short(drawn(seed, **named), 800)
    sampling = sampled(case, case.until_ps // 20 + 1) if rng.random() < 0.3 else None
    until_ps = INF if case.until_ps is None else case.until_ps
    given: dict[str, Any] = {"jit": False, "trace": False, "sampling": sampling}
    windows, first, then = rng.randint(1, 30), rng.randint(2, 4), rng.randint(1, 4)
    stops, looks, resumes = (rng.random() < 0.5 for _ in range(3))

    whole = engine_for(case, **given)
    whole.advance(windows, until_ps)
    half, at_half = seen(whole), records(whole)

    def begin(engine: Engine) -> Snapshot:
        engine.advance(windows, until_ps)
        assert seen(engine) == half
        for name, column in records(engine).items():
            assert np.array_equal(column, at_half[name]), name
        return kept(engine)

    def finish(engine: Engine) -> Status:
        while (status := engine.advance(1000, until_ps, stop_when_done=stops)) is Status.RUNNING:
            pass
        return status

    snapshot = with_ranks(first, divided(case, **given), begin)
    ending = finish(whole)

    def end(engine: Engine) -> Snapshot:
        if resumes:
            engine.restore(snapshot)
        engine.advance(3, until_ps, stop_when_done=stops)
        assert engine.flow_states().done_ps.size == len(case.flows)  # gathered alone
        later = kept(engine) if looks else snapshot
        assert finish(engine) is ending
        assert seen(engine) == seen(whole)
        if sampling is not None:
            equal(reading(engine), reading(whole))
        return later

    with patch.object(partitioned, "FEW_WINDOWS", 0):
        later = with_ranks(then, divided(case, **given), end)
    alone = engine_for(case, **given)
    alone.restore(later)
    assert finish(alone) is ending
    assert seen(alone) == seen(whole)


def test_rank_writes_only_its_own_and_shared_rows() -> None:
    """One of four ranks has its quarter of a tree, the other ends of its cables, and its flows."""
    network = fat_tree(8, 16, "100Gbps")
    flows = FlowTable(np.arange(128), (np.arange(128) + 64) % 128, 10_000)
    one_of_four = ThreadRanks(1, Meeting(4))
    engine = build(network, flows, "roce", fabric_with(), jit=False, ranks=one_of_four)
    own = engine._state.share.of_node == 1
    port, hosts = own[network.port_node], own[:128]
    ends = port | port[network.port_peer]
    written = {"ports": ends, "readers": ends, "queues": port, "routing_ports": port}
    written |= dict.fromkeys(("tx", "rx", "nics"), hosts[flows.src] | hosts[flows.dst])
    arrays = {**engine._state.links._asdict(), **engine._state.hosts._asdict()}
    for name, rows in written.items():
        entries = entries_of(np.asarray(arrays[name]))
        others = entries.reshape(rows.size, -1)[~rows]
        assert others.size
        assert not others.any(), name


@pytest.mark.parametrize("seed", [0, 1, 2, 14])
def test_ranks_agree_with_one_process(seed: int) -> None:
    check(seed)


def test_ranks_agree_with_phase_driven_circuits() -> None:
    check(1, racks=True)


def test_ranks_start_flows_that_wait_for_flows_elsewhere() -> None:
    check(27, tasks=True, circuits=False, program=False)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 60))
def test_ranks_agree_with_one_process_long(seed: int) -> None:
    check(seed)
    check(seed, racks=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(25))
def test_compiled_cases_agree_for_any_ranks_and_threads(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cases match the reference, with 1 to 4 ranks of 1 or 2 threads, little memory and in pieces.

    Every case compiles separate code; its variants, with other seeds and flow sizes, share it.
    """
    monkeypatch.setattr(loop, "SHARED_NS", 0)  # threads share the work of every window
    rng = random.Random(seed)
    first = random_case(seed)
    sampling = way_of(first, rng).sampling
    n_ranks = () if first.fabric["routing"] == "ugal_g" else range(1, 5)
    for case in variants(first, rng):
        given: dict[str, Any] = {"trace": False, "sampling": sampling}
        whole = run(engine_for(case, **given), case.until_ps)
        compare_totals(whole, simulate(case))

        def compared(engine: Engine, whole: Engine = whole, until_ps: Any = case.until_ps) -> None:
            run(engine, until_ps)
            assert seen(engine) == seen(whole)
            if sampling is not None:
                equal(reading(engine), reading(whole))

        for ranks, threads in itertools.product(n_ranks, (1, 2)):
            with_ranks(ranks, divided(case, threads=threads, **given), compared)
        compared(engine_for(case, threads=rng.choice((2, 3, 4)), sizes=NARROW, **given))
        pieces = {"jit": True, "threads": 2, "sampling": sampling}
        compared(run_in_pieces(case, case.seed, whole.counts.windows, **pieces))


TREE = {"kind": "fat_tree", "host_rate": "400Gbps", "hosts_per_leaf": 4, "leaves": 4, "spines": 4}
THREE_TIERS = {"kind": "fat_tree", "host_rate": "400Gbps", "tiers": 3, "radix": 4}
PLANES = {"kind": "multi_plane", "planes": 2, "plane": TREE}
RAILS = {"kind": "multi_rail", "gpus_per_rack": 4, "rail": TREE}
TWO = {"kind": "wan", "datacenter": TREE, "link_rate": "400Gbps", "delay": "10us"}
EVEN = {"kind": "permutation", "size": "100KB"}


@pytest.mark.parametrize(
    ("topology", "traffic", "n", "cut", "balance"),
    [
        (TREE, EVEN, 2, 8, 1.05),  # of 32 cables: 2 leaves to 2 spines, twice
        (THREE_TIERS, EVEN, 2, 8, 1.1),  # of 48: pods to the core switches of others
        (THREE_TIERS, EVEN, 4, 12, 1.15),
        (PLANES, EVEN, 2, 16, 1.05),  # of 64: 8 in each plane
        (RAILS, {**EVEN, "size": "40KB"}, 2, 32, 1.1),  # of 192: only between racks and rails
        (TWO, EVEN, 2, 1, 1.05),  # of 73: the long one
        (TWO, {**EVEN, "load": 0.8}, 2, 1, 1.1),
        ({**THREE_TIERS, "radix": 8}, {**EVEN, "load": 0.3}, 4, 120, 1.1),  # of 384
    ],
)
def test_ranks_have_equal_shares_and_cut_few_cables(
    topology: dict[str, Any], traffic: dict[str, Any], n: int, cut: int, balance: float
) -> None:
    given = {"name": "x", "transport": "ndp", "topology": topology, "traffic": traffic}
    [point] = Experiment.from_mapping(given).points()
    scenario = prepare(point)
    jit = False if topology in (PLANES, RAILS) else None  # the others share compiled code
    engine = build_engine(point, scenario, Options(jit=jit))
    drive(engine)
    state, network = engine.state, scenario.network
    parts = divide(state.net, network.port_delay_ps, scenario.flows, n)
    here, there = parts[network.port_node], parts[network.port_node[network.port_peer]]
    of_parts = np.bincount(here, weights=state.links.readers["head"], minlength=n)
    found = int((here != there).sum()) // 2, float(of_parts.max() / of_parts.mean())
    assert found[0] <= cut
    assert found[1] <= balance


def test_watchdog_ignores_a_run_that_progresses() -> None:
    numbers, hung = count(), threading.Event()
    with watched(lambda: next(numbers), hung.set, 0.1):
        _work(0.3)
    assert not hung.is_set()


def test_watchdog_reports_a_busy_run_without_progress() -> None:
    hung = threading.Event()
    with watched(lambda: 0, hung.set, 0.1):
        _work(0.5)
        assert hung.is_set()


def test_watchdog_ignores_a_process_that_is_not_running() -> None:
    """A process that is suspended or swapped out makes no progress, but has not hung."""
    hung = threading.Event()
    with watched(lambda: 0, hung.set, 0.2):
        assert not hung.wait(0.6)


def _work(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass
