"""Shards of a sweep and merging them."""

import json
import os
import shutil
from contextlib import chdir
from pathlib import Path

import pytest
from cli_outcome import fails
from click.testing import CliRunner
from raises_input import mentions

from netsim.cli import app
from netsim.results import load

EXPERIMENT = """
name = "e"
seed = "1..2"
transport = "ideal"
topology = {kind = "dumbbell", hosts = 2}
traffic = {kind = "permutation", size = ["30KB", "1MB", "64B"]}
"""


def netsim(*arguments):
    return CliRunner().invoke(app, [str(one) for one in arguments])


@pytest.fixture(scope="module")
def shards_folder(tmp_path_factory):
    """A directory with a sweep of six points, run in four shards."""
    folder = tmp_path_factory.mktemp("shards_folder")
    with chdir(folder):
        Path("e.toml").write_text(EXPERIMENT)
        for number in range(1, 5):
            run = netsim("run", "e.toml", "--shard", f"{number}/4")
            assert run.exit_code == 0, run.output
    return folder


@pytest.fixture
def shards(shards_folder, tmp_path, monkeypatch):
    """The four shards of the sweep, in the working directory."""
    shutil.copytree(shards_folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return [Path(f"results/e.shard-{number}-of-4") for number in range(1, 5)]


def contents(directory):
    """Everything in the results of a sweep."""
    sweep = load(directory)
    for one in sweep.points:
        for place in ("directory", "origin"):  # where the experiment file was
            one.experiment.pop(place)
    points = [(one.name, one.summary, one.experiment, one.flows.rows()) for one in sweep.points]
    return [sweep.table.rows(named=True), sweep.table.schema, points]


def test_merged_shards_equal_the_sweep(shards):
    assert netsim("run", "e.toml", "--out", "whole", "--jobs", "1").exit_code == 0
    merged = netsim("merge", *reversed(shards))
    assert merged.exit_code == 0, merged.output
    assert contents("results/e") == contents("whole")
    assert sorted(os.listdir("results/e")) == sorted(os.listdir("whole"))
    before = {path: path.stat().st_ino for path in Path("results/e").glob("*/*")}
    assert netsim("merge", *shards).exit_code == 0
    assert {path: path.stat().st_ino for path in Path("results/e").glob("*/*")} == before
    run = netsim("run", "e.toml")
    assert "kept 6 of 6 points" in run.output


def test_merge_names_points_without_a_result(shards):
    shutil.rmtree(shards[1] / "size=30KB,seed=2")
    merged = netsim("merge", *shards, "--out", "m")
    assert merged.exit_code == 1
    assert mentions(merged.output, "not finished: size=30KB,seed=2")
    assert len(load("m").table) == 5


def test_merge_rejects_shards_that_do_not_match(shards):
    assert fails(netsim("merge", *shards[:2]), 2, "3, 4 of 4")
    shutil.copytree(shards[0], "twin")
    assert fails(netsim("merge", *shards, "twin"), 2, "both shard 1")
    Path("copy").mkdir()
    assert fails(netsim("merge", "copy"), 2, "copy is not a shard")
    assert fails(netsim("merge", "nothing"), 2, "nothing", "no such directory")
    assert fails(netsim("merge", *shards, "--out", shards[0]), 2, "contains the shard")
    other = netsim("run", "e.toml", "--shard", "1/4", "--set", "seed=[3, 4]", "--out", "other")
    assert other.exit_code == 0
    assert fails(netsim("merge", "other", *shards[1:], "--out", "m"), 2, "different sweeps")
    assert not Path("m").exists()
    for text in ("5/4", "0/4", "x", "1/2/3"):
        assert fails(netsim("run", "e.toml", "--shard", text), 2, "--shard", text)
    assert fails(netsim("run", "e.toml", "--shard", "1/7"), 2, "7 shards of 6 points")


@pytest.mark.parametrize(
    "damage",
    [
        lambda point: (point / "summary.json").write_text("{}"),
        lambda point: (point / "flows.parquet").unlink(),
        lambda point: (point / "mine.txt").write_text("x"),
        lambda point: (
            (point / "links.parquet").unlink()
            or (point / "links.parquet").symlink_to("/etc/passwd")
        ),
        lambda point: point.rename(point.with_name("y")) and point.symlink_to("y"),
        lambda point: edit(point.parent / "shard.json", points=["../x", *"abcde"]),
        lambda point: edit(point.parent / "shard.json", number=9),
        lambda point: edit(point / "experiment.json", point="other"),
    ],
    ids=["summary", "flows", "foreign", "link", "linked-point", "path", "number", "other-point"],
)
def test_damaged_shard_is_one_error(shards, damage):
    damage(shards[0] / "size=30KB,seed=1")
    merged = netsim("merge", *shards, "--out", "m")
    assert merged.exit_code == 2, merged.output
    assert merged.output.count("\n") == 1
    assert not list(Path().glob("m/size=30KB,seed=1/*"))


def edit(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
