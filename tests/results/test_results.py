"""Results: writing, reading, merging."""

import json
import math
import os
import shutil
from contextlib import chdir
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner
from fakes import FakePoint, fake_result
from raises_input import fails, mentions, raises_input

from netsim.cli import app
from netsim.results import (
    COLUMNS,
    is_sweep,
    load,
    load_result,
    load_sweep,
    summary_of,
    sweep_row,
    write_result,
    write_sweep,
)
from netsim.results.columns import Column, TableSpec
from netsim.results.destination import check_destination, prepare_sweep
from netsim.results.write import failed_row
from netsim.running.saturation import Saturation, is_saturated, next_loads, saturation_of


def test_written_result_loads_with_equal_tables(tmp_path):
    written = fake_result()
    directory = write_result(tmp_path / "deep" / "run", FakePoint(), written)
    result = load(directory)
    assert result.complete
    assert result.name == "tiny"
    assert result.flows["fct_ps"].to_list() == written.flows["fct_ps"].tolist()
    assert result.flows.columns == list(written.flows)
    assert result.links["from_name"].to_list() == written.links["from_name"].tolist()
    assert result.summary["hash"] == result.experiment["hash"] == written.hash
    assert result.experiment["versions"].keys() >= {"netsim", "python", "numba", "numpy"}
    assert [plugin["name"] for plugin in result.experiment["plugins"]] == [
        "fat_tree",
        "ndp",
        "permutation",
    ]
    assert os.listdir(tmp_path / "deep") == ["run"]


@pytest.mark.parametrize("table", ["flows", "links"])
def test_columns_carry_unit_and_description(tmp_path, table):
    directory = write_result(tmp_path / "run", FakePoint(), fake_result())
    metadata = pl.read_parquet_metadata(directory / f"{table}.parquet")
    assert metadata["netsim.table"] == table
    about = json.loads(metadata["netsim.columns"])
    assert [*about] == pl.read_parquet(directory / f"{table}.parquet").columns
    for name, found in about.items():
        known = COLUMNS[table][name]
        assert found == {"unit": known.unit, "doc": known.doc}
        assert known.doc


def test_partial_result_is_marked_incomplete(tmp_path):
    result = fake_result(4, unfinished=1, complete=False, stop_reason="interrupted")
    loaded = load(write_result(tmp_path / "run", FakePoint(), result))
    assert not loaded.complete
    assert loaded.summary["stop_reason"] == "interrupted"
    assert "partial" in repr(loaded)


def test_earlier_result_is_replaced_with_all_its_files(tmp_path):
    first = write_result(tmp_path / "run", FakePoint(), fake_result(4))
    (first / "fct_cdf.png").write_bytes(b"a picture of the earlier result")
    second = write_result(tmp_path / "run", FakePoint(), fake_result(6))
    assert len(load(second).flows) == 6
    assert sorted(os.listdir(second)) == [
        "experiment.json",
        "flows.parquet",
        "links.parquet",
        "summary.json",
    ]
    assert os.listdir(tmp_path) == ["run"]


def test_foreign_files_are_never_replaced(tmp_path):
    """Names and kinds of all files count, and the contents of a JSON file or a checkpoint."""
    result = write_result(tmp_path / "result", FakePoint(), fake_result())
    user_table = tmp_path / "user_table.parquet"
    pl.DataFrame({"thesis": [1]}).write_parquet(user_table)
    foreign = {
        "notes.txt": lambda path: path.write_text("mine"),
        "thesis": lambda path: path.mkdir(),
        "summary.json": lambda path: path.write_text('{"complete": true}'),
        "experiment.json": lambda path: path.write_text("[1]"),
        "flows.parquet": lambda path: shutil.copy(user_table, path),
        "sweep.parquet": lambda path: shutil.copy(user_table, path),
        "links.parquet": lambda path: path.symlink_to(result / "links.parquet"),
        "fct_cdf.png": os.mkfifo,
        "checkpoint.netsim": lambda path: path.mkdir(),
    }
    for name, create in foreign.items():
        alone, among = tmp_path / "alone" / name, tmp_path / "among" / name
        alone.mkdir(parents=True)
        shutil.copytree(result, among)
        is_name_of_result = name in ("summary.json", "experiment.json", "flows.parquet")
        for folder in (alone, *([] if is_name_of_result else [among])):
            (folder / name).unlink(missing_ok=True)
            create(folder / name)
            entries, before = sorted(os.listdir(folder)), (folder / name).lstat()
            with raises_input(name):
                write_result(folder, FakePoint(), fake_result())
            for sweep in (False, True):
                with raises_input(name):
                    check_destination(folder, sweep=sweep)
            assert sorted(os.listdir(folder)) == entries
            assert os.path.samestat((folder / name).lstat(), before)


