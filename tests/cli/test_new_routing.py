"""A routing algorithm of one's own, the whole way as its author goes it."""

from __future__ import annotations

from pathlib import Path

from as_a_user import PLAIN, python
from click.testing import CliRunner

from netsim.cli import app
from netsim.plugins import registry
from netsim.results import load, load_sweep


def test_from_nothing_to_a_result(tmp_path: Path) -> None:
    said = python(tmp_path, "netsim", "new-routing", "mine")
    files = ["mine.py", "mine.toml", "test_mine.py"]
    assert sorted(path.name for path in tmp_path.iterdir()) == files
    check, run, test = [line.split() for line in said.splitlines() if line.startswith("  ")]
    assert (check[:2], run[:2]) == (["netsim", "check-routing"], ["netsim", "run"])
    assert "pass" in python(tmp_path, *check, "--case", "tree")
    small = ("topology.leaves=2", "topology.hosts_per_leaf=4", "traffic.size=200KB", "seed=1")
    options = (word for one in small for word in ("--set", one))
    python(tmp_path, *run, *options, env=PLAIN)
    sweep = load_sweep(tmp_path / "results" / "mine").table
    assert sweep["status"].to_list() == ["finished"] * 2
    own = load(tmp_path / "results" / "mine" / "routing=mine.py")
    (routing,) = [plugin for plugin in own.experiment["plugins"] if plugin["kind"] == "routing"]
    assert routing["sources"]["mine.py"] == (tmp_path / "mine.py").read_text()
    # The source goes with the result, from which a flow is traced.
    (tmp_path / "mine.py").unlink()
    trace = (str(own.path), "--flow", "0", "--trust", "--limit", "5")
    assert "leaf0" in python(tmp_path, "netsim", "trace", *trace, env=PLAIN)
    CliRunner().invoke(app, ["new-routing", "mine", "--directory", str(tmp_path / "results")])
    (tmp_path / "mine.py").write_text((tmp_path / "results" / "mine.py").read_text())
    python(tmp_path, *test, "-k", "uplinks", "-p", "no:cacheprovider", env=PLAIN)


def test_the_name_is_put_in_everywhere(tmp_path: Path) -> None:
    said = CliRunner().invoke(app, ["new-routing", "my_idea_2", "--directory", str(tmp_path)])
    guide = next(line for line in said.stdout.splitlines() if line.endswith("README.md"))
    assert Path(guide.split()[-1]).is_file()
    assert all("my_routing" not in path.read_text() for path in tmp_path.iterdir())
    assert registry.find("routing", str(tmp_path / "my_idea_2.py")).param("flowlet_gap")
