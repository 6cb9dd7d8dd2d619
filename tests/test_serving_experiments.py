"""Shipped serving experiments give the results that their comments state."""

import numpy as np
import pytest

from netsim.experiment import Experiment, Point, built_in
from netsim.results.run_result import RunResult
from netsim.running.point import simulate


def failures() -> dict[str, Point]:
    points = Experiment.load(built_in()["serving_failures"]).points()
    return {str(point.axes["traffic"]): point for point in points}


def served(point: Point) -> RunResult:
    result = simulate(point, threads=1)
    assert result.complete, result.reason
    return result


@pytest.mark.slow
def test_instances_of_equal_silicon_have_equal_outages() -> None:
    """With `stop` both give equal times; with `shrink`, small GPUs leave more capacity."""
    points = failures()
    large, small = (served(points[f"4 x {one}, stop"]) for one in ("2 H100", "8 Lite"))
    assert large.requests is not None
    assert small.requests is not None
    for name in ("first_token_ps", "end_ps"):
        assert np.array_equal(large.requests[name], small.requests[name])
    large, small = (served(points[f"4 x {one}, shrink"]) for one in ("2 H100", "8 Lite"))
    left = [one.summary["serving"]["failures"] for one in (large, small)]
    assert left[0]["count"] == left[1]["count"] > 3
    lost = [1 - one["available_gpu_share"] for one in left]
    # 50 ms without the instance, and 2 s without one of its two or eight GPUs.
    assert lost[0] / lost[1] == pytest.approx((0.05 + 2 / 2) / (0.05 + 2 / 8), rel=0.05)


@pytest.mark.slow
def test_tbt_tail_comes_from_kv_transfers_on_shared_paths() -> None:
    """At the highest load; NDP, which sprays packets, has no such tail."""
    points = Experiment.load(built_in()["serving_load"]).points()
    found = {
        point.axes["transport"]: served(point)
        for point in points
        if point.axes["traffic.rate"] == 1300.0
    }
    tables = {name: one.requests for name, one in found.items()}
    figures = {name: one.summary["serving"] for name, one in found.items()}
    shares = {name: one["slo"]["attainment"] for name, one in figures.items()}
    assert shares == {"roce": 0.4, "ndp": 1.0}
    assert figures["roce"]["tbt_ps"]["p99"] > 3 * figures["ndp"]["tbt_ps"]["p99"]
    assert figures["roce"]["ttft_ps"] == figures["ndp"]["ttft_ps"]
    table = tables["roce"]
    assert table is not None
    worst = int(table["tbt_max_ps"].argmax())
    assert worst == 94
    assert table["second_token_ps"][worst] == table["tbt_max_ps"][worst]
    kv = table["kv_transfer_end_ps"][worst] - table["first_token_ps"][worst]
    assert kv / table["second_token_ps"][worst] > 0.95
    flows = found["roce"].flows
    first, many = table["kv_first_flow"][worst], table["kv_flows"][worst]
    end = (flows["start_ps"] + flows["fct_ps"])[first : first + many]
    last = first + int(end.argmax())
    assert (last, many) == (754, 8)
    assert flows["slowdown"][last] == pytest.approx(8.530, abs=0.001)
