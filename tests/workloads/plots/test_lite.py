"""The figure of Lite-GPUs against H100 shows roofline ratios and tests the paper's claim."""

import re
from pathlib import Path

import pytest
from golden_pictures import assert_golden
from raises_input import mentions

from netsim.workloads.inference.limits import VARIANTS
from netsim.workloads.plots import lite
from netsim.workloads.plots.paper_figures import UNVERIFIED


@pytest.fixture(scope="module")
def made():
    return lite.lite([])


def ratio(made, **wanted):
    rows = zip(*made.drawn.values(), strict=True)
    found = [dict(zip(made.drawn, row, strict=True)) for row in rows]
    (one,) = [row for row in found if all(row[name] == value for name, value in wanted.items())]
    return one["ratio_to_h100"]


ALL = {
    "overlap": True,
    "kv_shared": True,
    "tp_searched": True,
    "roofline": "parts",
    "overheads": "",
}


def test_phase_with_one_bottleneck_scales_with_its_rate(made):
    """GPT-3 decode is bound by memory, prefill by compute; four Lite-GPUs equal one H100's area."""
    for machine, memory in (("lite", 838), ("lite_membw", 1675), ("lite_netbw_flops", 419)):
        found = ratio(made, model="gpt3_175b", phase="decode", machine=machine, **ALL)
        assert found == pytest.approx(4 * memory / 3352, rel=1e-3)
    for machine, flops in (("lite", 500), ("lite_netbw_flops", 550)):
        found = ratio(made, model="gpt3_175b", phase="prefill", machine=machine, **ALL)
        assert found == pytest.approx(4 * flops / 2000, rel=1e-3)


def test_claim_values_cover_the_stated_cases(made):
    assert len(made.values) == 2 * (2 * len(VARIANTS) - 1)
    cases = [value.what for value in made.values]
    assert not [what for what in cases if "Llama3-70B" in what]
    assert not [what for what in cases if what.startswith("decode") and "FLOPS" in what]
    assert {value.standing for value in made.values} == {UNVERIFIED}
    assert {value.stated for value in made.values} == {"at least 1"}
    within = {value.what for value in made.values if value.within}
    assert "prefill, Llama3-405B, Lite+NetBW" in within
    assert "prefill, Llama3-405B, Lite" not in within
    assert mentions(made.notes[1], len(within) - 6, "10", "6", "8")


def test_table_names_the_fewest_sufficient_assumptions(made):
    rows = {row[0]: row[1:] for row in made.table.rows}
    assert len(rows) == 2 * len(VARIANTS)
    assert rows["prefill, Lite"] == ("overlap + tp searched", "overlap + tp searched", "never")
    assert rows["decode, Lite+MemBW"] == ("tp searched", "none needed", "never")
    both = "overlap + tp searched or overlap + KV shared"
    assert rows["decode, Lite+NetBW"][0] == both


def test_documented_counts_equal_the_figure_notes(made):
    text = (Path(__file__).parents[3] / "docs" / "lite-gpu.md").read_text("utf-8")
    result = text.partition("**Result**")[2].partition("\n\n")[0]
    counts = [re.findall(r"(\d+) of (?:10|8) ", note) for note in made.notes[:4]]
    assert counts == [["0", "2"], ["8", "6"], ["8", "6"], ["0", "2"]]
    assert re.findall(r"(\d+) of (?:10|8)\b", result) == [*counts[0], *counts[1], *counts[3]]


def test_figure_is_the_golden_one(made):
    assert_golden("lite", made)
