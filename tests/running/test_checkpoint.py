"""Checkpoints: what is whole and fits is gone on from, anything else is refused by name."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from forged import change_run, forge
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raises_input import mentions, raises_input

from netsim import InputError
from netsim.api import resume, run
from netsim.cli import app
from netsim.engine.snapshot import Stored
from netsim.plugins import registry
from netsim.results import files, load
from netsim.results.provenance import code_inputs
from netsim.running import checkpoint
from netsim.running.checkpoint import Checkpoint, CheckpointHeader

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

RUN_INPUTS = {
    "netsim": "a hash",
    "libraries": {"numba": "0.68.1", "numpy": "2.0"},
    "experiment": {"seed": 1, "traffic": {"kind": "flow_list", "size": "1MB"}},
    "plugins": [["topology fat_tree", "a hash"], ["transport mine", "one", "two"]],
    "data": [["flows.csv", "a hash"]],
}
STALL = {"moved": 7, "since_ps": 12, "since_windows": 3}
HEADER = CheckpointHeader("a point", RUN_INPUTS, 12_345, 1.5, STALL, "a digest")
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


def test_what_is_read_is_what_was_written(file: Path) -> None:
    found = checkpoint.read(file)
    assert found.header == HEADER
    assert found.snapshot.keys() == SNAPSHOT.keys()
    for name, stored in found.snapshot.items():
        assert stored[:2] == SNAPSHOT[name][:2]
        assert np.array_equal(stored.raw, SNAPSHOT[name].raw)
    found.require(RUN_INPUTS)


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_that_ends_anywhere_is_refused(file: Path, data: st.DataObject) -> None:
    whole = file.read_bytes()
    cut = file.with_name("cut")
    cut.write_bytes(whole[: data.draw(st.integers(1, len(whole) - 1))])
    with raises_input():
        checkpoint.read(cut)


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_with_another_bit_anywhere_is_refused(file: Path, data: st.DataObject) -> None:
    changed = bytearray(file.read_bytes())
    at = data.draw(st.integers(0, len(changed) - 1))
    changed[at] ^= 1 << data.draw(st.integers(0, 7))
    other = file.with_name("changed")
    other.write_bytes(changed)
    with raises_input():
        checkpoint.read(other).require_seal()


def test_what_is_altered_behind_the_header_is_said_to_be(file: Path) -> None:
    content = file.read_bytes()
    for altered in (content[:-72] + b"\1" + content[-71:], content + b"more"):
        file.write_bytes(altered)
        with raises_input("checkpoint.netsim"):
            checkpoint.read(file)


@pytest.mark.parametrize("content", [b"", b"netsim chequepoint\n" + bytes(100)])
def test_another_file_is_refused(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with raises_input("checkpoint.netsim"):
        checkpoint.read(file)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("FORMAT", 4, "4"),
        ("sys.byteorder", "middle", "machine"),
    ],
)
def test_another_format_and_another_machine(
    file: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: Any, text: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(f"netsim.running.checkpoint.{name}", value)
        checkpoint.write(file, HEADER, SNAPSHOT)
    with raises_input(text):
        checkpoint.read(file)


@pytest.mark.parametrize(
    ("part", "value", "text"),
    [
        (
            "experiment",
            {"seed": 2, "traffic": {"kind": "flow_list"}, "stop": {"max_time": "1ms"}},
            "from another experiment: seed was 1, now 2; stop.max_time was not set, now "
            '"1ms"; traffic.size was "1MB", now not set',
        ),
        (
            "data",
            [["flows.csv", "other"]],
            "from another experiment: flows.csv has changed",
        ),
        ("netsim", "other", "written by other code: netsim itself has changed"),
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
def test_a_run_that_is_made_of_anything_else(file: Path, part: str, value: Any, text: str) -> None:
    with pytest.raises(InputError) as caught:
        checkpoint.read(file).require({**RUN_INPUTS, part: value})
    assert str(caught.value).startswith(f"{file}: {text} (")


def test_a_checkpoint_of_another_version_says_which(file: Path) -> None:
    found: Checkpoint = replace(checkpoint.read(file), version="0.0.1")
    with raises_input("0.0.1"):
        found.require({**RUN_INPUTS, "netsim": "other"})


class Runs:
    """Runs in plain Python of an experiment in a directory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        monkeypatch.setattr("netsim.engine.engine.jit_enabled", lambda: False)
        monkeypatch.setattr("netsim.running.drive.CHUNK_S", 0.003)
        Path("e.toml").write_text(EXPERIMENT)

    def netsim(self, *arguments: str, stop_after: int | None = None) -> tuple[int, str]:
        """Exit status and what was said, of a command that is asked to stop after so many looks."""
        looks = 0

        def asked(_: Any) -> bool:
            nonlocal looks
            looks += 1
            return stop_after is not None and looks > stop_after

        with self.monkeypatch.context() as patch:
            patch.setattr("netsim.cli.interrupt.Interruption.__call__", asked)
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
    """What a result says but for what the clock says."""
    clocks = ("wall_s", "compile_s", "packet_hops_per_s", "threads")
    found = load(out).summary
    return {name: value for name, value in found.items() if name not in clocks}


