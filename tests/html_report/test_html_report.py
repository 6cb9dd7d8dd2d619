"""The HTML report is one self-contained file, escapes text and shows the results' values."""

import base64
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from chromium import open_page
from raises_input import raises_input

from netsim import load
from netsim.common.writing import toml_text
from netsim.html_report import page, write_report
from netsim.html_report.network import pause_tree
from netsim.plots.networks import links_of_table

TREE = '[topology]\nkind = "fat_tree"\nhosts_per_leaf = 2\nleaves = 2\n'
EXPERIMENTS = {
    "incast": f"""
transport = ["roce", "ndp"]
{TREE}
[traffic]
kind = "incast"
fan_in = 3
size = ["20KB", "40KB"]
[fabric]
xoff_bytes = "20KB"
xon_bytes = "10KB"
[outputs]
sample_interval = "500ns"
ports = 8
hosts = 4
flows = 3
""",
    "steps": f"""
transport = "ndp"
{TREE}
[traffic]
kind = "collective"
size = "20KB"
""",
    "serve": f"""
transport = "roce"
{TREE}
[packets]
payload_bytes = "8192B"
[traffic]
kind = "serving"
prefill_instances = 1
decode_instances = 1
requests = 2
rate = 1000.0
prompt = 2
output = 2
slo_ttft = "50ms"
slo_tbt = "10ms"
[traffic.deployment]
model = "megatron_22b"
machine = "h100"
[traffic.deployment.options]
tp = 2
""",
}
HOSTILE = "</script><img src=x onerror=alert(1)>\u2028@SCRIPT@"
NUMBERS = {"f4": "<f4", "f8": "<f8", "u1": "u1", "u2": "<u2", "i4": "<i4"}


RUN = """
import runpy, sys
from netsim import run
for name in sys.argv[1:]:
    run(f"{name}.toml", out=f"results/{name}", progress=False)
point, out = "results/incast/transport=roce,size=40KB", "results/explained.html"
sys.argv = ["netsim", "report", point, "--explain", "1", "--out", out]
runpy.run_module("netsim", run_name="__main__")
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run EXPERIMENTS without compilation and write a report that explains a flow."""
    folder = tmp_path_factory.mktemp("report")
    for name, text in EXPERIMENTS.items():
        (folder / f"{name}.toml").write_text(text)
    subprocess.run(
        [sys.executable, "-c", RUN, *EXPERIMENTS],
        cwd=folder, env={**os.environ, "NUMBA_DISABLE_JIT": "1"}, check=True, timeout=100,
    )  # fmt: skip
    return folder / "results"


def page_of(path: Path) -> tuple[str, dict[str, Any]]:
    """Write the report of a result; return its text and its embedded data."""
    out = path.parent / f"{path.name}.html"
    size = write_report([path], out)
    text = out.read_text("utf-8")
    assert size == out.stat().st_size
    return text, data_of(text)


def data_of(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def part(data: dict[str, Any], key: str, kind: str, point: int | None = None) -> dict[str, Any]:
    """Return the first part of this kind in a section."""
    sections = data["sections"] if point is None else data["points"][point]["sections"]
    (section,) = (one for one in sections if one["key"] == key)
    parts = [inner for one in section["parts"] for inner in one.get("parts", [one])]
    return next(one for one in parts if one["kind"] == kind)


def values(packed: dict[str, str]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed["data"]), NUMBERS[packed["array"]])


def keys(data: dict[str, Any], point: int) -> list[str]:
    return [one["key"] for one in data["points"][point]["sections"]]


def test_report_is_self_contained(results: Path) -> None:
    text, data = page_of(results / "incast")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy[1]
    assert not re.findall(r"(?:https?:)?//[\w.]+\.\w|<link|<iframe|\bimport\(|fetch\(", text)
    assert len(re.findall(r"<script", text)) == 2
    assert "Permission is hereby granted" in text  # license of the embedded library
    assert len(text) < 500_000
    assert not data["left_out"]


