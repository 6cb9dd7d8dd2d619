"""A topology of one's own, the whole way as its author goes it."""

from __future__ import annotations

from pathlib import Path

import pytest
from as_a_user import PLAIN, python
from click.testing import CliRunner

from netsim.cli import app
from netsim.network import build_topology
from netsim.results import load_sweep

FILES = ["mine.py", "mine.toml", "test_mine.py"]


def new_topology(*arguments: str):
    return CliRunner().invoke(app, ["new-topology", *arguments])


def test_from_nothing_to_a_result(tmp_path: Path) -> None:
    said = python(tmp_path, "netsim", "new-topology", "mine")
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES
    look, run, test = [line.split() for line in said.splitlines() if line.startswith("  ")]
    assert "diameter" in python(tmp_path, *look)
    python(tmp_path, *run, "--set", "traffic.size=20KB", env=PLAIN)
    sweep = load_sweep(tmp_path / "results" / "mine").table
    assert sweep["topology"].to_list() == ["mine", "fat_tree"]
    assert sweep["status"].to_list() == ["finished"] * 2
    python(tmp_path, *test, "-p", "no:cacheprovider", env=PLAIN)


def test_the_name_is_put_in_everywhere(tmp_path: Path) -> None:
    said = new_topology("my_idea_2", "--directory", str(tmp_path)).stdout
    guide = next(line for line in said.splitlines() if line.endswith("README.md"))
    assert Path(guide.split()[-1]).is_file()
    assert all("my_topology" not in path.read_text() for path in tmp_path.iterdir())
    network = build_topology(tmp_path / "my_idea_2.py", switches=5)
    assert network.name == "my_idea_2_5x4"


@pytest.mark.parametrize("file", FILES)
def test_nothing_is_overwritten(tmp_path: Path, file: str) -> None:
    (tmp_path / file).write_text("precious")
    result = new_topology("mine", "--directory", str(tmp_path))
    assert result.exit_code == 2
    assert "already exists" in result.stderr
