"""Checkpoints: a valid one of the same run resumes it; any other is rejected with the reason."""

import errno
import gc
import shutil
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raises_input import mentions, raises_input

from netsim import InputError
from netsim.api import run
from netsim.cli import app
from netsim.engine.snapshot import Stored
from netsim.experiment import Experiment
from netsim.plugins import registry
from netsim.results import files, load
from netsim.running import checkpoint
from netsim.running.checkpoint import Checkpointer, CheckpointHeader
from netsim.running.point import ready_engine, simulate
from netsim.version import __version__

EXPERIMENT = """
name = "e"
transport = "datagram"
[topology]
kind = "fat_tree"
hosts_per_leaf = 4
leaves = 2
link_latency = "20ns"
switch_latency = "0ns"
[traffic]
kind = "permutation"
size = "400KB"
"""

VERSION = __version__
RUN_INPUTS = {
    "netsim": "a hash",
    "libraries": {"numba": "0.68.1", "numpy": "2.0"},
    "experiment": {"seed": 1, "traffic": {"kind": "flow_list", "size": "1MB"}},
    "plugins": [["topology fat_tree", "a hash"], ["transport mine", "one", "two"]],
    "data": [["flows.csv", "a hash"]],
}
STALL = {"moved": 7, "since_ps": 12, "since_windows": 3}
HEADER = CheckpointHeader("a point", RUN_INPUTS, 12_345, 1.5, 60.0, STALL, "a digest")
RAW = np.arange(100, dtype=np.uint8)
SNAPSHOT = {
    "links.ports": Stored("<i8", (10,), RAW[:80]),
    "clock.clock": Stored("|u1", (20,), RAW[80:]),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "checkpoint.netsim"
    assert checkpoint.write(path, HEADER, SNAPSHOT) == path.stat().st_size
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    return path


def test_checkpoint_read_equals_checkpoint_written(file: Path) -> None:
    found = checkpoint.read(file)
    assert found.header == HEADER
    assert found.snapshot.keys() == SNAPSHOT.keys()
    for name, stored in found.snapshot.items():
        assert stored[:2] == SNAPSHOT[name][:2]
        assert np.array_equal(stored.raw, SNAPSHOT[name].raw)
    found.require(RUN_INPUTS)


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_checkpoint_is_rejected_or_read_whole(file: Path, data: st.DataObject) -> None:
    """A bit that no reader of archives uses, such as one of a date, may change."""
    whole = file.read_bytes()
    other = file.with_name("other")
    other.write_bytes(whole[: data.draw(st.integers(1, len(whole) - 1))])
    with raises_input("other"):
        checkpoint.read(other)
    changed = bytearray(whole)
    changed[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    other.write_bytes(changed)
    try:
        found = checkpoint.read(other)
    except InputError:
        return
    assert found.header == HEADER
    assert all(np.array_equal(one.raw, SNAPSHOT[name].raw) for name, one in found.snapshot.items())


@pytest.mark.parametrize(
    ("part", "value", "text"),
    [
        (
            "experiment",
            {"seed": 2, "traffic": {"kind": "flow_list"}, "stop": {"max_time": "1ms"}},
            "from another experiment: seed was 1, now 2; stop.max_time was not set, now "
            '"1ms"; traffic.size was "1MB", now not set',
        ),
        ("data", [["flows.csv", "other"]], "from another experiment: flows.csv has changed"),
        (
            "netsim",
            "other",
            f"written by other code: netsim was {VERSION} (code a hash), now {VERSION} (other)",
        ),
        (
            "libraries",
            {"numba": "0.68.1", "numpy": "2.1"},
            "written by other code: numpy was 2.0, now 2.1",
        ),
        (
            "plugins",
            [["topology fat_tree", "a hash"], ["transport mine", "one", "three"]],
            "written by other code: transport mine has changed",
        ),
    ],
)
def test_changed_run_inputs_are_named(file: Path, part: str, value: Any, text: str) -> None:
    with pytest.raises(InputError) as caught:
        checkpoint.read(file).require({**RUN_INPUTS, part: value})
    assert str(caught.value).startswith(f"{file}: {text} (")


class Runs:
    """Runs commands in plain Python in a directory with e.toml."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        monkeypatch.setattr("netsim.engine.engine.jit_enabled", lambda: False)
        monkeypatch.setattr("netsim.running.drive.CHUNK_S", 0.003)
        Path("e.toml").write_text(EXPERIMENT)

    def netsim(self, *arguments: str, stop_after: int | None = None) -> tuple[int, str]:
        """Return exit status and output of a command interrupted after `stop_after` polls."""
        polls = 0

        def should_stop(_: Any) -> bool:
            nonlocal polls
            polls += 1
            return stop_after is not None and polls > stop_after

        with self.monkeypatch.context() as patch:
            patch.setattr("netsim.cli.interrupt.Interruption.__call__", should_stop)
            result = CliRunner().invoke(app, list(arguments))
        assert "Traceback" not in result.output, result.output
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return result.exit_code, result.output


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    monkeypatch.chdir(tmp_path)
    return Runs(monkeypatch)


RESULT = (files.FLOWS, files.LINKS, files.SUMMARY, files.EXPERIMENT)
RUN = ("run", "e.toml", "--out", "r", "--checkpoint")


def summary(out: str) -> dict[str, Any]:
    """The summary of a result without the values that depend on wall time or threads."""
    clocks = ("wall_s", "compile_s", "packet_hops_per_s", "threads")
    found = load(out).summary
    return {name: value for name, value in found.items() if name not in clocks}


def test_interrupted_run_resumes_to_the_same_result(runs: Runs) -> None:
    assert runs.netsim("run", "e.toml", "--out", "whole")[0] == 0
    walls = []
    by_name = ("run", "e.toml", "--out", "r")
    for stop_after, arguments in ((4, (*RUN, "1000s")), (3, ("run", "r")), (5, by_name)):
        code, output = runs.netsim(*arguments, stop_after=stop_after)
        assert "netsim run r" in output, output
        left = {one.name for one in Path("r").iterdir()}
        assert left == {*RESULT, files.CHECKPOINT}
        walls.append(load("r").summary["wall_s"])
    assert walls == sorted(walls)
    code, output = runs.netsim("run", "r", "--threads", "2")
    assert code == 0, output
    assert "e resumes at " in output
    assert summary("r") == summary("whole")
    assert load("r").matches_hash()
    assert load("r").flows.equals(load("whole").flows)
    assert {one.name for one in Path("r").iterdir()} == {*RESULT}


def test_sweep_resumes_in_the_middle_of_a_point(runs: Runs) -> None:
    assert runs.netsim("run", "e.toml", "--out", "whole", "--seed", "1..3")[0] == 0
    unfinished: list[str] = []
    for polls in (60, 55, 50):  # not between two points, whatever the speed
        if not unfinished:
            shutil.rmtree("r", ignore_errors=True)
            runs.netsim(*RUN, "1000s", "--seed", "1..3", "--quiet", stop_after=polls)
            unfinished = [path.parent.name for path in Path("r").glob(f"*/{files.CHECKPOINT}")]
    assert unfinished in (["seed=1"], ["seed=2"], ["seed=3"])
    code, output = runs.netsim("run", "r")
    assert code == 0, output
    assert mentions(output, unfinished[0])
    assert output.count("finished, kept") == int(unfinished[0][-1]) - 1
    for whole, resumed in zip(load("whole").points, load("r").points, strict=True):
        assert summary(str(whole.path)) == summary(str(resumed.path))
    assert not list(Path("r").glob(f"**/{files.CHECKPOINT}"))
    code, output = runs.netsim("run", "r")
    assert (code, output.count("finished, kept")) == (0, 3)
    assert "is a point of a sweep" in runs.netsim("run", "r/seed=1")[1]


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-40]), "not a checkpoint of netsim"),
        (lambda _: Path("e.toml").write_text(EXPERIMENT.replace("400", "90")), "traffic.size was"),
        (lambda _: Path("e.toml").unlink(), "e.toml: cannot be read"),
    ],
)
def test_resume_rejects_damaged_or_mismatched_files(runs: Runs, damage: Any, text: str) -> None:
    runs.netsim(*RUN, "1000s", stop_after=4)
    damage(Path("r") / files.CHECKPOINT)
    before = summary("r")
    code, output = runs.netsim("run", "r")
    assert code == 2, output
    assert text in output
    assert len(output.splitlines()) == 1
    assert summary("r") == before


def test_resume_restores_command_line_values_and_plugins(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Path(registry.find("transport", "datagram").path).read_text()
    Path("mine.py").write_text(source)
    code, output = runs.netsim(*RUN, "1000s", "--set", "transport=./mine.py", stop_after=4)
    assert code == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    code, output = runs.netsim("run", "../r")
    assert code == 0, output
    assert load("../r").complete
    assert Path.cwd() == tmp_path / "elsewhere"


def test_full_disk_does_not_end_the_run(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    runs.netsim(*RUN, "1000s", stop_after=4)
    before = (Path("r") / files.CHECKPOINT).read_bytes()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("netsim.running.checkpoint.replacing_file", full)
        _, output = runs.netsim("run", "r", stop_after=4)
    assert mentions(output, "checkpoint.netsim")
    assert "netsim run r" in output
    assert (Path("r") / files.CHECKPOINT).read_bytes() == before
    assert not list(Path("r").glob(".*"))
    assert runs.netsim("run", "r")[0] == 0


@pytest.mark.usefixtures("runs")
def test_python_api_writes_checkpoints_and_resumes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written = []
    write = checkpoint.write

    def noted(*arguments: Any) -> int:
        written.append(arguments[0])
        if len(written) == 3:
            raise KeyboardInterrupt
        return write(*arguments)

    monkeypatch.setattr("netsim.running.checkpoint.write", noted)
    with pytest.raises(KeyboardInterrupt):
        run("e.toml", out="r", checkpoint_s=0.001)
    (result,) = run("e.toml", out="r", threads=1, progress=True)
    assert result.complete
    assert "e resumes at " in capsys.readouterr().err
    assert len(written) > 3
    assert result.summary["hash"] == run("e.toml", out="whole")[0].summary["hash"]


@pytest.mark.usefixtures("plain_python")
def test_the_memory_of_a_run_is_free_before_its_result_is_written(tmp_path, monkeypatch) -> None:
    engines = []

    def ready(*arguments):
        engine = ready_engine(*arguments)
        engines.append(weakref.ref(engine))
        return engine

    monkeypatch.setattr("netsim.running.point.ready_engine", ready)
    (tmp_path / "e.toml").write_text(EXPERIMENT)
    (point,) = Experiment.load(tmp_path / "e.toml").points()
    checkpointer = Checkpointer("e", tmp_path / "c", RUN_INPUTS, 1000.0)
    simulate(point, threads=1, checkpointer=checkpointer)
    gc.collect()
    assert [engine() for engine in engines] == [None]
