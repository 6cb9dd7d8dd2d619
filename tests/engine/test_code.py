"""Compiled code on disk: kept, found, damaged."""

import hashlib
import os
import resource
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from pathlib import Path
from types import FunctionType, ModuleType

import pytest
from cache_folders import no_compiler
from engine_runs import DROP_TAIL, TRIM, build, fat_tree, flow_table, run
from raises_input import mentions

from netsim import errors
from netsim.engine.compiling import cache, specialize
from netsim.engine.compiling.bindings import Bindings, Fingerprint, lines_of
from netsim.engine.compiling.cache import FOLDER, LOCK, UnsafeError, cache_folder, require_private
from netsim.engine.compiling.specialize import Code, Compiled, Entry
from netsim.engine.engine import code_of
from netsim.model.fabric import Fabric
from netsim.plugins import registry
from netsim.plugins.registry import PluginSpec


def code_for(fabric: Fabric) -> Code:
    """Return the code for datagrams on a fabric."""
    plugin = registry.find("transport", "datagram")
    params = {param.name: param.convert(param.default) for param in plugin.params}
    return code_of([PluginSpec(plugin, params)], fabric)


def test_second_engine_loads_nothing(monkeypatch):
    network = fat_tree(2, 2, "100Gbps")
    flows = flow_table([(0, 3, 50_000, 0)])
    first = run(build(network, flows, "ndp", TRIM)).digest()

    def fail(*_: object) -> None:
        raise AssertionError("loaded again")

    monkeypatch.setattr(cache, "load", fail)
    with no_compiler(monkeypatch):
        for threads in (1, 2):
            again = run(build(network, flows, "ndp", TRIM, threads=threads))
            assert again.digest() == first


def key(letter: str) -> str:
    return letter * 20


