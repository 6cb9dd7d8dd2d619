"""The Python interface: documented examples, tables, plots and errors."""

import ast
import inspect
import json
import re
import textwrap
from importlib import import_module
from pathlib import Path

import pytest
from raises_input import raises_input

import netsim
from netsim.cli.app import commands
from netsim.experiment import locate

TABLES = {
    "topology": {"kind": "fat_tree", "hosts_per_leaf": 2, "leaves": 2},
    "transport": "ndp",
    "traffic": {"kind": "permutation", "size": "8kB"},
}


@pytest.fixture(scope="module")
def sweep():
    return netsim.run(netsim.Experiment(**TABLES, seed=[1, 2]), threads=1, progress=False)


def test_sweep_has_a_table_and_points(sweep):
    assert [point.name for point in sweep] == ["seed=1", "seed=2"]
    assert sweep.table["seed"].to_list() == [1, 2]
    assert sweep.table["hash"].to_list() == [point.summary["hash"] for point in sweep]
    assert sweep[1].flows["fct_ps"].null_count() == 0
    assert sweep.path.is_dir()
    shown = sweep._repr_html_()  # all columns that netsim run prints
    heads = re.findall("<th>(.*?)</th>", shown)
    assert {"seed", "FCT p99 us", "slowdown p99", "status"} <= set(heads)
    assert shown.count("<tr>") == 3


def test_single_point_has_its_tables(tmp_path):
    one = netsim.run(TABLES, out=tmp_path / "r", threads=1)
    assert len(one.flows) == 4
    assert one.table["hash"].to_list() == [one.summary["hash"]]
    assert netsim.load(tmp_path / "r").flows.equals(one.flows)
    assert "flows" in dir(one)


def test_documented_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # it writes report.html
    page = (Path(__file__).parent.parent / "docs" / "python.md").read_text("utf-8")
    scope = {}
    exec(page.partition("```python\n")[2].partition("```")[0], scope)
    assert scope["results"].table["status"].to_list() == ["finished"] * 2


PACKAGE = Path(netsim.__file__).parent
DOCUMENTED = sorted({*PACKAGE.glob("*.py"), *PACKAGE.glob("experiment/*.py")} | {
    PACKAGE / name for name in ("results/comparison.py", "tracing/__init__.py", "tracing/why.py")
})  # fmt: skip


def code_in(docstring: str) -> str:
    """Return the paragraphs of a docstring that are Python and use netsim."""
    found = []
    for paragraph in textwrap.dedent(docstring).split("\n\n"):
        code = textwrap.dedent(paragraph.strip("\n"))
        try:
            compile(code, "docstring", "exec")
        except SyntaxError:
            continue
        if any(mark in code for mark in ("import netsim", "netsim.", "Experiment(")):
            found.append(code)
    return "\n".join(found)


@pytest.mark.usefixtures("plain_python")
def test_code_in_docstrings_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = netsim.run
    eighteen = {**TABLES, "topology": {"kind": "fat_tree", "hosts": 18}}
    run({**eighteen, "transport": ["ideal", "ndp"]}, out="results/p2p_512", threads=1)
    for name in ("before", "after"):
        run({**TABLES, "transport": "ideal"}, out=f"results/{name}")

    def smaller(experiment):
        return run(experiment, overrides=["transport=ideal"], threads=1)

    def saturate(experiment, overrides):
        assert len(netsim.Experiment.load(locate(experiment), overrides).points()) > 1
        return netsim.Saturations(run(TABLES, threads=1).table, smaller("p2p_512"))

    monkeypatch.setattr(netsim.Saturations, "plot", lambda found: found.results.table)
    monkeypatch.setattr("netsim.run", smaller)
    monkeypatch.setattr("netsim.saturate", saturate)
    ran = []
    for path in DOCUMENTED:
        dotted = ".".join(("netsim", *path.relative_to(PACKAGE).with_suffix("").parts))
        module = import_module(dotted.removesuffix(".__init__"))
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                continue
            if code := code_in(ast.get_docstring(node) or ""):
                exec(code, {**vars(module), "netsim": netsim})
                ran.append(dotted)
    assert {"netsim.api", "netsim.experiment.load", "netsim.tracing.why"} <= set(ran)


