"""Requests, the instances that take them, and failures of instances."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from raises_input import mentions, raises_input
from serving_case import lost_shares

from netsim.errors import InputError
from netsim.params import resolve_params
from netsim.workloads.cost.costs import availability
from netsim.workloads.serving.failures import (
    FAILURE_PARAMS,
    Outages,
    Policy,
    draw_outages,
    failures_of,
)
from netsim.workloads.serving.plan import DISPATCH, REQUEST_PARAMS, Drawn, dispatch, draw_requests

TRACE = "arrival_s,prompt_tokens,output_tokens\n1,374,44\n1.5,396,0\n4,879,55\n5,20,3\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "trace.csv").write_text(TRACE)
    return tmp_path


def drawn(folder: Path = Path(), seed: int = 1, **given: Any) -> Drawn:
    params = resolve_params(REQUEST_PARAMS, {}, given, None, file=None, key="traffic")
    return draw_requests(params, np.random.default_rng(seed), folder)


def gaps(found: Drawn) -> np.ndarray:
    return np.diff(found.requests.arrival_ps, prepend=0)


def test_arrivals_have_requested_rate_and_burstiness() -> None:
    for params, cv in [
        ({}, 1.0),
        ({"arrival_process": "gamma", "burstiness": 1.0}, 1.0),
        ({"arrival_process": "gamma", "burstiness": 3.0}, 3.0),
        ({"arrival_process": "gamma", "burstiness": 0.25}, 0.25),
        ({"arrival_process": "even"}, 0.0),
    ]:
        found = gaps(drawn(rate=50.0, requests=100_000, **params))
        assert found.mean() == pytest.approx(2e10, rel=0.03)
        assert found.std() / found.mean() == pytest.approx(cv, rel=0.03, abs=0.004)


def test_lengths_follow_their_distribution() -> None:
    for params, mean, cv in [
        ({"length_distribution": "fixed"}, 1500, 0.0),
        ({"length_distribution": "fixed", "prompt": 12}, 12, 0.0),
        ({"length_distribution": "uniform", "length_min": 11, "length_max": 20}, 15.5, 0.1853),
        ({"length_distribution": "lognormal", "prompt": 900, "length_cv": 0.5}, 900, 0.5),
        # k^-1 from 1 to 4: 12/25, 6/25, 4/25 and 3/25
        ({"length_distribution": "zipf", "length_min": 7, "length_max": 10}, 7.92, 0.1331),
        ({"length_distribution": "zipf", "zipf_exponent": 0.0, "length_max": 3}, 2.0, 0.4082),
    ]:
        tokens = drawn(rate=1.0, requests=60_000, **params).requests.prompt_tokens
        assert tokens.mean() == pytest.approx(mean, rel=0.01)
        assert tokens.std() / tokens.mean() == pytest.approx(cv, rel=0.03)
        assert tokens.min() >= 1


def test_lengths_are_interpolated_from_a_table(tmp_path: Path) -> None:
    (tmp_path / "table.txt").write_text("# tokens, percent\n100 25\n100, 50\n300 100\n")
    given = {"length_distribution": {"prompt": "table"}, "prompt_table": "table.txt"}
    tokens = drawn(tmp_path, rate=1.0, requests=40_000, **given).requests.prompt_tokens
    assert (tokens == 100).mean() == pytest.approx(0.5, abs=0.01)
    assert (tokens <= 200).mean() == pytest.approx(0.75, abs=0.01)
    assert tokens.max() == 300


def test_trace_is_replayed_unchanged(folder: Path) -> None:
    found = drawn(folder, arrival_process="trace", trace="trace.csv", length_distribution="trace")
    assert found.requests.arrival_ps.tolist() == [10**12, 4 * 10**12, 5 * 10**12]
    assert found.requests.prompt_tokens.tolist() == [374, 879, 20]
    assert found.requests.output_tokens.tolist() == [44, 55, 3]
    assert mentions(found.notes, "1", "trace.csv")


def test_unit_of_a_trace_is_a_parameter(folder: Path) -> None:
    (folder / "plain.csv").write_text(TRACE.replace("arrival_s", "timestamp"))
    given = {"arrival_process": "trace", "length_distribution": "trace", "trace": "plain.csv"}
    with raises_input("trace_time_unit"):
        drawn(folder, **given)
    found = drawn(folder, trace_time_unit="ms", **given)
    assert found.requests.arrival_ps.tolist() == [10**9, 4 * 10**9, 5 * 10**9]


def test_request_larger_than_any_instance_is_rejected(folder: Path) -> None:
    path = folder / "long.csv"
    path.write_text(TRACE + "6,1000000,5\n")
    found = drawn(folder, arrival_process="trace", trace="long.csv", length_distribution="trace")
    found.check_room(1_000_005, "an instance")
    with pytest.raises(InputError) as error:
        found.check_room(1_000_004, "a decode instance")
    assert mentions(str(error.value), path, "6", "request 3", "1,000,000", "5")
    assert mentions(str(error.value), "KV", "1,000,004")
    found.check_room(1_000_000, "a prefill instance", prompts=True)
    with raises_input("request 0", "1,500", key="traffic.length_distribution"):
        drawn(rate=1.0, requests=2).check_room(1000, "an instance")


def machines(how: str, at: list[int], work: list[int], n: int = 2) -> list[int]:
    rng = np.random.default_rng(1)
    return dispatch(how, np.array(at), np.array(work), n, rng).instance.tolist()


def test_least_work_picks_the_instance_that_finishes_first() -> None:
    # Instance 0 has work until 100; instance 1 until 30, then 60, then 130.
    assert machines("least_work", [0, 0, 10, 20], [100, 30, 30, 70]) == [0, 1, 1, 1]


def test_expected_end_times_follow_fifo_service() -> None:
    """Each instance serves its requests one at a time, in order of arrival."""
    for how in DISPATCH:
        rng = np.random.default_rng(3)
        at, work = rng.integers(0, 1000, 300), rng.integers(1, 30, 300)
        found = dispatch(how, at, work, 4, rng)
        for one in range(4):
            free = 0
            for request in np.argsort(at, kind="stable").tolist():
                if found.instance[request] == one:
                    free = max(free, int(at[request])) + int(work[request])
                    assert found.done_ps[request] == free
        assert set(found.instance.tolist()) == {0, 1, 2, 3}


def test_least_work_waits_less_than_round_robin_and_random() -> None:
    rng = np.random.default_rng(5)
    at = np.sort(rng.integers(0, 10_000_000, 10_000))
    work = rng.exponential(7000, 10_000).astype(np.int64)
    waits = {how: (dispatch(how, at, work, 8, rng).done_ps - at).mean() for how in DISPATCH}
    assert waits["least_work"] < 0.5 * waits["round_robin"] < 0.5 * waits["random"]


MTBF, REPAIR = 8_000_000, 300_000
UNTIL = 4_000_000_000


def outages_of(policy: Policy, gpus: list[int], until_ps: int = UNTIL, seed: int = 3) -> Outages:
    return draw_outages(policy, np.array(gpus), until_ps, np.random.default_rng(seed))


def up_share(found: Outages, machines: int, until_ps: int = UNTIL) -> float:
    return 1 - float(lost_shares(found, machines, until_ps)[0].mean())


def test_availability_of_stopping_instances_matches_renewal_process() -> None:
    for gpus in [1, 8, 32]:
        found = outages_of(Policy(MTBF, REPAIR, swap_ps=50_000), [gpus] * 8)
        down = 1 - availability(MTBF, REPAIR + 50_000, gpus)
        # The tolerance is three standard deviations of a Poisson count of failures.
        assert 1 - up_share(found, 8) == pytest.approx(down, rel=3 / len(found) ** 0.5)
        assert len(found) == pytest.approx(8 * UNTIL / (MTBF / gpus + REPAIR + 50_000), rel=0.06)
        assert (found.up_ps - found.down_ps == REPAIR + 50_000).all()
        assert (found.whole_ps == found.up_ps).all()


def test_shrinking_instances_are_down_only_for_the_restart() -> None:
    policy = Policy(MTBF, REPAIR, on_failure="shrink", restart_ps=40_000)
    down, short = lost_shares(outages_of(policy, [8] * 8), 8, UNTIL)
    cycle = MTBF / 8 + REPAIR
    assert down.mean() == pytest.approx(40_000 / cycle, rel=0.04)
    assert short.mean() == pytest.approx((REPAIR - 40_000) / cycle, rel=0.04)
    # An instance of one GPU cannot shrink.
    down, short = lost_shares(outages_of(policy, [1] * 8), 8, UNTIL)
    assert down.mean() == pytest.approx(1 - availability(MTBF, REPAIR), rel=0.15)
    assert short.max() == 0


@given(
    gpus=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    repair=st.just(0) | st.integers(2, 3_000_000),  # a swap of 0 takes 1 ps
    swap=st.integers(0, 500_000),
    spares=st.integers(0, 4),
    restart=st.none() | st.integers(0, 1_000_000),
    seed=st.integers(0, 99),
)
def test_drawn_outages_are_ordered_and_within_spares(
    gpus: list[int], repair: int, swap: int, spares: int, restart: int | None, seed: int
) -> None:
    how = "stop" if restart is None else "shrink"
    policy = Policy(MTBF, repair, swap, spares, how, restart or 0)
    found = outages_of(policy, gpus, 60_000_000, seed)
    assert (np.diff(found.down_ps) >= 0).all()
    assert (found.down_ps < found.up_ps).all()
    assert (found.up_ps <= found.whole_ps).all()
    assert (found.down_ps < 60_000_000).all()
    for instance in range(len(gpus)):
        here = found.instance == instance
        assert (found.down_ps[here][1:] > found.whole_ps[here][:-1]).all()
    # At any time, no more GPUs are swapped in than spares plus repaired GPUs.
    taken = np.sort(found.whole_ps - swap)
    for number, time in enumerate(taken[spares:]):
        assert time >= np.sort(found.down_ps)[number] + repair


def outages(folder: Path, last_ps: int = 10**9, **given: Any) -> Outages:
    params = resolve_params(FAILURE_PARAMS, {}, given, None, file=None, key="traffic")
    return failures_of(params, np.array([4, 4]), last_ps, np.random.default_rng(1), folder)


def test_failure_parameters_set_drawn_outages(tmp_path: Path) -> None:
    assert len(outages(tmp_path)) == 0
    found = outages(tmp_path, mtbf="10us", repair_time="2us")
    assert found.down_ps.max() < 2 * 10**9
    assert len(outages(tmp_path, mtbf="10us", repair_time="2us", failures_until="100us")) < len(
        found
    )
    assert len(outages(tmp_path, mtbf="10us", repair_time="2us", failures_until="0us")) == 0
    assert (found.up_ps - found.down_ps == 2_000_000).all()
    given = {"mtbf": "10us", "repair_time": "2us", "on_failure": "shrink", "restart_time": "1us"}
    found = outages(tmp_path, **given)
    assert (found.up_ps - found.down_ps == 1_000_000).all()
    spare = outages(tmp_path, **given, spares=9, swap_time="3us")
    assert (spare.whole_ps[:9] - spare.down_ps[:9] == 3_000_000).all()


def test_simultaneous_arrivals_require_failures_until(tmp_path: Path) -> None:
    given = {"mtbf": "10us", "repair_time": "2us"}
    with raises_input(key="traffic.failures_until", code="missing"):
        outages(tmp_path, 0, **given)
    assert len(outages(tmp_path, 0, **given, failures_until="100us")) > 0
    assert len(outages(tmp_path, **given, failures_until="0us")) == 0


def test_failure_trace_is_read_in_time_order(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("# listed\n1, 5us, 7us, 9us\n\n0, 1us, 3us\n1, 1us, 5us\n")
    found = outages(tmp_path, failure_trace="mine.csv")
    assert found.instance.tolist() == [0, 1, 1]
    assert found.down_ps.tolist() == [10**6, 10**6, 5 * 10**6]
    assert found.up_ps.tolist() == [3 * 10**6, 5 * 10**6, 7 * 10**6]
    assert found.whole_ps.tolist() == [3 * 10**6, 5 * 10**6, 9 * 10**6]
    down, short = lost_shares(found, 2, 8 * 10**6)
    assert (down.tolist(), short.tolist()) == ([0.25, 0.75], [0, 0.125])