def test_report_has_only_sections_with_data(results: Path) -> None:
    _, incast = page_of(results / "incast")
    assert [one["key"] for one in incast["sections"]] == ["points", "completion"]
    labels = [one["label"] for one in incast["points"]]
    assert labels == [
        "RoCE, flow size 20KB",
        "RoCE, flow size 40KB",
        "NDP, flow size 20KB",
        "NDP, flow size 40KB",
    ]
    roce = keys(incast, 1)
    assert roce == ["causes", "network", "series", "pauses", "slowest", "provenance"]
    told = " ".join(incast["headlines"])
    assert all(f"{label}: the last flow ends after" in told for label in labels)
    assert "causes" not in keys(incast, 3)  # it would repeat the first box
    assert "one seed" in told.lower()
    assert "--seed 1..4" in told
    assert "pauses" not in keys(incast, 3)
    _, steps = page_of(results / "steps")
    assert "timeline" in keys(steps, 0)
    timeline = part(steps, "timeline", "timeline", 0)
    assert len(values(timeline["path_x"])) > 0
    _, serve = page_of(results / "serve")
    assert {"requests", "worst_requests", "timeline"} < set(keys(serve, 0))
    assert any("SLO" in text for text in serve["headlines"])


def test_report_values_equal_result_tables(results: Path) -> None:
    _, data = page_of(results / "incast")
    sweep = load(results / "incast")
    chart = part(data, "completion", "chart")
    for label, result in zip(
        ["RoCE, flow size 20KB", "NDP, flow size 20KB"], sweep.points[::2], strict=True
    ):
        (line,) = (one for one in chart["lines"] if one["name"] == label)
        times = np.unique(result.flows["fct_ps"].to_numpy().astype(np.float32) / 1e6)
        assert values(line["x"])[1:] == pytest.approx(times, rel=1e-6)
        assert values(line["y"])[[0, -1]].tolist() == [0, 1]
    roce = next(one for one in sweep.points if one.name == "transport=roce,size=40KB")
    network = part(data, "network", "network", 1)
    of_links = network["values"]["utilization (%)"]
    assert of_links["top"] == 100  # colors are absolute
    used = values(of_links["of"]) / 100
    assert used.max() == pytest.approx(roce.links["utilization"].max())
    assert used.sum() == pytest.approx(roce.links["utilization"].sum())  # one value per link
    queues = part(data, "series", "heatmap", 1)["values"]["largest queue (KB)"]
    assert queues["top"] == pytest.approx(roce.series["max_queue_bytes"].max() / 1e3)
    slowest = part(data, "slowest", "bars", 1)
    times = np.sort(roce.flows["fct_ps"].to_numpy())[::-1] / 1e6
    sums = [sum(row["values"]) for row in slowest["rows"]]
    assert sorted(sums, reverse=True) == pytest.approx(times[: len(sums)], rel=1e-4)
    texts = [" ".join(row["text"]) for row in slowest["rows"]]
    assert all("Path: h" in text and "PFC stopped" in text for text in texts)


def hostile(results: Path, folder: Path) -> Path:
    """Copy a result and put HTML markup into its names."""
    copy = folder / "hostile"
    copy.mkdir()
    for path in (results / "incast" / "transport=roce,size=40KB").iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    experiment = json.loads((copy / "experiment.json").read_text())
    experiment["resolved"] |= {"name": HOSTILE, "description": HOSTILE}
    (copy / "experiment.json").write_text(json.dumps(experiment))
    links = pl.read_parquet(copy / "links.parquet")
    links = links.with_columns(pl.col("from_name", "to_name").cast(pl.String) + HOSTILE)
    links.write_parquet(copy / "links.parquet")
    return copy


def test_text_of_results_is_escaped(results: Path, tmp_path: Path) -> None:
    copy = hostile(results, tmp_path)
    text, data = page_of(copy)
    assert "<img" not in text
    assert len(re.findall(r"</script>", text)) == 2
    assert text.count('"use strict"') == page_of(results / "incast")[0].count('"use strict"')
    assert data["title"] == data["description"] == HOSTILE
    tables = pl.DataFrame({"link": [2**60], "from_node": [0], "to_node": [1], "from_name": ["a"]})
    with raises_input(key="link"):
        links_of_table(tables)
    (copy / "summary.json").write_text((copy / "summary.json").read_text().replace('"p50"', '"p"'))
    page_of(copy)


