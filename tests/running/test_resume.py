"""Results that exist when a run starts are kept, continued, repaired or rejected, never lost."""

import errno
import json
import os
import shutil
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from fake_simulate import FakeSimulate
from fakes import FakePoint, fake_result
from raises_input import mentions, raises_input

import netsim
from netsim.cli import app
from netsim.plugins import registry
from netsim.results import load, write_result, write_sweep
from netsim.results.destination import exclusive

EXPERIMENT = """
name = "e"
seed = [1, 2, 3]
transport = "ndp"
[topology]
kind = "fat_tree"
hosts_per_leaf = 2
leaves = 4
[traffic]
kind = "permutation"
size = "1MB"
"""


@pytest.fixture
def fake(monkeypatch):
    fake = FakeSimulate()
    fake.install(monkeypatch)
    return fake


@pytest.fixture
def run(tmp_path, monkeypatch, fake):
    """Return a function that runs `netsim run e.toml`: exit status and simulated seeds."""
    monkeypatch.chdir(tmp_path)
    Path("e.toml").write_text(EXPERIMENT)

    def run(*arguments: str, out: str = "r"):
        fake.seen.clear()
        result = CliRunner().invoke(app, ["run", "e.toml", "--out", out, *arguments])
        assert "Traceback" not in result.output, result.output
        run.output = result.output
        return result.exit_code, [point.seed for point in fake.seen]

    return run


def statuses(out: str = "r") -> list[str]:
    return load(out).table["status"].to_list()


class TestKept:
    def test_finished_points_are_not_run_again(self, run):
        assert run() == (0, [1, 2, 3])
        before = load("r").table
        assert run() == (0, [])
        assert run.output.count("finished, kept") == 3
        assert mentions(run.output, "3")
        assert load("r").table.equals(before)
        assert run("--force") == (0, [1, 2, 3])

    @pytest.mark.usefixtures("run")
    def test_python_api_returns_every_point_with_its_status(self, fake):
        fake.fate |= {"seed=1": "stalled", "seed=2": "failed"}
        results = netsim.run(tomllib.loads(Path("e.toml").read_text()), out="r")
        assert [(one.name, one.status, one.complete) for one in results] == [
            ("seed=1", "stalled", False),
            ("seed=2", "failed", False),
            ("seed=3", "finished", True),
        ]
        assert "flow 7" in results[0].reason
        assert results[1].reason
        assert len(results[2].flows) > 0

    def test_only_missing_points_are_run(self, run, fake):
        fake.fate["seed=2"] = "stalled"
        assert run() == (1, [1, 2, 3])
        fake.fate.clear()
        assert run("--seed", "1..5") == (0, [2, 4, 5])
        assert statuses() == ["finished"] * 5

    def test_changed_value_runs_points_again(self, run):
        run()
        assert run("--set", "traffic.size=2MB")[1] == [1, 2, 3]
        assert run("--set", "traffic.size=2MB", "--set", "name=other")[1] == []
        assert run("--set", "outputs.links=false", "--set", "traffic.size=2MB")[1] == [1, 2, 3]

    @pytest.mark.parametrize("file", ["mine.py", "helper.py", "flows.csv"])
    def test_changed_plugin_helper_or_data_runs_points_again(self, run, file):
        Path("helper.py").write_text("LENGTH = 5\n")
        Path("mine.py").write_text(
            '"""Flows of a file."""\nimport helper\nfrom netsim.params import Param\n'
            'PARAMS = [Param("file", "file", "flows.csv", "a list")]\n'
            "def flows(params, network, rng, context):\n    raise AssertionError\n"
        )
        Path("flows.csv").write_text("src,dst,size\n")
        traffic = ("--set", "traffic={kind='./mine.py'}")
        assert run(*traffic) == (0, [1, 2, 3])
        assert run(*traffic) == (0, [])
        before = load("r/seed=1").experiment
        Path(file).write_text(Path(file).read_text() + "# a remark\n")
        assert run(*traffic) == (0, [1, 2, 3])
        changes = [line for line in run.output.splitlines() if line.startswith("changed: ")]
        assert len(changes) == 1
        assert ("mine.py" in changes[0]) == file.endswith(".py")
        assert load("r/seed=1.previous").experiment == before
        assert run(*traffic) == (0, [])
        assert "changed: " not in run.output

    def test_plugin_edited_during_the_run_runs_again(self, run, fake, monkeypatch):
        Path("mine.py").write_text(registry.find("transport", "datagram").path.read_text())

        def edited_meanwhile(point, **options):
            Path("mine.py").write_text(Path("mine.py").read_text() + "# edited\n")
            return fake.simulate(point, **options)

        monkeypatch.setattr("netsim.running.executor.simulate", edited_meanwhile)
        transport = ("--seed", "1", "--set", "transport=./mine.py")
        assert run(*transport) == (0, [1])
        assert "# edited" not in load("r").experiment["plugins"][1]["sources"]["mine.py"]
        monkeypatch.setattr("netsim.running.executor.simulate", fake.simulate)
        assert run(*transport) == (0, [1])
        assert run(*transport) == (0, [])

    def test_changed_netsim_code_runs_points_again(self, run, monkeypatch):
        run()
        monkeypatch.setattr("netsim.results.provenance.code_inputs", lambda: {"netsim": "edited"})
        assert run() == (0, [1, 2, 3])

    @pytest.mark.parametrize("damage", ["flows.parquet", "experiment.json", "summary.json"])
    def test_damaged_point_is_run_again(self, run, damage):
        run()
        Path("r/seed=2", damage).write_bytes(b"{")
        assert run() == (0, [2])
        assert run() == (0, [])


