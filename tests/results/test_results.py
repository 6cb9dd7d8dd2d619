"""Result files can be read back, are documented, and never replace foreign files."""

import json
import os
import shutil

import polars as pl
import pytest
from fakes import FakePoint, fake_result
from raises_input import raises_input

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
from netsim.results.destination import check_destination, prepare_sweep
from netsim.results.write import failed_row


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
        with raises_input("sweep"):
            load_result(tmp_path / "sweep")

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