def test_file_is_rejected_as_result_directory(tmp_path):
    (tmp_path / "run").write_text("mine")
    with raises_input("file", code="unreadable"):
        write_result(tmp_path / "run", FakePoint(), fake_result())


def test_failed_write_leaves_the_earlier_result(tmp_path, monkeypatch):
    write_result(tmp_path / "run", FakePoint(), fake_result(4))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("netsim.results.files.write_json", full)
    with raises_input():
        write_result(tmp_path / "run", FakePoint(), fake_result(6))
    assert len(load(tmp_path / "run").flows) == 4
    assert os.listdir(tmp_path) == ["run"]


@pytest.mark.parametrize("name", ["summary.json", "experiment.json", "flows.parquet"])
def test_pipes_and_directories_in_a_result_are_rejected(tmp_path, name):
    """Reading a pipe would block forever."""
    for make in (os.mkfifo, os.mkdir):
        directory = write_result(tmp_path / make.__name__, FakePoint(), fake_result())
        (directory / name).unlink()
        make(directory / name)
        with raises_input(name):
            _ = load(directory).flows


def test_missing_results_are_rejected(tmp_path):
    with raises_input():
        load(tmp_path / "nothing")
    with raises_input("sweep"):
        load_sweep(tmp_path)


def test_damaged_file_is_named(tmp_path):
    directory = write_result(tmp_path / "run", FakePoint(), fake_result())
    (directory / "flows.parquet").write_bytes(b"not parquet")
    with raises_input("flows.parquet"):
        _ = load(directory).flows
    for content in (b"{", b"\xff", b"[" * 10_000, rb'{"a": "\ud800"}'):
        (directory / "summary.json").write_bytes(content)
        with raises_input("summary.json", "JSON", code="unreadable"):
            load(directory)


@pytest.mark.parametrize("wrong", [-1, 2**63, 10**400])
def test_impossible_numbers_are_rejected(tmp_path, wrong):
    directory = write_result(tmp_path / "run", FakePoint(), fake_result())
    summary = json.loads((directory / "summary.json").read_text())
    (directory / "summary.json").write_text(json.dumps({**summary, "simulated_ps": wrong}))
    with raises_input("summary.json", key="simulated_ps"):
        load(directory)


