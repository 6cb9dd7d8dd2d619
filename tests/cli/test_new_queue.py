"""A queue discipline of one's own, the whole way as its author goes it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from as_a_user import PLAIN, python
from click.testing import CliRunner

from netsim.cli import app
from netsim.plugins import registry
from netsim.results import load, load_sweep

FILES = ["mine.py", "mine.toml", "test_mine.py"]


def new_queue(*arguments: str):
    return CliRunner().invoke(app, ["new-queue", *arguments])


def test_from_nothing_to_a_result(tmp_path: Path) -> None:
    said = python(tmp_path, "netsim", "new-queue", "mine")
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES
    check, run, test = [line.split() for line in said.splitlines() if line.startswith("  ")]
    assert (check[:2], run[:2]) == (["netsim", "check-queue"], ["netsim", "run"])
    assert "pass" in python(tmp_path, *check, "--case", "lone packets", "--case", "busy")
    small = ("--set", "traffic.size=40KB", "--set", "flow_classes.second.traffic.size=40KB")
    python(tmp_path, *run, *small, env=PLAIN)
    sweep = load_sweep(tmp_path / "results" / "mine").table
    assert sweep["status"].to_list() == ["finished"] * 2
    names = (f"queue_discipline={name}" for name in ("mine.py", "drop_tail"))
    own, strict = (tmp_path / "results" / "mine" / name for name in names)
    plugins = load(own).experiment["plugins"]
    (queue,) = [plugin for plugin in plugins if plugin["kind"] == "queue"]
    assert queue["sources"]["mine.py"] == (tmp_path / "mine.py").read_text()
    # The first class shares its link, where strict priorities let the other wait.
    shared, alone = (
        load(folder).flows.filter(pl.col("flow_class") == "")["fct_ps"].max()
        for folder in (own, strict)
    )
    assert alone < 0.7 * shared
    python(tmp_path, *test, "-k", "half", "-p", "no:cacheprovider", env=PLAIN)


@pytest.mark.slow
def test_its_test_passes_as_it_is(tmp_path: Path) -> None:
    new_queue("mine", "--directory", str(tmp_path))
    python(tmp_path, "pytest", "test_mine.py")


def test_the_name_is_put_in_everywhere(tmp_path: Path) -> None:
    said = new_queue("my_idea_2", "--directory", str(tmp_path)).stdout
    guide = next(line for line in said.splitlines() if line.endswith("README.md"))
    assert Path(guide.split()[-1]).is_file()
    assert all("my_queue" not in path.read_text() for path in tmp_path.iterdir())
    plugin = registry.find("queue", str(tmp_path / "my_idea_2.py"))
    assert plugin.param("quantum_bytes") is not None
    assert plugin.summary.endswith(".")


@pytest.mark.parametrize("file", FILES)
def test_nothing_is_overwritten(tmp_path: Path, file: str) -> None:
    (tmp_path / file).write_text("precious")
    result = new_queue("mine", "--directory", str(tmp_path))
    assert result.exit_code == 2
    assert "already exists" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == [file]


@pytest.mark.parametrize("name", ["my-idea", "class", "../up", "numpy"])
def test_names_that_cannot_be(tmp_path: Path, name: str) -> None:
    result = new_queue(name, "--directory", str(tmp_path))
    assert result.exit_code == 2, result.output
    assert not list(tmp_path.iterdir())
