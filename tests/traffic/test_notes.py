"""Traffic notes: printed, and written to the result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from netsim.cli import app
from netsim.model.flows import FlowTable
from netsim.model.workload import Workload

EXPERIMENT = """
transport = "ideal"
[topology]
kind = "fat_tree"
hosts_per_leaf = 2
leaves = 2
[traffic]
kind = "poisson"
sizes = [["1KB", 0.5], ["3KB", 1.0]]
rate = 1e6
n_flows = 10
"""


def test_notes_are_printed_and_written_to_the_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("e.toml").write_text(EXPERIMENT)
    checked = CliRunner().invoke(app, ["check", "e.toml", "--set", "seed='1..2'"])
    ran = CliRunner().invoke(app, ["run", "e.toml", "--out", "r"])
    (note,) = json.loads(Path("r/summary.json").read_text())["traffic"]
    assert "1,500.0" in note
    assert checked.output.count(note) == 1
    assert note in ran.output


def test_joined_workloads_keep_each_note_once() -> None:
    one, other = (Workload(FlowTable([0], [1], 1), notes=notes) for notes in (("a", "b"), ("b",)))
    assert Workload.join([one, other]).notes == ("a", "b")
