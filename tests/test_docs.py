"""The pages in docs/ and the heads of experiments: tables equal their source, examples load."""

import re
import tomllib
from pathlib import Path

import pytest
from generated import ROOT, pages, regenerated

from netsim.discovery import stated_time
from netsim.experiment import Experiment, built_in

LABELS = ["Shows:", "Run:", "Time:", "Output:", "Omits:"]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_generated_tables_equal_their_source(page):
    text = page.read_text("utf-8")
    assert regenerated(text) == text, "run: python tests/generated.py"


def test_complete_examples_load(tmp_path):
    found = 0
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for block in re.findall(r"^```toml\n(.*?)^```", page.read_text("utf-8"), re.M | re.S):
            if {"topology", "traffic", "transport"} <= tomllib.loads(block).keys():
                (tmp_path / "example.toml").write_text(block)
                assert Experiment.load(tmp_path / "example.toml").points()
                found += 1
    assert found >= 5


def test_every_picture_is_in_the_gallery():
    page = (ROOT / "docs" / "gallery.md").read_text("utf-8")
    pictures = {path.name for path in (ROOT / "plots").glob("*.png")}
    assert {
        Path(path).name for path in re.findall(r"\]\(([^)]+\.png)\)\n\n {4}netsim", page)
    } == pictures


def test_heads_of_experiments_have_the_same_five_lines():
    for name, path in built_in().items():
        text = path.read_text("utf-8")
        head = re.findall(r"(?m)^# (\w+:) ", text.partition("\n#\n")[0].partition("\n\n")[0])
        assert head == LABELS, name
        assert stated_time(path), name
        assert re.search(rf"netsim (run|saturate) {name}|netsim topo", text), name
