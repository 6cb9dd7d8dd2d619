"""`netsim plot`: figures by kind and by axis."""

import os

import pytest
from raises_input import fails

pytestmark = pytest.mark.usefixtures("fake")


@pytest.mark.parametrize("kind", ["fct_cdf", "slowdown", "links"])
@pytest.mark.parametrize("name", ["small", "sweep"])
def test_plot_writes_each_kind_of_figure(netsim, kind, name):
    netsim("run", f"{name}.toml")
    result = netsim("plot", "here/small", "--kind", kind)
    assert result.exit_code == 0, result.output
    assert os.path.getsize(f"here/small/{kind}.png") > 1000


def test_plot_fct_by_transport_of_several_results(netsim):
    for name in ("ndp", "roce"):
        netsim("run", "sweep.toml", "--set", f"transport={name}", "--out", name)
    result = netsim("plot", "ndp", "roce", "--kind", "fct_by_transport")
    assert result.exit_code == 0, result.output
    rows = [line.split()[:2] for line in result.stdout.splitlines()]
    assert ["ndp", "2"] in rows
    assert ["roce", "2"] in rows
    assert os.path.getsize("ndp/fct_by_transport.png") > 1000


def test_plot_metric_over_any_axis(netsim):
    netsim("run", "small.toml", "--set", "traffic.load=[0.5, 1.0]", "--seed", "1..2")
    result = netsim("plot", "here/small", "--x", "load", "--y", "slowdown_p99")
    assert result.exit_code == 0, result.output
    rows = [line.split()[:3] for line in result.stdout.splitlines()]
    assert ["ndp", "0.5", "2"] in rows
    assert result.stdout.endswith("here/small/slowdown_p99_load.png\n")
    assert os.path.getsize("here/small/slowdown_p99_load.png") > 1000
    assert netsim("plot", "here/small", "--x", "load").exit_code == 0
    assert os.path.exists("here/small/fct_p99_load.png")
    assert fails(netsim("plot", "here/small", "--y", "drops"), 2, "--x")
    assert fails(netsim("plot", "here/small", "--x", "load", "--kind", "fct_cdf"), 2, "--kind")
    assert fails(netsim("plot", "here/small", "--x", "lod"), 2, '"load"')


def test_plot_of_chosen_points_and_in_panels_by_an_axis(netsim):
    lists = ("traffic.load=[0.5, 1.0]", 'traffic.size=["10KB", "20KB"]')
    netsim("run", "small.toml", *(word for text in lists for word in ("--set", text)))
    against_load = ("plot", "here/small", "--x", "load")
    chosen = netsim(*against_load, "--only", "size=20KB", "--only", "load=1.0")
    assert chosen.exit_code == 0, chosen.output
    rows = [line.split()[:3] for line in chosen.stdout.splitlines()]
    assert [row for row in rows if row[:1] == ["ndp"]] == [["ndp", "1.0", "1"]]
    split = netsim(*against_load, "--panels", "size", "--out", "split.svg")
    assert split.exit_code == 0, split.output
    assert fails(netsim(*against_load, "--only", "size=30KB"), 2, "--only", "30KB")
    assert fails(netsim(*against_load, "--only", "sise=20KB"), 2, "--only", '"size"')
    assert fails(netsim(*against_load, "--only", "size"), 2, "--only", "AXIS=VALUE")
    assert fails(netsim(*against_load, "--panels", "sise"), 2, "--panels", '"size"')
    assert fails(netsim("plot", "here/small", "--panels", "size"), 2, "--panels", "--x")


@pytest.mark.parametrize("kind", ["fct_vs_load", "fct_by_transport"])
def test_plot_kind_needs_a_matching_sweep(netsim, kind):
    netsim("run", "sweep.toml")
    assert fails(netsim("plot", "here/small", "--kind", kind), 2, "sweep over")


def test_topology_plot_rejects_an_unknown_metric(netsim):
    assert netsim("run", "small.toml").exit_code == 0
    wrong = netsim("plot", "here/small", "--kind", "topology", "--y", "drop")
    assert fails(wrong, 2, "--y", "drops")
