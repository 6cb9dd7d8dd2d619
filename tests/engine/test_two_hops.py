"""Indirect routes over two circuits against closed forms: throughput and waiting time."""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from circuit_racks import FULL_PS, PACKETS, racks
from engine_runs import (
    DROP_TAIL,
    NS,
    US,
    build,
    fct_ps,
    flow_table,
    keep_sent,
    packets_sent,
    resolve,
    run,
)
from series_case import equal, reading

from netsim.engine.engine import Engine
from netsim.errors import RunError
from netsim.model.fabric import CircuitRules
from netsim.model.network import Network
from netsim.model.sampling import Sampling
from netsim.network import Schedule, round_robin_matchings
from netsim.plugins import registry
from netsim.plugins.registry import PluginSpec
from netsim.tracing.flow_trace import event_table
from netsim.tracing.segments import order_trace

SLOT, DARK = 10 * FULL_PS, FULL_PS
DUTY = 0.9
CYCLES, BEFORE = 20, 5  # simulated periods, and how many of them are warm-up
Flows = list[tuple[int, int, int, int]]


def rotor(n: int) -> Network:
    """Return switches that one rotor connects, with a 100 Gbps host each."""
    schedule = Schedule(SLOT, round_robin_matchings(n), reconfiguration_delay_ps=DARK)
    return racks(schedule, fiber_ps=300 * NS)


def on(network: Network, flows: Flows, indirect: str, rate: str = "none") -> Engine:
    """Return an engine in plain Python for datagrams of class 1, with unbounded queues."""
    fabric = replace(DROP_TAIL, n_traffic_classes=2, circuits=CircuitRules(indirect=indirect))
    params = {"data_class": 1, "rate": rate}
    given = {"packets": PACKETS, "params": params, "jit": False}
    return build(network, flow_table(flows), "datagram", fabric, **given)


def share_of_line_rate(engine: Engine, n: int) -> float:
    """Return the steady-state throughput of all hosts as a share of their line rate."""
    period = (n - 1) * SLOT
    run(engine, BEFORE * period)
    before = int(engine.flow_states().received_bytes.sum())
    run(engine, CYCLES * period)
    got = int(engine.flow_states().received_bytes.sum()) - before
    assert engine.conservation().packets.missing == 0
    return got / 936 * FULL_PS / (n * (CYCLES - BEFORE) * period)


def patterns(n: int, packets: int) -> tuple[Flows, Flows]:
    """Return flows of each host to the next host, and of each host to all others."""
    permutation = [(a, (a + 1) % n, 936 * packets, 0) for a in range(n)]
    uniform = [(a, b, 936 * packets, 0) for a in range(n) for b in range(n) if a != b]
    return permutation, uniform


def test_direct_circuits_carry_all_to_all_but_little_of_a_permutation() -> None:
    n = 6
    permutation, uniform = patterns(n, 10 * CYCLES * (n - 1))
    network = rotor(n)
    assert share_of_line_rate(on(network, uniform, "none"), n) == pytest.approx(DUTY, rel=0.02)
    alone = DUTY / (n - 1)
    assert share_of_line_rate(on(network, permutation, "none"), n) == pytest.approx(alone, rel=0.02)


def test_opportunistic_carries_over_half_of_a_permutation() -> None:
    """One slot of a cycle is direct. The other n - 2 carry first hops and second hops, half each,
    because every indirect packet takes both. All-to-all loses nothing."""
    n = 4
    permutation, uniform = patterns(n, 10 * CYCLES * (n - 1))
    network = rotor(n)
    both = DUTY * (1 + (n - 2) / 2) / (n - 1)
    found = share_of_line_rate(on(network, permutation, "opportunistic"), n)
    assert found == pytest.approx(both, rel=0.02)
    assert found > DUTY / 2
    found = share_of_line_rate(on(network, uniform, "opportunistic"), n)
    assert found == pytest.approx(DUTY, rel=0.02)


def test_vlb_carries_half_of_any_traffic() -> None:
    """42 Gbps are offered, 45 are possible; direct circuits would carry 30 of a permutation."""
    n = 4
    permutation, uniform = patterns(n, 10 * CYCLES * (n - 1))
    network = rotor(n)
    for flows, rate in ((permutation, "42Gbps"), (uniform, "14Gbps")):
        found = share_of_line_rate(on(network, flows, "vlb", rate), n)
        assert found == pytest.approx(0.42, rel=0.02)


