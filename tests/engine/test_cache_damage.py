"""Compiled code on the disk that is damaged, or that there is no place for, costs time only."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType

import pytest
from cache_folders import no_compiler

from netsim import errors
from netsim.engine.compiling.bindings import Bindings
from netsim.engine.compiling.cache import cache_folder
from netsim.engine.compiling.reach import lines_of
from netsim.engine.compiling.specialise import Compiled, Entry

PLUGIN = ModuleType("netsim_plugin_for_the_cache")


def twice(number):
    return 2 * number


def compiled(folder: Path | None, function: FunctionType = twice) -> Callable[[int], int]:
    """A new compiled copy, as a process that begins makes it."""
    return Entry(Compiled(function, Bindings({}, [PLUGIN]), "cache_test", folder))


def only_file(folder: Path) -> Path:
    (file,) = (path for path in folder.rglob("*") if path.suffix == ".code")
    return file


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def one_bit(path: Path) -> None:
    """In the machine code, which Python would load and the processor run."""
    content = bytearray(path.read_bytes())
    content[content.index(b"ELF") + 1000 if b"ELF" in content else len(content) // 2] ^= 1
    path.write_bytes(content)


def text(path: Path) -> None:
    path.write_text("nothing of ours")


def folder_in_its_place(path: Path) -> None:
    path.unlink()
    (path / "within").mkdir(parents=True)


def endless_link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


@pytest.mark.parametrize(
    "damage", [truncate, empty, zeros, one_bit, text, folder_in_its_place, endless_link]
)
def test_damaged_code_is_made_again(tmp_path, monkeypatch, capfd, damage):
    assert compiled(tmp_path)(21) == 42
    file = only_file(tmp_path)
    with no_compiler(monkeypatch):
        assert compiled(tmp_path)(21) == 42
    damage(file)
    assert compiled(tmp_path)(21) == 42
    with no_compiler(monkeypatch):
        assert compiled(tmp_path)(21) == 42
    assert capfd.readouterr().err == ""


def test_whole_code_that_numba_cannot_read_is_made_again(tmp_path, monkeypatch):
    """As after an update that keeps Numba's version: the hash is right, the content foreign."""
    import hashlib
    import pickle

    compiled(tmp_path)(1)
    for content in (b"no pickle", pickle.dumps("of something else")):
        file = only_file(tmp_path)
        file.write_bytes(hashlib.sha256(content).digest() + content)
        assert compiled(tmp_path)(21) == 42
    with no_compiler(monkeypatch):
        assert compiled(tmp_path)(21) == 42


def test_where_the_sources_stood_is_kept_with_the_code(tmp_path, monkeypatch):
    """Whoever loads it is told that, not where they stand now."""
    moved = FunctionType(twice.__code__.replace(co_firstlineno=1), twice.__globals__, "twice")
    made, found = (
        Compiled(function, Bindings({}, [PLUGIN]), "cache_test", tmp_path, (function.__code__,))
        for function in (twice, moved)
    )
    then = lines_of((twice.__code__,))
    assert then != lines_of((moved.__code__,))
    assert made.ready((21,))[1] == then
    with no_compiler(monkeypatch):
        assert found.ready((21,))[1] == then


@pytest.fixture
def untold(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that begins, no warning has been given."""
    monkeypatch.setattr(errors, "_told", set())


@pytest.mark.usefixtures("untold")
def test_a_disk_that_is_full(tmp_path, capfd):
    """No file may be longer than 4,000 bytes: writing the code fails in the middle."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, hard))
    try:
        assert [compiled(tmp_path / "kept")(n) for n in (1, 2)] == [2, 4]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list((tmp_path / "kept").iterdir()) == []
    told = capfd.readouterr().err.splitlines()
    assert told == [f"warning: compiled code cannot be kept in {tmp_path}: File too large"]


@pytest.mark.usefixtures("untold")
@pytest.mark.parametrize("place", ["a file", "below a file", "/dev/full/x", "/proc/x"])
def test_a_place_that_cannot_be(tmp_path, monkeypatch, capfd, place):
    (tmp_path / "a file").write_text("")
    (tmp_path / "below a file").symlink_to("a file/folder")
    monkeypatch.setenv("NETSIM_CACHE_DIR", str(tmp_path / place))
    assert cache_folder("key") is None
    assert cache_folder("key") is None
    (told,) = capfd.readouterr().err.splitlines()
    assert told.startswith(f"warning: compiled code cannot be kept in {tmp_path / place}: ")
    assert compiled(None)(21) == 42


@pytest.mark.usefixtures("untold")
def test_an_account_without_a_home(monkeypatch, capfd):
    for name in ("NETSIM_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    assert cache_folder("key") is None
    told = "warning: compiled code is not kept: Could not determine home directory.\n"
    assert capfd.readouterr().err == told


@pytest.mark.usefixtures("untold")
def test_a_folder_that_may_only_be_read_is_read(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("NETSIM_CACHE_DIR", str(tmp_path))
    folder = cache_folder("key")
    assert folder is not None
    compiled(folder)(1)

    def read_only(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "utime", read_only)
    assert cache_folder("key") == folder
    with no_compiler(monkeypatch):
        assert compiled(folder)(21) == 42
    assert capfd.readouterr().err == ""


def test_folders_vanish_while_old_ones_are_removed(tmp_path, monkeypatch):
    """Another process tidies up at the same time."""
    monkeypatch.setenv("NETSIM_CACHE_DIR", str(tmp_path))
    for name in "abc":
        (tmp_path / name).mkdir()
    stat = Path.stat

    def vanishing(path: Path, **options: bool) -> os.stat_result:
        if path.name == "b":
            raise FileNotFoundError
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", vanishing)
    assert cache_folder("key") is not None


@pytest.mark.usefixtures("untold")
def test_a_closed_standard_error(monkeypatch):
    monkeypatch.setenv("NETSIM_CACHE_DIR", "/dev/null/x")
    monkeypatch.setattr(sys, "stderr", None)
    assert cache_folder("key") is None


WRITE_AND_READ = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[1].split(":")
from test_cache_damage import compiled
for n in range(8):
    for file in Path(sys.argv[2]).glob("*.code"):
        if n % 2 == int(sys.argv[3]):
            file.unlink(missing_ok=True)
    assert compiled(Path(sys.argv[2]))(n) == 2 * n
"""


def test_processes_side_by_side(tmp_path):
    """They write, read and remove the same file, and none of them ever sees half of one."""
    here = ":".join(map(str, Path(__file__).parents[:2]))
    command = [sys.executable, "-c", WRITE_AND_READ, here, str(tmp_path)]
    done: list[subprocess.CompletedProcess[str]] = []

    def run(turn: str) -> None:
        done.append(
            subprocess.run(
                [*command, turn], capture_output=True, check=False, text=True, timeout=120
            )
        )

    threads = [threading.Thread(target=run, args=(turn,)) for turn in "01"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(one.returncode, one.stderr) for one in done] == [(0, ""), (0, "")]
    assert [path.suffix for path in tmp_path.iterdir()] in ([], [".code"])