def test_python_page_lists_every_command():
    page = (Path(__file__).parent.parent / "docs" / "python.md").read_text("utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in row.split("`")[1::2]} == set(commands())


def test_messages_name_arguments_of_python(sweep):
    for call, key, words in (
        (lambda: sweep.plot("saturation"), None, 'kind="saturation" needs'),
        (lambda: sweep.plot("nonsense"), "kind", "nonsense"),
        (lambda: sweep.plot("fct_cdf", y="drops"), "y", "kind"),
        (lambda: sweep.plot("fct_cdf", x="seed"), "kind", "x"),
        (lambda: sweep.plot(only="seed=7"), "only", 'seed = "7"'),
        (lambda: sweep.why(flow="p99", step=1), None, "flow and step"),
        (lambda: sweep.trace(flow="nonsense"), "flow", "nonsense"),
    ):
        with pytest.raises(netsim.InputError) as raised:
            call()
        assert "--" not in str(raised.value)
        assert raised.value.key == key
        assert words in str(raised.value)


def test_texts_of_tables_are_strings_and_arguments_are_known(sweep):
    names = sweep[0].links["from_name"]
    assert names.str.starts_with("leaf").any()
    known = inspect.signature(netsim.Experiment).parameters
    assert {"topology", "transport", "traffic", "flow_classes", "faults"} <= set(known)
    assert "p99" in sweep.compare(sweep)._repr_html_()


def test_temporary_results_are_deleted():
    results = netsim.run(TABLES, threads=1)
    path = results.path
    assert path.is_dir()
    del results
    assert not path.exists()


def test_why_trace_and_compare_explain_results(sweep, monkeypatch):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    found = sweep.why(1, flow=2)
    assert found.total_ps == found.budget["time_ps"].sum() == sweep[1].flows["fct_ps"][2]
    assert str(found).startswith("Flow 2 ")
    assert found._repr_html_().startswith("<p>Flow 2 ")
    assert sweep.trace(1, flow=2).fct_ps == found.total_ps
    with raises_input(key="flow"):
        sweep.why(flow="x")
    comparison = sweep.compare(sweep)
    assert comparison.identical
    assert comparison.statistics["change"].to_list() == [0.0] * 4


def test_results_plot_and_report(sweep, tmp_path):
    axes = sweep.plot(x="seed", y="fct_max").axes
    assert axes[0].get_xlabel() == "seed"
    (chosen,) = sweep.plot(x="seed", y="fct_max", only="seed=2").axes
    assert [tick.get_text() for tick in chosen.get_xticklabels()] == ["2"]
    assert sweep.plot().axes
    assert sweep.report(tmp_path / "r.html").stat().st_size > 50_000


def test_check_and_topo_return_tables():
    table = netsim.check(TABLES, overrides=["seed=1..3"])
    assert table["point"].to_list() == ["seed=1", "seed=2", "seed=3"]
    assert table["packet_hops"].min() > 0
    (network,) = netsim.topo(TABLES)
    assert network["hosts"] == 4


def test_saturate_finds_the_saturation_load(tmp_path, monkeypatch):
    """Two hosts saturate a shared link at half their rate; a stalled point is kept, not rerun."""
    monkeypatch.setattr("netsim.engine.engine.jit_enabled", lambda: False)
    rates = {"bottleneck_rate": "100Gbps", "host_delay": "1us", "bottleneck_delay": "1us"}
    experiment = netsim.Experiment(
        topology={"kind": "dumbbell", "hosts": 2, **rates},
        transport="datagram",
        fabric={"queue_bytes": "100MB"},
        traffic={"kind": "poisson", "arrival_process": "even", "sizes": "4096B", "load": 0.1}
        | {"pattern": "group_plus_one", "shape": "2x2"},
        measure={"warmup": "10us", "window": "30us"},
    )
    asked = {"loads": [0.3, 0.7], "tolerance": 0.05, "out": tmp_path / "s"}
    found = netsim.saturate(experiment, **asked)
    (row,) = found.table.to_dicts()
    assert row["below"] <= 0.5 < row["above"] <= row["below"] + 0.1
    assert (row["saturation"], row["bound"]) == ((row["below"] + row["above"]) / 2, 0.5)
    assert "saturation" in found._repr_html_()
    assert {*found.results.table["traffic.load"]} <= {0.3, 0.4, 0.5, 0.6, 0.7}
    summary = tmp_path / "s" / f"load={row['above']}" / "summary.json"
    content = json.loads(summary.read_text())
    summary.write_text(json.dumps(content | {"stop_reason": "stalled", "complete": False}))
    monkeypatch.setattr("netsim.running.executor.simulate", None)
    assert netsim.saturate(experiment, **asked).table.equals(found.table)
    with raises_input("two different loads"):
        netsim.saturate(experiment, loads=[0.7])


def test_invalid_use_is_rejected(sweep):
    with raises_input("topolgy: unknown key"):
        netsim.Experiment(topolgy={})
    with raises_input('unknown kind "fct_cfd"', "fct_cdf"):
        sweep.plot("fct_cfd")
    with raises_input("checkpoint_s"):
        netsim.run(TABLES, checkpoint_s=1.0)
    with pytest.raises(AttributeError, match="2 points"):
        _ = sweep.flows
