"""Figures for print keep the requested width, readable text and all legend entries; labels."""

from matplotlib.text import Text

from netsim.plots import fit_for_print
from netsim.plots.style import OUTSIDE, legend, new_figure
from netsim.plots.words import for_people, metric_name


def test_print_figure_fits_a_column():
    figure, panels = new_figure(columns=2)
    names = [f"transport {k}" for k in range(5)]
    for axes in panels:
        axes.set_title("title")
        for name in names:
            axes.plot([0, 1], [0, 1], label=name)
    legend(figure, panels[0], OUTSIDE, "a caption")
    fit_for_print(figure, 3.3)
    width, height = figure.get_size_inches()
    assert width == 3.3
    assert height < 8
    assert max(text.get_fontsize() for text in figure.findobj(Text)) <= 8
    boxes = [axes.get_subplotspec().get_position(figure) for axes in panels]
    assert boxes[0].y0 > boxes[1].y1  # the panels are stacked
    (drawn,) = figure.legends
    assert [text.get_text() for text in drawn.get_texts()] == names
    assert drawn.get_title().get_text() == "a caption"
    wide, beside = new_figure(columns=2)
    fit_for_print(wide, 7.0)
    assert beside[0].get_gridspec().ncols == 2


def test_labels_show_transport_names_and_ambiguous_presets():
    assert for_people(["ndp:800g", "roce, load 1"]) == ["NDP", "RoCE, load 1"]
    assert for_people(["ndp:800g", "ndp:paper", "mine:fast"]) == [
        "NDP:800g",
        "NDP:paper",
        "mine:fast",
    ]
    assert for_people(["ndp (partial)", "ndp_like"]) == ["NDP (partial)", "ndp_like"]
    assert metric_name("wan.ttft_p99_ps") == "wan: time to first token, 99th percentile"
    assert metric_name("log_rows") == "log rows"
