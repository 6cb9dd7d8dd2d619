"""Running a point: the loop, its threads, its profile, and its prediction."""

from collections import OrderedDict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from changed_handlers import engine as broken
from changed_handlers import in_handler
from engine_runs import DROP_TAIL, TRIM, US, build, fat_tree, flow_table
from experiment_text import load, text
from raises_input import mentions, raises, raises_input

from netsim.engine.engine import Engine
from netsim.engine.simulation import FeatureSet
from netsim.engine.state_views import Counts, Status
from netsim.errors import RunError
from netsim.experiment import Experiment, Point, locate
from netsim.results import load_result, summary_of, write_result
from netsim.results.write import sweep_row
from netsim.running.drive import StallDetector, StepReport, drive
from netsim.running.estimate import Code, code_needed, estimate
from netsim.running.point import Progress, simulate

SMALL = {"topology": 'kind = "fat_tree"\nhosts_per_leaf = 4\nleaves = 4\nhost_rate = "100Gbps"'}


def only_point(tmp_path: Path, *overrides: str) -> Point:
    (point,) = load(tmp_path, text(**SMALL), *overrides).points()
    return point


def test_immediately_interrupted_run_is_written_as_partial(tmp_path: Path) -> None:
    point = only_point(tmp_path)
    result = simulate(point, should_stop=lambda: True)
    assert (result.complete, result.stop_reason) == (False, "interrupted")
    assert result.summary["fct_ps"]["max"] is None
    assert sweep_row(point, summary_of(result))["fct_max_ps"] is None
    written = load_result(write_result(tmp_path / "out", point, result))
    assert written.summary["complete"] is False
    assert written.flows["fct_ps"].null_count() == 16


def test_last_progress_report_has_everything_done(tmp_path: Path) -> None:
    seen: list[Progress] = []
    result = simulate(only_point(tmp_path), progress=seen.append)
    assert result.complete
    assert seen[0].phase in ("load", "compile")
    last = seen[-1]
    assert (last.flows_done, last.bytes_done) == (last.flows_total, last.bytes_total)
    assert last.packet_hops == result.summary["packet_hops"]


def test_compiled_code_is_loaded_by_later_runs(tmp_path, monkeypatch) -> None:
    point = only_point(tmp_path)
    simulate(point)
    seen: list[Progress] = []
    simulate(point, progress=seen.append)
    assert seen[0].phase == "load"
    monkeypatch.setenv("NETSIM_CACHE_DIR", str(tmp_path / "empty"))
    assert code_needed([point], [FeatureSet()]) == Code(needed=1, missing=0)  # this process has it
    monkeypatch.setattr("netsim.engine.compiling.specialize._loaded", OrderedDict())
    assert code_needed([point, point], [FeatureSet(), FeatureSet()]) == Code(needed=1, missing=1)
    assert code_needed([point], [FeatureSet()], tracing=True).seconds > 5


def test_flow_and_link_tables_are_consistent(tmp_path: Path) -> None:
    result = simulate(only_point(tmp_path))
    flows, links, conserved = result.flows, result.links, result.summary["conservation"]
    assert links["packets"].sum() == result.summary["packet_hops"]
    from_hosts = np.char.startswith(links["from_name"], "h")
    assert links["packets"][from_hosts].sum() == conserved["packets"]["sent"]
    assert links["bytes"][from_hosts].sum() == conserved["bytes"]["sent"]
    assert (flows["fct_ps"] >= flows["ideal_ps"]).all()
    assert (flows["packets_sent"] == flows["packets"] + flows["retransmits"]).all()
    assert links["utilization"].max() <= 1


def test_drain_runs_until_no_packet_is_in_flight(tmp_path: Path) -> None:
    stopped = simulate(only_point(tmp_path))
    drained = simulate(only_point(tmp_path, "stop.drain=true"))
    assert drained.summary["conservation"]["packets"]["in_flight"] == 0
    assert drained.summary["simulated_ps"] >= stopped.summary["simulated_ps"]
    assert (drained.flows["fct_ps"] == stopped.flows["fct_ps"]).all()


def test_memory_error_in_build_is_an_input_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = only_point(tmp_path)

    def build(_: object) -> None:
        raise MemoryError("27 GiB")

    monkeypatch.setattr(point.topology.module, "build", build)
    with raises_input("memory"):
        simulate(point)


def test_ideal_transport_takes_the_ideal_time(tmp_path: Path) -> None:
    result = simulate(only_point(tmp_path, "transport=ideal"))
    assert (result.flows["slowdown"] == 1).all()
    assert result.summary["packet_hops"] == 0


FLOWS = flow_table([(0, 3, 200_000, 0), (1, 2, 400_000, 50 * US)])


def engine(transport: str = "ndp") -> Engine:
    fabric = TRIM if transport == "ndp" else DROP_TAIL
    return build(fat_tree(2, 2, "100Gbps"), FLOWS, transport, fabric, jit=False)


