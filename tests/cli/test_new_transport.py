"""A transport of one's own, the whole way as its author goes it."""

from __future__ import annotations

from pathlib import Path

import pytest
from as_a_user import PLAIN, python
from click.testing import CliRunner

from netsim.cli import app
from netsim.plugins import registry
from netsim.results import load, load_sweep

FILES = ["mine.py", "mine.toml", "test_mine.py"]


def new_transport(*arguments: str):
    return CliRunner().invoke(app, ["new-transport", *arguments])


def test_from_nothing_to_a_plot(tmp_path: Path) -> None:
    said = python(tmp_path, "netsim", "new-transport", "mine")
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES
    check, run, test = [line.split() for line in said.splitlines() if line.startswith("  ")]
    assert (check[:2], run[:2]) == (["netsim", "check-transport"], ["netsim", "run"])
    assert "pass" in python(tmp_path, *check, "--case", "sizes", "--case", "random loss", env=PLAIN)
    python(tmp_path, *run)
    python(tmp_path, *test, "-p", "no:cacheprovider", env=PLAIN)  # it tries all cases
    assert load(tmp_path / "results" / "mine").complete
    assert (tmp_path / "results" / "mine" / "fct_cdf.png").stat().st_size > 1000
    run = ["netsim", "run", "mine.toml"]
    both = "transport=['./mine.py:careful', 'ideal']"
    python(tmp_path, *run, "--set", both, "--out", "both", "--plot")
    sweep = load_sweep(tmp_path / "both")
    assert sweep.table["status"].to_list() == ["finished"] * 2
    careful = sweep.points[0].experiment["resolved"]["transport"]
    assert careful["target_delay"] == "1us"
    assert "target_delay" in python(tmp_path, "netsim", "show", "transport", "mine.py")


def test_it_says_what_to_do_next(tmp_path: Path) -> None:
    said = new_transport("mine", "--directory", str(tmp_path)).stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES
    guide = next(line for line in said.splitlines() if line.endswith("README.md"))
    assert Path(guide.split()[-1]).is_file()


def test_the_name_is_put_in_everywhere(tmp_path: Path) -> None:
    new_transport("my_idea_2", "--directory", str(tmp_path))
    assert all("my_transport" not in path.read_text() for path in tmp_path.iterdir())
    plugin = registry.find("transport", str(tmp_path / "my_idea_2.py"))
    assert plugin.param("target_delay") is not None
    assert plugin.summary.endswith(".")


@pytest.mark.parametrize("file", FILES)
def test_nothing_is_overwritten(tmp_path: Path, file: str) -> None:
    (tmp_path / file).write_text("precious")
    result = new_transport("mine", "--directory", str(tmp_path))
    assert result.exit_code == 2
    assert "already exists" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == [file]
    assert (tmp_path / file).read_text() == "precious"


@pytest.mark.parametrize("name", ["my-idea", "2fast", "class", "../up", "a.py", "", "numpy", "re"])
def test_names_that_cannot_be(tmp_path: Path, name: str) -> None:
    result = new_transport(name, "--directory", str(tmp_path))
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    assert not list(tmp_path.iterdir())


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    result = new_transport("mine", "--directory", str(tmp_path / "nowhere"))
    assert result.exit_code == 2
