"""Files are written whole and never through a link, whichever function writes them."""

import os
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from matplotlib.figure import Figure
from raises_input import raises, raises_input

from netsim.cli.trace_output import write_tables
from netsim.common.writing import replacing_file, write_new
from netsim.plots import save
from netsim.results import write_sweep
from netsim.results.destination import exclusive
from netsim.results.files import write_json
from netsim.running import checkpoint
from netsim.running.checkpoint import CheckpointHeader
from netsim.workloads.plots.paper_figures import _write_csv

TABLE = pl.DataFrame({"at_ps": [1]})


def with_checkpoint(path: Path) -> None:
    checkpoint.write(path, CheckpointHeader("a", {}, 0, 0.0, 1.0, {}, ""), {})


def with_new_file(path: Path) -> None:
    with pytest.raises(FileExistsError):
        write_new(path, "new")


WRITERS: dict[str, Callable[[Path], object]] = {
    "summary.json": lambda path: write_json(path, {}),
    "sweep.parquet": lambda path: write_sweep(path.parent, [{"point": "a"}]),
    "checkpoint.netsim": with_checkpoint,
    "fct_cdf.png": lambda path: save(Figure(), path),
    "fct.svg": lambda path: save(Figure(), path),
    "trace.csv": lambda path: write_tables("trace", TABLE, path, None),
    "trace.parquet": lambda path: write_tables("trace", TABLE, None, path),
    "fig5.csv": lambda path: _write_csv(path, ["a"], [[1]]),
    "mine.py": with_new_file,
}


def test_writers_replace_links_instead_of_following_them(tmp_path: Path) -> None:
    mine = tmp_path / "thesis"
    mine.write_text("mine")
    for name, write in WRITERS.items():
        for target in (mine, tmp_path / "not there"):
            path = tmp_path / name
            path.unlink(missing_ok=True)
            path.symlink_to(target)
            write(path)
            assert path.is_symlink() == (name == "mine.py"), name
            assert path.is_symlink() or path.stat().st_size > 0
    assert mine.read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == sorted(["thesis", *WRITERS])


def test_pipes_and_directories_are_rejected_without_leftovers(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/null")
    for name in ("directory", "pipe", "device"):
        with raises(OSError), replacing_file(tmp_path / name):
            pass
        with raises_input(name, code="unreadable"):
            checkpoint.read(tmp_path / name)
    with pytest.raises(ZeroDivisionError), replacing_file(tmp_path / "half") as file:
        file.write(bytes(1 // 0))
    assert sorted(os.listdir(tmp_path)) == ["device", "directory", "pipe"]


def test_lock_never_overwrites_other_files(tmp_path: Path) -> None:
    """Neither the target of a link nor a file that is not a lock is written or removed."""
    mine, lock = tmp_path / "thesis", tmp_path / ".r.lock"
    mine.write_text("mine")
    plants: list[Callable[[], object]] = [
        lambda: lock.symlink_to(mine),
        lambda: lock.symlink_to("not there"),
        lambda: lock.hardlink_to(mine),
        lambda: lock.write_text("notes"),
        lambda: os.mkfifo(lock),
        lock.mkdir,
    ]
    for plant in plants:
        plant()
        before = lock.lstat()
        with raises_input("r.lock"), exclusive(tmp_path / "r"):
            pass
        assert os.path.samestat(lock.lstat(), before)
        lock.rmdir() if lock.is_dir() and not lock.is_symlink() else lock.unlink()
    lock.write_text("123")  # of a process that was killed
    with exclusive(tmp_path / "r"):
        assert lock.read_text() == str(os.getpid())
    assert os.listdir(tmp_path) == ["thesis"]
    assert mine.read_text() == "mine"
