"""Exposed communication by transport: transfer delays from results, the rest by formula."""

import numpy as np
import pytest
from plot_points import point
from raises_input import mentions, raises_input

from netsim.workloads.plots import simulated_figures
from netsim.workloads.plots.paper_figures import SMALLER

__all__ = ["point"]

STEP = {"kind": "pipeline", "load": None}
FULL, TENTH = ("97.39MB", "217.088MB"), ("9.739MB", "21.7088MB")


@pytest.fixture
def steps(point):
    """Results for each message size and transport; their synthetic times depend on neither."""

    def made(sizes, transports=("ideal", "roce", "ndp"), seeds=(1,), **options):
        return [
            point(name, seed, traffic=STEP | {"size": size}, **options)
            for size in sizes
            for name in transports
            for seed in seeds
        ]

    return made


def test_extra_time_of_a_transfer_is_its_slowest_flows(steps):
    (result,) = steps(["97.39MB"], ["ndp"], n_flows=40)
    late = (result.flows["fct_ps"] - result.flows["ideal_ps"]).to_numpy()
    groups = [late[:18], late[18:36], late[36:]]
    found = simulated_figures.extra_times(result)
    assert found["last flow"] == late.max()
    assert found["slowest of 18"] == np.mean([group.max() for group in groups])
    assert found["mean"] == pytest.approx(late.mean())


def test_exposed_communication_includes_transfer_delays(steps):
    made = simulated_figures.exposed(steps(FULL, seeds=(1, 2)))
    rows = list(zip(*made.drawn.values(), strict=True))
    assert len(rows) == 2 * 2 * 3
    for model, _, _, extra_ps, percent in rows:
        tp, pp, rest = {"dense": (8.2011, 2.17088, 0), "MoE": (3.67932, 0.97394, 21.8685)}[model]
        forward = {"dense": 132.8009, "MoE": 45.17825}[model]
        communication = 2 * tp + 2 * (pp + extra_ps / 1e9) + rest
        by_hand = 100 * communication / (3 * forward + communication)
        assert percent == pytest.approx(by_hand, rel=2e-4)
    assert [value.what for value in made.values] == [
        "dense: no delay",
        "dense: single path, MoE size (roce)",
        "dense: single path (roce)",
        "MoE: no delay",
        "MoE: single path (roce)",
    ]
    assert [value.paper for value in made.values] == [5, 8, 8, 20, 25]
    assert made.values[2].ours == next(
        row[4] for row in rows if row[:3] == ("dense", "roce", "last flow")
    )


def test_delays_of_small_messages_are_scaled_up(steps):
    whole, part = simulated_figures.exposed(steps(FULL)), simulated_figures.exposed(steps(TENTH))
    tenfold = [10 * extra for extra in whole.drawn["extra_ps"]]
    assert part.drawn["extra_ps"] == pytest.approx(tenfold)
    assert mentions(part.about, "1/10")
    assert SMALLER in part.values[-1].standing
    # Full messages on a network smaller than the paper's are marked too.
    assert SMALLER in whole.values[-1].standing


def test_mismatched_results_are_rejected(steps, point):
    with raises_input("97.39MB", key="traffic.size"):
        simulated_figures.exposed(steps(FULL[:1]))
    with raises_input("97.39MB", "217.088MB", key="traffic.size"):
        simulated_figures.exposed(steps((FULL[0], TENTH[1])))
    partial = point("roce", unfinished=2, complete=False, traffic=STEP | {"size": "97.39MB"})
    with raises_input():
        simulated_figures.exposed([*steps(FULL), partial])
    other = point("homa", topology={"leaves": 8}, traffic=STEP | {"size": "97.39MB"})
    with raises_input("topology.leaves"):
        simulated_figures.exposed([*steps(FULL), other])