class TestSweep:
    @pytest.fixture
    def points(self):
        return [
            FakePoint(name=f"seed-{seed}", axes={"seed": seed, "traffic.load": load}, seed=seed)
            for seed, load in ((1, 0.5), (2, 1))
        ]

    def test_sweep_has_a_table_and_points(self, tmp_path, points):
        prepare_sweep(tmp_path / "sweep")
        rows = []
        for point in points:
            result = fake_result(seed=point.seed)
            write_result(tmp_path / "sweep" / point.name, point, result)
            rows.append(sweep_row(point, summary_of(result)))
            write_sweep(tmp_path / "sweep", rows)
        sweep = load_sweep(tmp_path / "sweep")
        assert sweep.table["traffic.load"].to_list() == [0.5, 1.0]
        assert sweep.table["fct_max_ps"].to_list() == [
            point.summary["fct_ps"]["max"] for point in sweep.points
        ]
        assert set(sweep.table.columns) - {"traffic.load"} == set(COLUMNS["sweep"])
        assert pl.Null not in sweep.table.dtypes
        one = write_sweep(tmp_path, [failed_row(points[0])])
        assert len(pl.concat([sweep.table, pl.read_parquet(one)])) == 3
        assert load(tmp_path / "sweep").table.equals(sweep.table)
        for wrong, hints in {"sweep": ("seed-1", "seed-2"), "sweep/seed-22": ("seed-2",)}.items():
            with raises_input(wrong, *hints):
                load_result(tmp_path / wrong)

    def test_failed_point_has_a_row_but_no_result(self, tmp_path, points):
        prepare_sweep(tmp_path)
        result = fake_result()
        write_result(tmp_path / points[0].name, points[0], result)
        write_sweep(tmp_path, [sweep_row(points[0], summary_of(result)), failed_row(points[1])])
        sweep = load_sweep(tmp_path)
        assert sweep.table["status"].to_list() == ["finished", "failed"]
        assert len(sweep.points) == 1

    def test_sweep_replaces_only_a_partial_result(self, tmp_path):
        path = tmp_path / "run"
        write_result(path, FakePoint(), fake_result(complete=False))
        check_destination(path, sweep=True)
        prepare_sweep(path)
        write_sweep(path, [])
        assert is_sweep(path)
        assert load(path).points == []
        with raises_input("sweep"):
            write_result(path, FakePoint(), fake_result())
        write_result(tmp_path / "whole", FakePoint(), fake_result())
        with raises_input():
            check_destination(tmp_path / "whole", sweep=True)


def test_table_spec_parses_lines_as_columns() -> None:
    """Indented lines continue the description; ``?`` marks nullable, ``*`` optional columns."""
    spec = TableSpec.of(
        "made_up",
        """
        flow       index  flow, in the order
            of the traffic
        start_ps?  ps     start
        label*     -      name of the flow
        """,
        hash_order=3,
    )
    assert spec == TableSpec(
        "made_up",
        (
            Column("flow", "index", "flow, in the order of the traffic"),
            Column("start_ps", "ps", "start", null_below_zero=True),
            Column("label", "", "name of the flow", optional=True),
        ),
        hash_order=3,
    )


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


GRID = [0.05, 0.3, 0.55, 0.8]


def row(offered: float, accepted: float, interval: float = 0.001, status: str = "measured"):
    excess = {"excess_load": offered - accepted, "excess_interval": interval}
    return {"offered_load": offered, "status": status, **excess}


@pytest.mark.parametrize(
    ("rows", "saturated"),
    [
        ([row(0.5, 0.496)], False),  # within 1 %
        ([row(0.5, 0.494)], True),
        ([row(0.5, 0.494, interval=0.007)], False),  # within the confidence interval
        ([row(0.5, 0.494, interval=0.007)] * 4, True),
        ([row(0.5, 0.51)], False),
        ([{"status": "stalled"}, row(0.5, 0.5)], True),
        ([{"status": "interrupted"}], None),
        ([], None),
    ],
)
def test_load_is_saturated_if_its_backlog_grows(rows, saturated) -> None:
    assert is_saturated(rows) is saturated


@pytest.mark.parametrize("limit", [0.0125, 0.2, 0.4375, 0.7, 0.9])
def test_search_halves_the_interval_to_the_tolerance(limit: float) -> None:
    measured, rounds = {}, 0
    while loads := next_loads(measured, GRID, 0.005):
        rounds += 1
        measured |= {load: [row(load, min(load, limit))] for load in loads}
    found = saturation_of(measured)
    if limit < GRID[0]:
        assert (found, str(found), rounds) == (Saturation(None, 0.05), "below 0.05", 1)
    elif limit > GRID[-1]:
        assert (found, str(found), rounds) == (Saturation(0.8, None), "above 0.8", 1)
    else:
        assert found.low is not None
        assert found.high is not None
        assert found.low * 0.99 <= limit < found.high
        assert 0.005 < found.high - found.low <= 0.01
        assert rounds == 1 + math.ceil(math.log2(0.25 / 0.01))
        assert str(found) == f"{found.load:.3f} ± 0.004"