def test_an_interrupted_run_goes_on(runs: Runs) -> None:
    assert runs.netsim("run", "e.toml", "--out", "whole")[0] == 0
    walls = []
    for stop_after, arguments in ((4, (*RUN, "1000s")), (3, ("resume", "r")), (5, ("resume", "r"))):
        code, said = runs.netsim(*arguments, stop_after=stop_after)
        assert "netsim resume r" in said, said
        left = {one.name for one in Path("r").iterdir()}
        assert left == {*RESULT, files.CHECKPOINT, files.RUN}
        walls.append(load("r").summary["wall_s"])
    assert walls == sorted(walls)
    code, said = runs.netsim("resume", "r", "--threads", "2")
    assert code == 0, said
    assert "e resumes at " in said
    assert summary("r") == summary("whole")
    assert load("r").matches_hash()
    assert load("r").flows.equals(load("whole").flows)
    assert not {files.CHECKPOINT, files.RUN} & {one.name for one in Path("r").iterdir()}


def test_a_sweep_goes_on_in_the_middle_of_a_point(runs: Runs) -> None:
    assert runs.netsim("run", "e.toml", "--out", "whole", "--seed", "1..3")[0] == 0
    code, said = runs.netsim(*RUN, "1000s", "--seed", "1..3", "--quiet", stop_after=60)
    unfinished = [path.parent.name for path in Path("r").glob(f"*/{files.CHECKPOINT}")]
    assert unfinished in (["seed=1"], ["seed=2"], ["seed=3"])
    code, said = runs.netsim("resume", "r")
    assert code == 0, said
    assert mentions(said, unfinished[0])
    assert said.count("finished, kept") == int(unfinished[0][-1]) - 1
    for whole, resumed in zip(load("whole").points, load("r").points, strict=True):
        assert summary(str(whole.path)) == summary(str(resumed.path))
    assert not list(Path("r").glob(f"**/{files.CHECKPOINT}"))
    assert not (Path("r") / files.RUN).exists()
    code, said = runs.netsim("resume", "r")
    assert code == 2
    assert "resume" in said


def test_a_run_started_again_goes_on_or_begins_anew(runs: Runs) -> None:
    runs.netsim(*RUN, "1000s", stop_after=4)
    code, said = runs.netsim("run", "e.toml", "--out", "r", stop_after=2)
    assert "e resumes at " in said
    code, said = runs.netsim("run", "e.toml", "--out", "r", "--set", "traffic.size=50KB")
    assert code == 0
    assert mentions(said, "checkpoint.netsim", "traffic.size", "400KB", "50KB")
    assert not (Path("r") / files.CHECKPOINT).exists()


def test_again_begins_anew_and_leaves_the_complete_result(runs: Runs) -> None:
    assert runs.netsim("run", "e.toml", "--out", "r")[0] == 0
    before = summary("r")
    _, said = runs.netsim(*RUN, "1000s", "--force", stop_after=4)
    assert "resumes at" not in said
    assert (Path("r.partial") / files.CHECKPOINT).exists()
    assert summary("r") == before
    assert runs.netsim("run", "e.toml", "--out", "r", "--force")[0] == 0
    assert not Path("r.partial").exists()