class TestNothingIsLost:
    def test_partial_rerun_keeps_the_complete_result(self, run, fake):
        run("--seed", "1")
        whole = load("r").summary
        fake.fate["e"] = "SIGINT"
        assert run("--seed", "1", "--force") == (130, [1])
        assert "kept the complete result" in run.output
        assert load("r").summary == whole
        fake.fate.clear()
        assert run("--seed", "1", "--force") == (0, [1])
        assert sorted(os.listdir()) == ["e.toml", "r"]

    def test_partial_point_of_changed_experiment_keeps_the_complete_one(self, run, fake):
        run()
        fake.fate["seed=1"] = "stalled"
        run("--set", "traffic.size=2MB")
        assert statuses() == ["stalled", "finished", "finished"]
        assert [point.complete for point in load("r").points] == [False, True, True]
        assert load("r/seed=1.previous").complete

    def test_sweep_table_keeps_its_rows_at_start(self, run, fake):
        run()
        fake.fate["seed=2"] = "impatient"  # like a kill: nothing is cleaned up
        assert run("--force") == (130, [1, 2])
        assert statuses() == ["finished"] * 3

    def test_missing_sweep_rows_are_restored_from_points(self, run, fake):
        run()
        before = load("r").table
        shutil.copy("r/sweep.parquet", "whole")
        write_sweep(Path("r"), before.head(1).to_dicts())
        fake.fate["seed=2"] = "impatient"
        shutil.rmtree("r/seed=3")
        assert run() == (0, [3])
        assert load("r").table["hash"].to_list() == before["hash"].to_list()
        os.remove("r/sweep.parquet")
        assert run()[0] == 2  # without its table the directory is not recognized as a sweep

    def test_points_of_an_earlier_sweep_stay_and_are_reused(self, run):
        run()
        Path("r/mine").mkdir()
        write_result("r/single", FakePoint(), fake_result())
        assert run("--seed", "2..4") == (0, [4])
        assert load("r").table["seed"].to_list() == [2, 3, 4]
        assert sorted(os.listdir("r")) == sorted(
            ["mine", "seed=1", "seed=2", "seed=3", "seed=4", "single", "sweep.parquet"]
        )
        assert run() == (0, [])
        assert run("--seed", "1..4") == (0, [])


class TestRejectedBeforeTheRun:
    @pytest.mark.parametrize("place", ["r/seed=3/thesis.txt", "r/seed=3.previous/thesis.txt"])
    def test_foreign_file_in_a_point_is_rejected(self, run, place):
        run()
        Path(place).parent.mkdir(exist_ok=True)
        Path(place).write_text("mine")
        assert run("--force", "--set", "traffic.size=2MB") == (2, [])  # moves results to .previous
        assert "thesis.txt" in run.output
        assert Path(place).read_text() == "mine"

    def test_foreign_file_where_no_result_moves_stays(self, run):
        run()
        place = Path("r/seed=3.previous/thesis.txt")
        place.parent.mkdir()
        place.write_text("mine")
        assert run("--force") == (0, [1, 2, 3])
        assert place.read_text() == "mine"

    def test_file_in_place_of_a_point_is_rejected(self, run):
        run("--seed", "1..2")
        Path("r/seed=3").write_text("mine")
        assert run() == (2, [])
        assert "is a file" in run.output

    @pytest.mark.parametrize("sweep", [True, False])
    def test_input_file_inside_the_results_is_rejected(self, run, sweep):
        folder = Path("r/seed=1" if sweep else "r")
        run("--seed", "1..3" if sweep else "1")
        shutil.copy("e.toml", folder / "flows.parquet")
        before = (folder / "flows.parquet").read_bytes()
        traffic = f"traffic={{kind='flow_list', file='{folder}/flows.parquet'}}"
        assert run("--seed", "1..3" if sweep else "1", "--set", traffic) == (2, [])
        assert mentions(run.output, f"{folder}/flows.parquet")
        assert (folder / "flows.parquet").read_bytes() == before

    def test_concurrent_run_in_the_same_directory_is_rejected(self, run):
        with exclusive(Path("r").resolve()):
            assert run() == (2, [])
            assert mentions(run.output, os.getpid())
            assert run(out="s") == (0, [1, 2, 3])
        assert run() == (0, [1, 2, 3])
        assert sorted(os.listdir()) == ["e.toml", "r", "s"]


