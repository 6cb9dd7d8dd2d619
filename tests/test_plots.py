"""Figures: drawn from results of every shape, with what they must show on them."""

import numpy as np
import pytest
from fakes import FakePoint, fake_result

from netsim import InputError, load
from netsim.plots import fct_cdf, links, save, slowdown
from netsim.plots.style import MAX_POINTS, labels, thin
from netsim.results import write_result


@pytest.fixture
def make(tmp_path):
    def result(name="tiny", axes=None, transport="ndp", **options):
        point = FakePoint(name=name, axes=axes or {}, transport_name=transport)
        return load(write_result(tmp_path / name, point, fake_result(**options)))

    return result


def curve(figure, label):
    (line,) = [one for one in figure.axes[0].get_lines() if one.get_label() == label]
    return line.get_xdata(), line.get_ydata()


def test_fct_cdf_is_the_distribution(make):
    result = make(n_flows=10)
    figure = fct_cdf.draw([result])
    x, y = curve(figure, "ndp")
    assert figure.axes[0].get_xlabel() == "flow completion time (µs)"
    np.testing.assert_allclose(x[1:], np.sort(result.flows["fct_ps"].to_numpy()) / 1e6)
    np.testing.assert_allclose(y, np.arange(11) / 10)
    x, y = curve(figure, "ideal")
    assert x.max() == 1.0
    assert y[-1] == 1.0


def test_fct_cdf_of_unfinished_flows_does_not_reach_one(make):
    figure = fct_cdf.draw([make(n_flows=10, unfinished=4, complete=False)])
    assert curve(figure, "ndp (partial)")[1][-1] == pytest.approx(0.6)


@pytest.mark.parametrize("module", [fct_cdf, slowdown])
def test_nothing_to_draw_is_said(make, module):
    with pytest.raises(InputError, match="no flow is finished"):
        module.draw([make(n_flows=3, unfinished=3)])


def test_a_sweep_is_labelled_by_what_differs(make):
    results = [
        make("a", {"transport": "ndp", "traffic.load": 0.5}),
        make("b", {"transport": "roce", "traffic.load": 0.5}, transport="roce", n_flows=3),
    ]
    assert labels(results) == ["ndp, load 0.5", "roce, load 0.5"]
    curve(fct_cdf.draw(results), "roce, load 0.5")


def test_slowdown_of_flows_of_one_size_by_rank(make):
    result = make(n_flows=10)
    x, y = curve(slowdown.draw([result]), "ndp")
    assert x.tolist() == list(range(1, 11))
    np.testing.assert_array_equal(y, np.sort(result.flows["slowdown"].to_numpy()))


def test_slowdown_of_flows_of_many_sizes_by_size(make):
    sizes = np.random.default_rng(1).integers(100, 10**6, 1000)
    figure = slowdown.draw([make(n_flows=1000, sizes=sizes)])
    assert figure.axes[0].get_xlabel() == "flow size (bytes)"
    _, medians = curve(figure, "ndp, median")
    _, tails = curve(figure, "ndp, 99 %")
    assert (medians < tails).all()


def test_links_add_up_classes_and_part_stages(make):
    result = make()
    table = links.stages(result.links)
    assert table["stage"].to_list() == ["host to leaf"] * 2 + ["leaf to host"] * 2
    assert table["utilisation"].to_list() == [0.5] * 4
    assert table["queue_bytes"].to_list() == [4160 * n for n in (1, 5, 9, 13)]
    figure = links.draw([result])
    assert curve(figure, "leaf to host")[1].tolist() == [0.5, 0.5]


def test_too_many_results_for_one_figure_of_links(make):
    with pytest.raises(InputError, match="cannot be told apart"):
        links.draw([make(f"p{number}") for number in range(5)])


@pytest.mark.parametrize("count", [1, 5, MAX_POINTS, 10 * MAX_POINTS])
def test_thinning_keeps_both_ends(count):
    chosen = thin(count)
    assert chosen[0] == 0
    assert chosen[-1] == count - 1
    assert len(chosen) <= MAX_POINTS


@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_saving(make, tmp_path, ending):
    path = save(fct_cdf.draw([make()]), tmp_path / f"figure.{ending}")
    assert path.stat().st_size > 1000
    assert not list(tmp_path.glob(".*"))


def test_saving_fails_with_a_message(make, tmp_path):
    figure = fct_cdf.draw([make()])
    with pytest.raises(InputError, match="no format"):
        save(figure, tmp_path / "figure.xyz")
    with pytest.raises(InputError, match="No such file"):
        save(figure, tmp_path / "nowhere" / "figure.png")


def test_a_long_legend_stands_beside_the_figure(make):
    results = [make(f"p{seed}", {"seed": seed}, n_flows=3, seed=seed) for seed in range(12)]
    figure = fct_cdf.draw(results)
    assert figure.axes[0].get_legend() is None
    assert len(figure.legends[0].get_texts()) == 13