def test_least_recently_used_code_is_removed(tmp_path: Path, monkeypatch):
    """Folders that netsim did not create are kept, in the user's folder and in its own."""
    monkeypatch.setenv("NETSIM_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "KEPT_CACHES", 3)
    place = tmp_path / cache.FOLDER
    (tmp_path / "away").mkdir()
    for name in (key("1"), "project"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "thesis.tex").write_text("mine")
    place.mkdir(0o700)
    (place / "notes").mkdir()  # no key
    (place / key("8")).symlink_to(tmp_path / "away")
    others = {key("8"), "notes"}
    for path in (place / "notes", tmp_path / key("1"), tmp_path / "away"):
        os.utime(path, (10**8, 10**8))
    for age, letter in enumerate("dcba"):
        folder = cache_folder(key(letter))
        assert folder is not None
        assert folder.stat().st_mode & 0o777 == 0o700
        os.utime(folder, (10**9 + age, 10**9 + age))
    cache_folder(key("c"))
    cache_folder(key("e"))
    assert {path.name for path in place.iterdir()} - others == {key(one) for one in "ace"}
    assert {path.name for path in place.iterdir()} >= others
    assert {path.name for path in tmp_path.iterdir()} == {cache.FOLDER, "away", "project", key("1")}


@pytest.mark.parametrize("there", [True, False])
def test_cached_code_is_found_without_loading_it(tmp_path: Path, monkeypatch, there):
    monkeypatch.setenv("NETSIM_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(specialize, "_loaded", OrderedDict())
    wanted = code_for(DROP_TAIL)
    for key in wanted.keys[: None if there else -1]:
        folder = cache_folder(key)
        assert folder is not None
        (folder / "any.0123.code").touch()
    assert wanted.is_kept() == there


KEY = 20 * "0"
BINDINGS = Bindings({}, [ModuleType("netsim_plugin_for_the_cache")])


def twice(number):
    return 2 * number


def compiled(folder: Path | None, function: FunctionType = twice) -> Entry:
    """Return a compiled copy of a function as a new process would build it."""
    return Entry(Compiled(function, BINDINGS, Fingerprint("cache_test", ()), folder))


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
    """Flip a bit of the machine code, which would load and run."""
    content = bytearray(path.read_bytes())
    content[content.index(b"ELF") + 1000 if b"ELF" in content else len(content) // 2] ^= 1
    path.write_bytes(content)


def text(path: Path) -> None:
    path.write_text("nothing of ours")


def endless_link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


@pytest.mark.parametrize("damage", [truncate, empty, zeros, one_bit, text, endless_link])
def test_damaged_code_is_compiled_again(tmp_path, monkeypatch, capfd, damage):
    assert compiled(tmp_path)(21) == 42
    file = only_file(tmp_path)
    with no_compiler(monkeypatch):
        assert compiled(tmp_path)(21) == 42
    damage(file)
    assert compiled(tmp_path)(21) == 42
    with no_compiler(monkeypatch):
        assert compiled(tmp_path)(21) == 42
    assert capfd.readouterr().err == ""


@pytest.mark.usefixtures("unreported")
def test_code_that_cannot_be_linked_is_compiled_again(tmp_path, monkeypatch, capfd):
    """The hash is right but the content foreign, as after an update within a Numba version."""
    compiled(tmp_path)(1)
    file = only_file(tmp_path)
    whole = file.read_bytes()[32:]
    foreign = whole.replace(b"PyArg_UnpackTuple", b"PyArg_UnpackTuplf", 1)
    for content in (b"short", bytes(8) + b"no JSON", b"\2" + bytes(7) + b"[]no code", foreign):
        file.write_bytes(hashlib.sha256(content).digest() + content)
        assert compiled(tmp_path)(21) == 42
    message = "warning: cached code of twice is not used: PyArg_UnpackTuplf is missing\n"
    assert capfd.readouterr().err == message
    with no_compiler(monkeypatch):
        assert compiled(tmp_path)(21) == 42


def test_cached_code_keeps_the_lines_it_was_compiled_from(tmp_path, monkeypatch):
    """A process that loads the code gets these lines, not the present ones."""
    moved = FunctionType(twice.__code__.replace(co_firstlineno=1), twice.__globals__, "twice")
    first, second = (
        Compiled(function, BINDINGS, Fingerprint("cache_test", (function.__code__,)), tmp_path)
        for function in (twice, moved)
    )
    compiled_from = lines_of((twice.__code__,))
    assert compiled_from != lines_of((moved.__code__,))
    assert first.ready((21,))[1] == compiled_from
    with no_compiler(monkeypatch):
        assert second.ready((21,))[1] == compiled_from


@pytest.fixture
def unreported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the warnings already given, as in a new process."""
    monkeypatch.setattr(errors, "_warned", set())


@pytest.mark.usefixtures("unreported")
def test_full_disk_warns_once(tmp_path, capfd):
    """Files are limited to 1,000 bytes, so that writing the code fails midway."""
    (tmp_path / "kept").mkdir()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        assert [compiled(tmp_path / "kept")(n) for n in (1, 2)] == [2, 4]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in (tmp_path / "kept").iterdir()] == [LOCK]
    warnings = capfd.readouterr().err.splitlines()
    assert mentions(warnings, tmp_path)


@pytest.mark.usefixtures("unreported")
@pytest.mark.parametrize("place", ["a file", "below a file", "/dev/full/x", "/proc/x"])
def test_impossible_cache_folder_warns_once(tmp_path, monkeypatch, capfd, place):
    (tmp_path / "a file").write_text("")
    (tmp_path / "below a file").symlink_to("a file/folder")
    monkeypatch.setenv("NETSIM_CACHE_DIR", str(tmp_path / place))
    assert cache_folder("key") is None
    assert cache_folder("key") is None
    (warning,) = capfd.readouterr().err.splitlines()
    assert (place.rpartition("/")[0] or "a file") in warning
    assert compiled(None)(21) == 42


@pytest.mark.usefixtures("unreported")
def test_folder_writable_by_others_is_not_used(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("NETSIM_CACHE_DIR", str(tmp_path / "mine"))
    for place in ("mine", f"mine/{FOLDER}", f"mine/{FOLDER}/{KEY}"):
        assert cache_folder(KEY) == tmp_path / "mine" / FOLDER / KEY
        (tmp_path / place).chmod(0o777)
        assert cache_folder(KEY) is None
        assert f"{tmp_path / place} " in capfd.readouterr().err
        (tmp_path / place).chmod(0o700)
    tmp_path.chmod(0o1777)  # as /tmp
    assert cache_folder(KEY) is not None
    monkeypatch.setenv("NETSIM_CACHE_DIR", str(tmp_path / "new"))
    assert cache_folder(KEY) is not None  # does not exist yet


def test_folder_of_another_user_is_refused(tmp_path, monkeypatch):
    status = os.stat_result((0o40700, 1, 1, 1, os.geteuid() + 1, 0, 0, 0, 0, 0))
    monkeypatch.setattr(Path, "lstat", lambda _: status)
    monkeypatch.setattr(os, "geteuid", lambda: status.st_uid + 1)
    with pytest.raises(UnsafeError):
        require_private(tmp_path)


WRITE_AND_READ = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[1].split(":")
from test_code import compiled
for n in range(8):
    for file in Path(sys.argv[2]).glob("*.code"):
        if n % 2 == int(sys.argv[3]):
            file.unlink(missing_ok=True)
    assert compiled(Path(sys.argv[2]))(n) == 2 * n
"""


def test_concurrent_processes_never_see_a_partial_file(tmp_path):
    """Two processes write, read and remove the same file."""
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
    assert {path.suffix for path in tmp_path.iterdir() if path.name != LOCK} <= {".code"}


@pytest.mark.parametrize("kind", ["killed", "suspended"])
def test_stuck_lock_holder_is_not_waited_for_long(tmp_path, monkeypatch, kind):
    compiled(tmp_path)(1)
    file = only_file(tmp_path)
    file.unlink()
    command = [sys.executable, "-c", HOLD, tmp_path / LOCK]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        if kind == "killed":
            threading.Timer(0.3, holder.kill).start()
        else:
            monkeypatch.setattr(cache, "WAIT_S", 0.3)
        began_s = time.monotonic()
        assert compiled(tmp_path)(21) == 42
        assert time.monotonic() - began_s > 0.3
        holder.kill()


HOLD = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
input()
"""