class TestKilled:
    """A kill between two steps leaves temporary and renamed directories."""

    @pytest.mark.parametrize("with_new", [True, False])
    def test_kill_between_two_renames_is_repaired(self, run, with_new):
        run("--seed", "1")
        if with_new:
            shutil.copytree("r", ".r.ab_12345.tmp")
        os.rename("r", ".r.ab_12345.old")
        assert run("--seed", "1") == (0, [])
        assert load("r").complete
        assert sorted(os.listdir()) == ["e.toml", "r"]

    def test_kill_during_a_sweep_is_repaired(self, run):
        run()
        os.rename("r/seed=2", "r/.seed=2.ab_12345.old")
        shutil.copytree("r/seed=3", "r/.seed=3.ab_12345.tmp")
        Path("r/.sweep.parquet.123.tmp").write_bytes(b"half")
        assert run() == (0, [])
        assert sorted(os.listdir("r")) == ["seed=1", "seed=2", "seed=3", "sweep.parquet"]

    def test_foreign_temporary_directory_is_not_touched(self, run):
        run()
        os.mkdir("r/.notes.ab_12345.tmp")
        Path("r/.notes.ab_12345.tmp/thesis").write_text("mine")
        run("--force")
        assert Path("r/.notes.ab_12345.tmp/thesis").exists()


class TestPaths:
    @pytest.mark.parametrize("seeds", ["1", "1..3"])
    def test_symlink_to_results_directory_is_kept(self, run, seeds):
        os.mkdir("disk")
        os.symlink("disk", "r")
        for _ in range(2):
            assert run("--seed", seeds, "--force")[0] == 0
            assert os.path.islink("r")
        assert load("disk")
        os.symlink("elsewhere", "new")
        assert run("--seed", seeds, out="new")[0] == 0
        assert load("elsewhere")
        assert os.path.islink("new")

    def test_run_works_on_a_file_system_without_locks(self, run, monkeypatch):
        def unsupported(*_):
            raise OSError(errno.ENOLCK, "No locks available")

        monkeypatch.setattr("fcntl.flock", unsupported)
        assert run() == (0, [1, 2, 3])


def change(file: str, **values) -> None:
    content = json.loads(Path(file).read_text())
    Path(file).write_text(json.dumps({**content, **values}))


@pytest.mark.parametrize("command", ["plot", "trace"])
@pytest.mark.parametrize(
    ("file", "values", "text"),
    [
        ("experiment.json", {"format": 1}, "columns were renamed"),
        ("experiment.json", {"hash": "0" * 64}, "hash"),
        ("summary.json", {"hash": "0" * 64}, "hash"),
        ("summary.json", {"fct_ps": None}, "fct_ps"),
        ("summary.json", {"flows": "8"}, "flows"),
        ("experiment.json", {"axes": []}, "axes"),
        ("experiment.json", {"plugins": None}, "plugins"),
    ],
)
def test_changed_result_file_is_rejected(run, command, file, values, text):
    run("--seed", "1")
    change(f"r/{file}", **values)
    arguments = [command, "r", *(["--flow", "1"] if command == "trace" else [])]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2, result.output
    assert f"r/{file}: " in result.stderr or "experiment.json: hash" in result.stderr
    assert text in result.stderr


def test_tables_with_missing_or_wrong_columns_are_rejected(run):
    import polars as pl

    run("--seed", "1")
    pl.read_parquet("r/flows.parquet").drop("fct_ps").write_parquet("r/flows.parquet")
    with raises_input("flows.parquet", "fct_ps"):
        _ = load("r").flows
    links = pl.read_parquet("r/links.parquet")
    links.with_columns(pl.lit("x").alias("bytes")).write_parquet("r/links.parquet")
    with raises_input("links.parquet"):
        _ = load("r").links
