"""Outages of instances: drawn from a policy, or read from a failure trace."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from raises_input import raises_input
from serving_case import lost_shares

from netsim.params import resolve_params
from netsim.workloads.cost.costs import (
    availability,
    goodput_of_groups,
    up_shares_cold,
)
from netsim.workloads.serving.failures import (
    FAILURE_PARAMS,
    Outages,
    Policy,
    draw_outages,
    failures_of,
)

MTBF, REPAIR = 8_000_000, 300_000
UNTIL = 4_000_000_000


def drawn(policy: Policy, gpus: list[int], until_ps: int = UNTIL, seed: int = 3) -> Outages:
    return draw_outages(policy, np.array(gpus), until_ps, np.random.default_rng(seed))


def up_share(found: Outages, machines: int, until_ps: int = UNTIL) -> float:
    return 1 - float(lost_shares(found, machines, until_ps)[0].mean())


def test_availability_of_stopping_instances_matches_renewal_process() -> None:
    for gpus in [1, 8, 32]:
        found = drawn(Policy(MTBF, REPAIR, swap_ps=50_000), [gpus] * 8)
        down = 1 - availability(MTBF, REPAIR + 50_000, gpus)
        # The tolerance is three standard deviations of a Poisson count of failures.
        assert 1 - up_share(found, 8) == pytest.approx(down, rel=3 / len(found) ** 0.5)
        assert len(found) == pytest.approx(8 * UNTIL / (MTBF / gpus + REPAIR + 50_000), rel=0.06)
        assert (found.up_ps - found.down_ps == REPAIR + 50_000).all()
        assert (found.whole_ps == found.up_ps).all()


def test_availability_with_few_spares_matches_palms_formula() -> None:
    """The formula depends only on the mean repair time; here it is constant."""
    for spares in [1, 2, 4]:
        machines, repair = 6, 2_000_000
        found = drawn(Policy(MTBF, repair, spares=spares), [4] * machines)
        share = goodput_of_groups(up_shares_cold(machines, spares, MTBF / 4, repair), machines, 1)
        assert 1 - up_share(found, machines) == pytest.approx(1 - share, rel=0.06)


def test_shrinking_instances_are_down_only_for_the_restart() -> None:
    policy = Policy(MTBF, REPAIR, on_failure="shrink", restart_ps=40_000)
    down, short = lost_shares(drawn(policy, [8] * 8), 8, UNTIL)
    cycle = MTBF / 8 + REPAIR
    assert down.mean() == pytest.approx(40_000 / cycle, rel=0.04)
    assert short.mean() == pytest.approx((REPAIR - 40_000) / cycle, rel=0.04)
    # An instance of one GPU cannot shrink.
    down, short = lost_shares(drawn(policy, [1] * 8), 8, UNTIL)
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
    found = drawn(policy, gpus, 60_000_000, seed)
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


def test_simultaneous_arrivals_require_failures_until(
    tmp_path: Path,
) -> None:
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