def test_resolved_experiment_is_valid_toml(results: Path) -> None:
    tree = load(results / "serve").experiment["resolved"]
    assert tomllib.loads(toml_text(tree)) == tree
    odd = {"a b": {"list": [{"x": "\x7f\n"}, 1.5], "t": True}, "z": {"empty": {}}}
    assert tomllib.loads(toml_text(odd)) == odd


def test_explain_option_breaks_down_the_slowest_flow(results: Path) -> None:
    point, out = results / "incast" / "transport=roce,size=40KB", results / "explained.html"
    bars = part(data_of(out.read_text("utf-8")), "explained", "bars", 0)
    (row,) = bars["rows"]
    assert sum(row["values"]) == pytest.approx(load(point).flows["fct_ps"].max() / 1e6, rel=1e-4)
    assert "incast" in row["text"][0]


def test_points_beyond_the_size_limit_are_omitted(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = len(page_of(results / "incast")[0])
    monkeypatch.setattr(page, "MAX_BYTES", whole - 1000)
    text, data = page_of(results / "incast")
    assert len(text.encode()) < whole
    assert data["left_out"] == 1
    monkeypatch.setattr(page, "MAX_BYTES", 1000)
    with raises_input():
        page_of(results / "incast")


def test_pause_tree_starts_at_nodes_that_were_not_paused() -> None:
    names = ["h0", "h1", "leaf", "spine"]
    roots = pause_tree({3: {2: 50}, 2: {0: 100, 1: 20}}, names, 200)
    assert [one["text"].split()[0] for one in roots] == ["spine"]
    (leaf,) = roots[0]["children"]
    assert [one["text"].split()[0] for one in leaf["children"]] == ["h0", "h1"]
    assert leaf["children"][0]["share"] == 0.5
    cycle = pause_tree({2: {3: 5}, 3: {2: 9}}, names, 10)
    assert "cycle" in json.dumps(cycle)


INK = """
[...document.querySelectorAll("canvas")].filter((one) => {
  if (one.classList.contains("own") || one.closest(".uplot")) {
    const pixels = one.getContext("2d").getImageData(0, 0, one.width, one.height).data;
    return !pixels.some((value, k) => k % 4 === 3 && value > 0);
  }
  return false;
}).length
"""


def test_report_works_in_a_browser(results: Path, tmp_path: Path) -> None:
    """Pages draw every canvas without errors or requests, and react to input."""
    for name in ("incast", "steps", "serve"):
        page_of(results / name)
    page_of(hostile(results, tmp_path))
    file = results / "incast.html"
    with open_page(file, tmp_path / "profile") as shown:
        assert shown.run("document.querySelectorAll('section').length") >= 6
        assert shown.run(INK) == 0
        box = "document.querySelector('.chart').chart"
        before = shown.run(f"{box}.scales.x.max - {box}.scales.x.min")
        shown.drag(".chart .u-over", 0.3, 0.6)
        after = shown.run(f"{box}.scales.x.max - {box}.scales.x.min")
        assert after < 0.5 * before
        shown.run("document.querySelector('.lines button').click()")
        assert shown.run(f"{box}.series[1].show") is False
        mark = "document.querySelector('.network canvas.own').toDataURL()"
        plain = shown.run(mark)
        shown.run("document.querySelector('tr.pick').click()")
        assert shown.run(mark) != plain
        shown.run("(s => { s.value = 3; s.dispatchEvent(new Event('change')) })"
                 "(document.querySelector('nav select'))")  # fmt: skip
        assert "NDP, flow size 40KB" in shown.run("document.querySelector('h2.point').textContent")
        for other in (results / "steps.html", results / "serve.html", tmp_path / "hostile.html"):
            shown.call("Page.navigate", url=other.resolve().as_uri())
            shown.wait_for("Page.loadEventFired")
            shown.run("new Promise(done => setTimeout(done, 300))")
            assert shown.run(INK) == 0
        assert shown.run("document.querySelector('h1').textContent") == HOSTILE
        assert shown.run("document.querySelectorAll('img').length") == 0
        assert not shown.problems
        assert all(url.startswith("file:") for url in shown.requests)
