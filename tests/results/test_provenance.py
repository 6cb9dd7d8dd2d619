"""Fingerprints of runs: commits, and files that plugins read. See also test_structure.py."""

import shutil
import subprocess
from pathlib import Path

import pytest

from netsim.experiment import Experiment
from netsim.plugins.registry import load
from netsim.results.provenance import commits, data_files, provenances

TREE = {"kind": "fat_tree", "hosts_per_leaf": 2, "leaves": 2}


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_commit_and_changed_files_are_recorded(tmp_path: Path, monkeypatch) -> None:
    repository, worktree = tmp_path / "r", tmp_path / "worktree"
    (repository / "below").mkdir(parents=True)
    mine, other = repository / "below" / "mine.py", repository / "other.py"
    mine.write_text("a = 1\n")
    git(repository, "init", "-q")
    assert commits([mine]) == []  # a repository without a commit has nothing to report
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "first")
    commit = git(repository, "rev-parse", "HEAD")
    state = {"directory": str(repository), "commit": commit, "dirty": False, "changed": []}
    assert commits([mine]) == [state]
    other.write_text("")
    mine.write_text("a = 2\n")
    changed = {**state, "dirty": True, "changed": ["below/mine.py", "other.py"]}
    assert commits([mine, other, tmp_path / "in none.py"]) == [changed]
    git(repository, "worktree", "add", "-q", "--detach", str(worktree))
    assert commits([worktree / "below" / "mine.py"]) == [{**state, "directory": str(worktree)}]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commits([mine]) == []


def test_fingerprint_contains_files_a_plugin_reads(tmp_path: Path) -> None:
    """The traffic reads all traces with a prefix, so no parameter names the files themselves."""
    experiment = (
        'transport = "ideal"\n[topology]\nkind = "fat_tree"\nhosts_per_leaf = 2\nleaves = 2\n'
        '[traffic]\nkind = "chakra"\nfile = "t"\n'
    )
    (tmp_path / "e.toml").write_text(experiment)
    (point,) = Experiment.load(tmp_path / "e.toml").points()
    assert data_files(point) == []
    for rank in range(2):
        (tmp_path / f"t.{rank}.et").write_bytes(b"")
    assert [path.name for path in data_files(point)] == ["t.0.et", "t.1.et"]
    before = provenances([point])[0].fingerprint
    reference = (
        '[reference]\naxis = "seed"\ncolumn = "fct_mean"\nlabel = "x"\nvalues = [[1, "2us"]]\n'
    )
    (tmp_path / "e.toml").write_text(experiment + reference)
    (referring,) = Experiment.load(tmp_path / "e.toml").points()
    assert referring.resolved["reference"]["axis"] == "seed"
    assert provenances([referring])[0].fingerprint == before
    (tmp_path / "t.1.et").write_bytes(b"other")
    assert provenances([point])[0].fingerprint != before


def test_fingerprint_does_not_depend_on_other_plugins_loaded_by_path() -> None:
    (point,) = Experiment(transport="ideal", topology=TREE, traffic="permutation").points()
    before = provenances([point])[0].fingerprint
    load(point.transport.plugin.path, shown="ideal.py")
    assert provenances([point])[0].fingerprint == before
