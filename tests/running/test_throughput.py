"""[measure]: what the measurement window counts, also in resumed and distributed runs."""

import numpy as np
import pytest
from raises_input import raises_input
from ranks_case import ThreadRanks, with_ranks

from netsim.engine.engine import Engine
from netsim.engine.kernels.layout import INF
from netsim.engine.simulation import Options
from netsim.experiment import Experiment
from netsim.experiment.scenario import prepare
from netsim.reports.throughput import batch_mean
from netsim.running.checkpoint import Checkpointer
from netsim.running.drive import drive
from netsim.running.point import build_engine, readings_of, simulate

US = 10**6
EXPERIMENT = {
    "transport": "datagram",
    "topology": {"kind": "fat_tree", "hosts_per_leaf": 2, "leaves": 2, "host_rate": "100Gbps"},
    "traffic": {"kind": "poisson", "sizes": "4096B", "load": 0.6},
    "measure": {"warmup": "5us", "window": "50us", "drain": "10us"},
}
FIRST, LAST = 5 * US, 55 * US


pytestmark = pytest.mark.usefixtures("plain_python")


def point(**sections):
    (found,) = Experiment.from_mapping({**EXPERIMENT, **sections}).points()
    return found


@pytest.mark.parametrize("transport", ["datagram", "ndp"])
def test_window_counts_its_delivered_and_injected_flows(transport) -> None:
    """Flows have one packet, so they are delivered when they complete."""
    result = simulate(point(transport=transport), threads=1)
    assert (result.stop_reason, result.complete) == ("measured", True)
    assert result.summary["simulated_ps"] == 65 * US
    flows, found = result.flows, result.summary["throughput"]
    end_ps = flows["start_ps"] + flows["fct_ps"]
    accepted = (flows["fct_ps"] >= 0) & (end_ps >= FIRST) & (end_ps < LAST)
    injected = (flows["start_ps"] >= FIRST) & (flows["start_ps"] < LAST)
    assert flows["start_ps"].max() > LAST  # traffic continues
    assert (flows["window_bytes"] == np.where(accepted, 4096, 0)).all()
    assert (flows["delivered_bytes"] == np.where(flows["fct_ps"] >= 0, 4096, 0)).all()
    load = 4160 * 8 / (4 * 100e9 * 50e-6)
    assert found["accepted_load"] == pytest.approx(accepted.sum() * load)
    assert found["offered_load"] == pytest.approx(injected.sum() * load)
    assert found["offered_load"] == pytest.approx(0.6, abs=0.1)
    assert found["excess_load"] == pytest.approx((injected.sum() - accepted.sum()) * load)
    assert found["goodput_bps"] == pytest.approx(accepted.sum() * 4096 * 8 / 50e-6)
    hosts, batches = result.measured_hosts, result.measured_batches
    for name, ends, which in (
        ("offered", "src", injected),
        ("accepted", "src", accepted),
        ("received", "dst", accepted),
    ):
        counts = np.bincount(flows[ends][which], minlength=4)
        assert (hosts[f"{name}_bytes"] == counts * 4096).all()
        assert hosts[f"{name}_load"] == pytest.approx(counts * load * 4)
    for name, times, which in (
        ("offered_load", flows["start_ps"], injected),
        ("accepted_load", end_ps, accepted),
    ):
        counts = np.histogram(times[which], np.linspace(FIRST, LAST, 21))[0]
        assert batches[name] == pytest.approx(counts * load * 20)
    done = np.sort(flows["fct_ps"][injected & (flows["fct_ps"] >= 0)])
    n = int(injected.sum())
    assert (found["flows_injected"], found["flows_undelivered"]) == (n, n - done.size)
    latency = found["latency_ps"]
    assert latency["mean"] == pytest.approx(done.mean())
    assert latency["p50"] == done[-(-n // 2) - 1]


def test_undelivered_flows_have_an_infinite_latency() -> None:
    """More than half of the flows still wait at their source, so the median is infinite."""
    slow = {"kind": "datagram"}
    more = {**EXPERIMENT["traffic"], "load": 4.0}
    times = {"warmup": "5us", "window": "50us", "drain": "0s"}
    found = simulate(point(transport=slow, traffic=more, measure=times), threads=1).summary
    found = found["throughput"]
    assert found["flows_undelivered"] > found["flows_injected"] / 2
    assert found["latency_ps"]["p50"] is None
    assert found["accepted_load"] < 1
    assert found["excess_load"] > found["excess_interval"]
    assert found["worst_host"]["accepted_load"] < 1


def test_link_utilization_and_hops_cover_the_window(tmp_path) -> None:
    """Datagrams from leaf 0 to leaf 1 at line rate cross 4 links each."""
    (tmp_path / "pipe.csv").write_text("src,dst,size\n0,2,2MB\n")
    pipes = {"kind": "flow_list", "file": str(tmp_path / "pipe.csv")}
    result = simulate(point(traffic=pipes), threads=1)
    found, links = result.summary["throughput"], result.links
    used = links["utilization"][links["utilization"] > 0]
    assert used == pytest.approx(np.ones(4), abs=1 / 150)
    assert found["busiest_link"]["utilization"] == links["utilization"].max()
    assert found["mean_hops"] == 4.0
    assert found["accepted_load"] == pytest.approx(1.0, abs=0.008)  # of the only sender
    assert found["flows_injected"] == 0
    # The flow is longer than the window, so its host offers its rate in all of it.
    assert found["offered_load"] == pytest.approx(1.0)
    assert result.measured_batches["offered_load"] == pytest.approx(np.ones(20))
    assert found["worst_host"]["offered_load"] == pytest.approx(1.0, abs=1e-4)  # whole packets


@pytest.mark.parametrize(
    ("polls", "low", "high"),
    [(2, 1, FIRST), (30, FIRST, LAST), (66, LAST, 65 * US)],
    ids=["warm-up", "window", "drain"],
)
def test_resumed_run_measures_the_same(tmp_path, monkeypatch, polls, low, high) -> None:
    monkeypatch.setattr("netsim.running.drive.CHUNK_S", 0.0)
    whole = simulate(point(), threads=1)
    left = [polls]

    def stop() -> bool:
        left[0] -= 1
        return left[0] < 0

    inputs = {"experiment": {}, "plugins": [], "data": [], "libraries": {}, "netsim": "1"}
    path = tmp_path / "c"
    first = Checkpointer("e", path, inputs, 1000.0)
    assert simulate(point(), threads=1, should_stop=stop, checkpointer=first).stop_reason == (
        "interrupted"
    )
    second = Checkpointer("e", path, inputs, None)
    second.find()
    assert low <= second.since_ps < high
    resumed = simulate(point(), threads=1, checkpointer=second)
    assert resumed.hash == whole.hash
    assert resumed.summary["throughput"] == whole.summary["throughput"]


@pytest.mark.parametrize(
    ("topology", "pattern", "fabric", "exact"),
    [
        ({"kind": "torus", "shape": "8"}, "tornado", {}, 1 / 3),
        ({"kind": "torus", "shape": "8"}, "tornado", {"routing": "valiant"}, 4 / 8),
        (
            {"kind": "hyperx", "shape": "8", "hosts_per_switch": 7},
            "group_plus_one",
            {"routing": "valiant", "intermediate": "other"},
            3 / 7,
        ),
        ({"kind": "torus", "shape": "8"}, "tornado", {"routing": "ugal_l"}, None),
    ],
)
def test_saturation_bound_follows_the_routing(topology, pattern, fabric, exact) -> None:
    """Valiant's bound covers both legs; adaptive routing has none."""
    traffic = {**EXPERIMENT["traffic"], "pattern": pattern}
    times = {"warmup": "0s", "window": "500ns", "drain": "0s"}
    few = point(topology=topology, traffic=traffic, fabric=fabric, measure=times)
    found = simulate(few, threads=1).summary["throughput"]["saturation_bound"]
    assert found == (exact and pytest.approx(exact))


def test_legs_of_the_wrong_shape_are_rejected(tmp_path) -> None:
    (tmp_path / "mine.py").write_text(
        "PARAMS = []\n\n\ndef choose(env, now, port, pkt, first, n):\n    return 0\n\n\n"
        "def legs(params, demand):\n    return demand[:1]\n"
    )
    with raises_input("legs()", "2 by 2"):
        simulate(point(fabric={"routing": str(tmp_path / "mine.py")}), threads=1)


def test_ranks_measure_the_same_as_one_process() -> None:
    scenario = prepare(point())

    def build(ranks: ThreadRanks | None) -> Engine:
        engine = build_engine(point(), scenario, Options(threads=1, ranks=ranks))
        engine.advance(0, INF)
        return engine

    def read(engine: Engine) -> dict[str, np.ndarray]:
        readings = readings_of(point(), scenario)
        assert readings is not None
        while (edge_ps := readings.next_ps) is not None:
            assert drive(engine, until_ps=edge_ps, stop_when_done=False) == "time_limit"
            readings.take(engine)
        return readings.arrays()

    alone, together = read(build(None)), with_ranks(2, build, read)
    assert alone["received_bytes"][1].sum() > 0
    for name, array in alone.items():
        assert np.array_equal(together[name], array), name


def test_correlated_batches_are_joined_for_the_interval() -> None:
    rng = np.random.default_rng(1)
    independent = rng.normal(1.0, 0.1, (2000, 20))
    found = [batch_mean(row) for row in independent]
    covered = np.mean([abs(one["mean"] - 1.0) < one["interval"] for one in found])
    assert 0.90 < covered < 0.97  # 95 %, minus the cost of joined pairs
    drift = batch_mean(np.repeat(rng.normal(1.0, 0.1, 5), 4))
    assert drift["batches"] == 5
    assert batch_mean(np.ones(20))["interval"] == 0.0
