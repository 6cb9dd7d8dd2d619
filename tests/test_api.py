"""The Python interface: what examples show, and what it says to mistakes."""

import textwrap
from pathlib import Path

import pytest
from raises_input import raises_input

import netsim

TABLES = {
    "topology": {"kind": "fat_tree", "hosts_per_leaf": 2, "leaves": 2},
    "transport": "ndp",
    "traffic": {"kind": "permutation", "size": "8kB"},
}


@pytest.fixture(scope="module")
def sweep():
    return netsim.run(netsim.Experiment(**TABLES, seed=[1, 2]), threads=1, progress=False)


def test_a_sweep(sweep):
    assert [point.name for point in sweep] == ["seed=1", "seed=2"]
    assert sweep.table["seed"].to_list() == [1, 2]
    assert sweep.table["hash"].to_list() == [point.summary["hash"] for point in sweep]
    assert sweep[1].flows["fct_ps"].null_count() == 0
    assert sweep.path.is_dir()
    assert "seed=2" in sweep._repr_html_()


def test_a_single_point_has_its_tables(tmp_path):
    one = netsim.run(TABLES, out=tmp_path / "r", threads=1)
    assert len(one.flows) == 4
    assert one.table["hash"].to_list() == [one.summary["hash"]]
    assert netsim.load(tmp_path / "r").flows.equals(one.flows)
    assert "flows" in dir(one)


def test_the_example_of_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # it writes report.html
    page = (Path(__file__).parent.parent / "docs" / "python.md").read_text("utf-8")
    block = page.partition("\n\n    import netsim\n")[2].partition("\n\nThe arguments")[0]
    scope = {"netsim": netsim}
    exec(textwrap.dedent(block), scope)
    assert scope["results"].table["status"].to_list() == ["finished"] * 2


def test_temporary_results_go_away():
    results = netsim.run(TABLES, threads=1)
    path = results.path
    assert path.is_dir()
    del results
    assert not path.exists()


def test_why_and_compare(sweep, monkeypatch):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    found = sweep.why(1, flow=2)
    assert found.total_ps == found.budget["time_ps"].sum() == sweep[1].flows["fct_ps"][2]
    assert str(found).startswith("Flow 2 ")
    with raises_input(key="--flow"):
        sweep.why(flow="x")
    comparison = sweep.compare(sweep)
    assert comparison.identical
    assert comparison.statistics["change"].to_list() == [0.0] * 4


def test_figures(sweep, tmp_path):
    axes = sweep.plot(x="seed", y="fct_max").axes
    assert axes[0].get_xlabel() == "seed"
    assert sweep.plot().axes
    assert sweep.report(tmp_path / "r.html").stat().st_size > 50_000


def test_predictions():
    table = netsim.check(TABLES, overrides=["seed=1..3"])
    assert table["point"].to_list() == ["seed=1", "seed=2", "seed=3"]
    assert table["packet_hops"].min() > 0
    (network,) = netsim.topo(TABLES)
    assert network["hosts"] == 4


def test_mistakes(sweep):
    with raises_input("topolgy: unknown key"):
        netsim.Experiment(topolgy={})
    with raises_input("overrides"):
        netsim.run(netsim.Experiment(**TABLES), overrides=["seed=2"])
    with raises_input('unknown kind "fct_cfd"', "fct_cdf"):
        sweep.plot("fct_cfd")
    with raises_input("checkpoint_s"):
        netsim.run(TABLES, checkpoint_s=1.0)
    with pytest.raises(AttributeError, match="2 points"):
        _ = sweep.flows