@pytest.mark.parametrize("indirect", ["opportunistic", "vlb"])
def test_no_packet_crosses_more_than_two_circuits(indirect: str) -> None:
    permutation, uniform = patterns(4, 100)
    engine = run(keep_sent(on(rotor(4), permutation + uniform, indirect)))
    assert (fct_ps(engine) > 0).all()
    ports = range(engine.network.n_ports)
    by_hop = np.bincount(np.concatenate([packets_sent(engine, p)["hops"] for p in ports]))
    assert by_hop.size == 5  # the fourth link leads to a host, after two circuits
    assert by_hop[1:4].tolist() == [4 * 100 * 4] * 3
    assert 0 < by_hop[4] < by_hop[3]


def test_mean_wait_over_two_circuits_equals_that_over_one() -> None:
    """An indirect packet leaves at once, but its second circuit may come up to a cycle later."""
    n = 4
    network, period = rotor(n), (n - 1) * SLOT
    rng = np.random.Generator(np.random.Philox(2))
    pairs = [(a, b) for a in range(n) for b in range(n) if a != b]
    # One packet every three cycles, of varying pairs and at a random phase.
    starts = [3 * k * period + int(rng.integers(period)) for k in range(120)]
    flows = [(*pairs[k % len(pairs)], 936, start) for k, start in enumerate(starts)]
    direct, opportunistic = (
        fct_ps(run(on(network, flows, how))) for how in ("none", "opportunistic")
    )
    alone = 2 * US + 600 * NS + 3 * FULL_PS
    assert (direct - alone).min() >= 0
    assert (direct - alone).max() <= period
    assert (opportunistic - alone).min() >= 0
    assert (opportunistic - alone).max() <= period + SLOT + 600 * NS + FULL_PS
    assert abs(opportunistic.mean() - direct.mean()) < SLOT / 2
    assert (opportunistic > direct).any()
    assert (opportunistic < direct).any()


def with_everything(indirect: str, **options: Any) -> Engine:
    """Return an engine with two transports on indirect circuits, with series and a trace."""
    network, (permutation, uniform) = rotor(6), patterns(6, 60)
    table = flow_table(permutation + uniform)
    rules = CircuitRules(100 * NS, 300 * NS, indirect=indirect)
    fabric = replace(DROP_TAIL, n_traffic_classes=2, circuits=rules)
    datagram = registry.find("transport", "datagram")
    paced = PluginSpec(datagram, resolve(datagram, {"data_class": 1, "rate": "50Gbps"}))
    things = np.arange(network.n_ports), np.arange(6), np.arange(len(table))
    sampling = Sampling(US, *things, queues=True, sample_budget_bytes=300_000)
    options |= {"beside": [paced], "transport_of_flow": np.arange(len(table)) % 2}
    options |= {"trace": (1, len(table) - 1), "sampling": sampling, "packets": PACKETS}
    return build(network, table, "datagram", fabric, params={"data_class": 1}, **options)


@pytest.mark.parametrize("indirect", ["opportunistic", pytest.param("vlb", marks=pytest.mark.slow)])
def test_compiled_and_threaded_runs_agree_with_plain(indirect: str) -> None:
    """Array bounds are checked; no other quick test compiles a trace, series or two transports."""

    def trace_of(engine: Engine) -> pl.DataFrame:
        rows = order_trace(engine.network, engine.drain_trace())
        return event_table(engine.network, rows, engine.protocol.modules[0], engine.own_names(0))[0]

    plain = run(with_everything(indirect, jit=False))
    rows, levels = trace_of(plain), plain.queue_levels()
    events = set(rows["event"])
    assert "send" in events
    assert ("indirect" in events) == (indirect == "opportunistic")
    for threads in (1, 2):
        compiled = run(with_everything(indirect, threads=threads, checked=True))
        assert compiled.digest() == plain.digest()
        equal(reading(compiled), reading(plain))
        assert compiled.queue_levels().mean_bytes.tolist() == levels.mean_bytes.tolist()
        assert compiled.queue_levels().p99_bytes.tolist() == levels.p99_bytes.tolist()
        assert trace_of(compiled).equals(rows)


def test_checked_run_detects_access_beyond_an_array() -> None:
    """An array of the engine is replaced by one that is too short."""
    engine = with_everything("opportunistic", checked=True)
    engine.state.scratch = engine.state.scratch._replace(outs=np.zeros((1, 1), np.int32))
    with pytest.raises(RunError) as raised:
        run(engine)
    assert isinstance(raised.value.__cause__, IndexError)