def test_run_ends_when_all_flows_are_done() -> None:
    """The network need not be empty: NDP's last acknowledgments arrive after the last delivery."""
    one, drained = engine(), engine()
    assert drive(one) == "finished"
    assert drive(drained, stop_when_done=False) == "undelivered"
    assert one.counts.delivered == one.counts.finished == len(FLOWS)
    assert one.counts.hops <= drained.counts.hops
    assert drained.conservation().packets.in_flight == 0


def test_run_stops_at_the_time_limit_and_can_continue() -> None:
    one = engine()
    assert drive(one, until_ps=60 * US) == "time_limit"
    assert one.now_ps == 60 * US
    assert drive(one) == "finished"  # and can continue


def test_observer_sees_every_step() -> None:
    for windows in [1, 10, None]:
        seen: list[StepReport] = []
        one = engine()
        assert drive(one, seen.append, windows=windows) == "finished"
        assert seen[-1].status is Status.DONE
        assert seen[-1].counts == one.counts
        assert all(report.is_running for report in seen[:-1])
        lengths = [b.counts.windows - a.counts.windows for a, b in pairwise(seen)]
        assert windows is None or set(lengths[:-1]) == {windows}
        assert sorted(report.wall_s for report in seen) == [report.wall_s for report in seen]


def test_observer_can_end_the_run() -> None:
    """The observer's reason takes precedence over the engine's and over an interruption."""

    def first_flow(report: StepReport) -> str | None:
        return "the first flow is done" if report.counts.delivered else None

    one = engine()
    why = drive(one, first_flow, windows=1, should_stop=lambda: one.counts.delivered > 0)
    assert mentions(why, "flow")
    assert one.counts.delivered == 1


def test_handler_error_names_file_handler_and_source_line(tmp_path: Path) -> None:
    one = broken(tmp_path, in_handler("on_control", "tx.n_acked //= now - now"))
    with pytest.raises(RunError) as caught:
        drive(one)
    message = str(caught.value)
    assert mentions(message, "mine.py", "on_control")
    assert "ZeroDivisionError" in message
    assert ": tx.n_acked //= now - now)" in message


def test_setup_error_names_file_and_host(tmp_path: Path) -> None:
    with raises(RunError, "mine.py", "host 0", "3"):
        broken(tmp_path, in_handler("setup", "raise SystemExit(3)"))


def test_stall_detector_limits_time_and_windows_without_progress() -> None:
    """The limits are 10 ps and 3 windows; exceeding either one is a stall."""

    def at(now_ps: int, windows: int) -> Counts:
        return Counts(now_ps, windows, hops=0, delivered=0, finished=0, payload_bytes=0)

    stall_detector = StallDetector(10, 3)
    assert not stall_detector.is_stalled(at(20, 1), 0)
    assert not stall_detector.is_stalled(at(30, 4), 0)
    assert stall_detector.is_stalled(at(31, 4), 0)
    assert stall_detector.is_stalled(at(30, 5), 0)
    assert not stall_detector.is_stalled(at(35, 6), 1)
    assert stall_detector.since_ps == 35
    assert not StallDetector(10).is_stalled(at(5, 1000), 0)


# Experiment, overrides that select the point, packet-hops, and seconds on one thread.
MEASURED = [
    ("all_to_all", ["transport=roce", "traffic.one_by_one=false"], 2_030_101, 0.345),
    ("dcqcn_fairness", ["transport=roce", "traffic.fan_in=16"], 3_281_424, 0.309),
    ("fct_vs_load", ["transport=homa", "traffic.load=1.0", "seed=1"], 470_082, 0.0331),
    ("fct_vs_load", ["transport=roce", "traffic.load=0.5", "seed=1"], 242_642, 0.0570),
    ("homa_w4", ["transport.priorities=8"], 27_533_864, 5.80),
    ("incast", ["transport=ndp", "traffic.fan_in=64"], 205_276, 0.0466),
    ("incast", ["transport=roce", "traffic.fan_in=4"], 8_090, 0.00245),
    ("incast_dcqcn", ["transport=roce", "traffic.size=20MB"], 1_248_406, 0.250),
    ("load_balancing", ["fabric.routing=ecmp", "seed=1"], 1_473_608, 0.0967),
    ("load_balancing", ["fabric.routing=ecmp", "seed=2"], 1_664_864, 0.1076),
    ("load_balancing", ["fabric.routing=spray_round_robin", "seed=1"], 736_484, 0.0568),
    ("md1", ["traffic.load=0.3"], 1_000_000, 0.808),
    ("md1", ["traffic.load=0.9"], 1_000_000, 0.748),
    ("p2p_512", ["transport=ndp:800g"], 2_970_116, 0.178),
    ("p2p_512", ["transport=roce:800g"], 1_983_860, 0.300),
    ("pfc_victim", ["transport=roce"], 14_066, 0.00298),
    ("wan_beside", ["flow_classes.wan.transport.data_class=1"], 9_720_695, 0.426),
    ("wan_fec", ["transport=wan_fec:loss_1%", "faults.errors.loss_rate=1e-4"], 354_166, 0.0502),
    ("wan_tcp", ["transport=cubic", "faults.errors.loss_rate=1e-4"], 26_858_093, 0.949),
]