def test_a_forged_checkpoint_that_is_trusted_places_no_memory(runs: Runs) -> None:
    runs.netsim(*RUN, "1000s", stop_after=4)
    forge(Path("r") / files.CHECKPOINT)
    code, said = runs.netsim("resume", "r", "--trust")
    assert code == 2
    assert mentions(said, "hosts.heap")
    code, said = runs.netsim("run", "e.toml", "--out", "r")
    assert code == 0, said
    assert "e starts over" in said


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (forge, "not written by you"),
        (lambda path: path.write_bytes(b"1" + path.read_bytes()), "not a checkpoint of netsim"),
        (lambda _: Path("e.toml").write_text(EXPERIMENT.replace("400", "90")), "traffic.size was"),
        (lambda _: Path("e.toml").unlink(), "e.toml: cannot be read"),
        (lambda path: path.with_name(files.RUN).write_text("{"), "run.json: is not JSON"),
        (lambda path: change_run(path, checkpoint_s=-1), "run.json: checkpoint_s: is not"),
        (lambda path: change_run(path, directory="\0"), "run.json: directory: "),
    ],
)
def test_resume_refuses_what_does_not_fit(runs: Runs, damage: Any, text: str) -> None:
    runs.netsim(*RUN, "1000s", stop_after=4)
    damage(Path("r") / files.CHECKPOINT)
    before = summary("r")
    code, said = runs.netsim("resume", "r")
    assert code == 2, said
    assert text in said
    assert len(said.splitlines()) == 1
    assert summary("r") == before


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nowhere", "no such directory"),
        ("empty", "no checkpoint"),
        ("a" * 300, "is not a file name"),
    ],
)
def test_resume_where_nothing_is(runs: Runs, name: str, text: str) -> None:
    Path("empty").mkdir()
    code, said = runs.netsim("resume", name)
    assert code == 2
    assert text in said


def test_what_is_not_done_is_no_result_yet(runs: Runs) -> None:
    runs.netsim(*RUN, "1000s", stop_after=4)
    for name in RESULT:
        (Path("r") / name).unlink()
    code, said = runs.netsim("plot", "r")
    assert code == 2
    assert "netsim resume" in said


def test_other_code(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    runs.netsim(*RUN, "1000s", stop_after=4)
    other = {**code_inputs(), "netsim": "edited"}
    monkeypatch.setattr("netsim.results.provenance.code_inputs", lambda: other)
    code, said = runs.netsim("resume", "r")
    assert code == 2
    assert "netsim" in said


@pytest.mark.parametrize(
    ("time", "text"),
    [("60", "--checkpoint: "), ("0s", "--checkpoint: 0s")],
)
def test_times_that_are_none(runs: Runs, time: str, text: str) -> None:
    code, said = runs.netsim(*RUN, time)
    assert code == 2
    assert text in said
    assert not Path("r").exists()


def test_values_and_plugins_from_the_command_line_are_found_again(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Path(registry.find("transport", "datagram").path).read_text()
    Path("mine.py").write_text(source)
    code, said = runs.netsim(*RUN, "1000s", "--set", "transport=./mine.py", stop_after=4)
    assert code == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    code, said = runs.netsim("resume", "../r")
    assert code == 0, said
    assert load("../r").complete
    assert Path.cwd() == tmp_path / "elsewhere"


def test_a_full_disk_ends_no_run(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    runs.netsim(*RUN, "1000s", stop_after=4)
    before = (Path("r") / files.CHECKPOINT).read_bytes()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("netsim.running.checkpoint.replacing_file", full)
        _, said = runs.netsim("resume", "r", stop_after=4)
    assert mentions(said, "checkpoint.netsim")
    assert "netsim resume r" in said
    assert (Path("r") / files.CHECKPOINT).read_bytes() == before
    assert not list(Path("r").glob(".*"))
    assert runs.netsim("resume", "r")[0] == 0


@pytest.mark.usefixtures("runs")
def test_from_python(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
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
    (result,) = resume("r", threads=1, progress=True)
    assert result.complete
    assert "e resumes at " in capsys.readouterr().err
    assert len(written) > 3
    assert result.summary["hash"] == run("e.toml", out="whole")[0].summary["hash"]
