"""The time series figure chooses flows by their end, and fits a column of a paper."""

from types import SimpleNamespace

import polars as pl

from netsim.plots import fit_for_print, over_time

N_FLOWS = 12


def result(unfinished=()):
    """A run whose flows 0 to 11 end one after the other, all at the same rate."""
    ends = [None if flow in unfinished else 1000 * (flow + 1) for flow in range(N_FLOWS)]
    flows = pl.DataFrame({"flow": range(N_FLOWS), "start_ps": [0] * N_FLOWS, "fct_ps": ends})
    times = pl.DataFrame({"time_ps": [1000, 2000]})
    series = pl.DataFrame({"entity_index": range(N_FLOWS)}).join(times, how="cross").with_columns(
        pl.lit("flow").alias("entity"), pl.format("flow {}", "entity_index").alias("name"),
        pl.lit(1000).alias("interval_ps"), pl.lit(0).alias("traffic_class"),
        *(pl.lit(4096).alias(f"{column}_bytes") for column in ("sent", "delivered")),
        *(pl.lit(0).alias(f"{column}_queue_bytes") for column in ("mean", "max")),
    )  # fmt: skip
    summary = {"series": {"said": "every 1 ns"}}
    return SimpleNamespace(name="made up", series=series, flows=flows, summary=summary)


def names(figure):
    return [line.get_label() for line in figure.axes[0].get_lines()]


def test_flows_that_end_last_are_drawn_in_the_order_of_their_numbers():
    assert names(over_time.timeseries([result()]).figure) == [f"flow {n}" for n in range(6, 12)]


def test_unfinished_flows_come_first():
    drawn = names(over_time.timeseries([result(unfinished=(1, 2, 10))]).figure)
    assert drawn == ["flow 1", "flow 2", "flow 8", "flow 9", "flow 10", "flow 11"]


def test_narrow_figure_has_its_legend_above_and_keeps_its_panel():
    figure = over_time.timeseries([result()]).figure
    fit_for_print(figure, 3.3)
    figure.canvas.draw()
    (axes,) = figure.axes
    box = axes.get_window_extent()
    assert box.width > 0.7 * 3.3 * figure.dpi
    assert box.height > 0.5 * figure.dpi
    assert axes.get_legend().get_window_extent().y0 >= box.y1