def point_of(name, overrides):
    return Experiment.load(locate(name), overrides).points()[0]


def todo_of(name, overrides):
    return estimate(point_of(name, overrides))


def test_estimated_hops_and_time_of_shipped_experiments():
    for name, overrides, hops, seconds in MEASURED:
        todo = todo_of(name, overrides)
        assert todo.packet_hops == pytest.approx(hops, rel=0.2)
        assert 0.5 < todo.simulation_s(1) / seconds < 2


@pytest.mark.parametrize(
    ("transport", "hops"),
    # wan_fec sends the parity of a block, expresspass the credits of a round trip.
    [("wan_fec", 168), ("expresspass", 160)],
)
def test_hop_estimate_includes_parity_and_credit_packets(transport, hops):
    """Eight flows of one packet each cross 24 links; the hops were counted in a run."""
    tree = {"kind": "fat_tree", "hosts_per_leaf": 4, "leaves": 2}
    traffic = {"kind": "permutation", "size": "1KB"}
    content = {"topology": tree, "transport": transport, "traffic": traffic}
    (point,) = Experiment.from_mapping(content).points()
    assert 0.5 < estimate(point).packet_hops / hops < 2


@pytest.mark.parametrize(
    ("rate", "hops"),
    # in the head of the experiment, on 64 times as many hosts
    [("10Gbps", 712_660), ("29.97567Gbps", 2_028_412), ("60.09756Gbps", 3_290_159)],
)
def test_hop_estimate_of_a_stopped_run_follows_the_pace_of_datagrams(rate, hops):
    smaller = ["topology.radix=8", "traffic.shape='128'", "traffic.group_offset=64"]
    todo = todo_of("days_e1", [f"transport.rate={rate}", *smaller])
    assert 1 < todo.packet_hops / (hops / 64) < 1.5


def test_two_threads_help_when_windows_have_many_hops():
    """Measured with two threads: p2p_512 0.099 s instead of 0.178 s, homa_w4 6.1 instead of 5.8."""
    busy = todo_of("p2p_512", ["transport=ndp:800g"])
    assert 1.5 < busy.simulation_s(1) / busy.simulation_s(2) < 1.9
    sparse = todo_of("homa_w4", ["transport.priorities=8"])
    assert 0.9 < sparse.simulation_s(1) / sparse.simulation_s(2) < 1.3
    idle = todo_of("incast", ["transport=ndp", "traffic.fan_in=4"])
    assert idle.simulation_s(1) == idle.simulation_s(2)


def test_estimate_includes_retransmits_of_trimmed_packets():
    narrow = ["transport=ndp", "topology.spines=2", "topology.uplinks=2"]
    narrow += ["fabric.routing=spray_round_robin"]
    wide = todo_of("load_balancing", ["fabric.routing=spray_round_robin", "seed=1"])
    todo = todo_of("load_balancing", [*narrow, "seed=1"])
    assert wide.resent == pytest.approx(1)
    assert todo.resent > 2
    calm = todo_of("load_balancing", [*narrow[1:], "transport=smartt", "seed=1"])
    assert calm.resent == 1
    assert calm.simulated_ps > 3 * wide.simulated_ps


def test_serving_estimate_matches_simulated_time():
    small = ["traffic.kv_transfer=after_prefill"]
    # The simulated time was 675 ms.
    assert todo_of("serving_small", small).simulated_ps == pytest.approx(675e9, rel=0.05)
    # A prompt takes 20.7 ms; each of the 1,999 tokens after the first takes 2.6 ms.
    alone = todo_of("serving_small", [*small, "traffic.requests=1", "traffic.output=2000"])
    assert alone.simulated_ps == pytest.approx(20.7e9 + 1999 * 2.57e9, rel=0.05)
    # Three times the capacity of the prefill instances.
    busy = todo_of("serving_small", [*small, "traffic.requests=300", "traffic.rate=300"])
    assert busy.simulated_ps == pytest.approx(150 * 20.7e9, rel=0.1)
    point = point_of("serving_small", small)
    assumptions = estimate(point).assumptions
    assert mentions(assumptions, "request")
    assert "no time" not in assumptions


@pytest.mark.parametrize(("oversubscription", "told"), [(1, False), (2, True)])
def test_load_above_the_capacity_between_switches_is_told(tmp_path, oversubscription, told):
    content = f"""
name = "over"
transport = "ndp"
[topology]
kind = "fat_tree"
hosts_per_leaf = 8
leaves = 8
oversubscription = {oversubscription}
[traffic]
kind = "poisson"
sizes = "100KB"
load = 0.9
n_flows = 5000
"""
    (point,) = load(tmp_path, content).points()
    assert any("between switches" in note for note in estimate(point).notes) == told
