"""Code is compiled in units, and after an edit only what the edit changes."""

import ctypes
import gc
import os
import sys
import time
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
from cache_folders import no_compiler
from engine_runs import fabric_with
from numba import typeof, types
from numba.core.dispatcher import _FunctionCompiler

from netsim.engine.compiling import cache, specialize
from netsim.engine.compiling.bindings import Bindings, engine_part, fingerprint_of, reduced
from netsim.engine.compiling.kept_functions import layout_of
from netsim.engine.compiling.specialize import Code, Compiled, Entry, in_background, prepare
from netsim.engine.engine import code_of
from netsim.engine.kernels.fields import Declared, PacketRecord, TxRecord
from netsim.engine.kernels.layout import padded_record_of, record_of
from netsim.engine.records import untouched_zeros
from netsim.model.fabric import Ecn, Fabric
from netsim.plugins import registry
from netsim.plugins.registry import PluginSpec

SOURCE = """
def low(number):
    return number + 1


def beside(number):
    return max(number, 3) * 10


def middle(number):
    if number > 100:
        raise ValueError("too large")
    return low(number) * 2


def top(number, records):
    records[0].n = middle(number) + beside(number)
    return records[0].n
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETSIM_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def compiled_functions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that collects the names of functions that Numba compiles from now on."""
    names: list[str] = []
    compile_function = _FunctionCompiler.compile

    def noted(compiler, *given):
        names.append(compiler.py_func.__name__)
        return compile_function(compiler, *given)

    monkeypatch.setattr(_FunctionCompiler, "compile", noted)
    return names


def entry(folder: Path, *edits: tuple[str, str]) -> Entry:
    """Return `top` after some edits of the file, to be compiled as in a new process."""
    source = SOURCE
    for old, new in edits:
        assert old in source
        source = source.replace(old, new)
    (folder / "mine.py").write_text(source)
    module = registry.load(folder / "mine.py", shown="mine.py")
    bindings = Bindings({}, [module])
    fingerprint = fingerprint_of(bindings, module.top)
    folder_of_code = cache.cache_folder(fingerprint.key)
    compiled = Compiled(module.top, bindings, fingerprint, folder_of_code)
    return Entry(compiled, codes=[fingerprint.codes])


def records() -> np.ndarray:
    return np.zeros(1, np.dtype([("n", "i8"), ("unused", "i8")]))


LOW = ("number + 1", "number + 2")
COMMENT = ("def low(number):", "# One.\n# Two.\n\n\ndef low(number):")
OWN = {"low", "beside", "middle", "top"}


def test_edit_compiles_the_edited_function_and_its_callers(tmp_path, compiled_functions):
    assert entry(tmp_path)(4, records()) == 50
    assert {*compiled_functions} >= OWN
    for edits, again, result in (
        ([LOW], {"low", "middle", "top"}, 52),
        ([LOW, ("* 10", "* 20")], {"beside", "top"}, 92),
        ([LOW, ("* 10", "* 20"), COMMENT], set(), 92),
        ([("number + 1", "number + 1.0")], {"low", "middle", "beside", "top"}, 50),
    ):
        del compiled_functions[:]
        assert entry(tmp_path, *edits)(4, records()) == result
        assert {*compiled_functions} & OWN == again


def test_code_returns_from_disk_after_an_edit_is_undone(tmp_path, monkeypatch):
    for edits in ([], [LOW]):
        entry(tmp_path, *edits)(4, records())
    with no_compiler(monkeypatch):
        assert entry(tmp_path)(4, records()) == 50


def test_error_of_a_kept_function_is_found_in_its_present_line(tmp_path, compiled_functions):
    """`middle` is compiled before the first edit moves it and the second changes its caller."""
    entry(tmp_path)(4, records())
    del compiled_functions[:]
    edited = entry(tmp_path, COMMENT, ("* 10", "* 20"))
    with pytest.raises(ValueError, match="too large") as caught:
        edited(101, records())
    assert "middle" not in compiled_functions
    lines = (tmp_path / "mine.py").read_text().splitlines()
    frame = caught.tb
    while frame.tb_next is not None:
        frame = frame.tb_next
    path, line = edited.place(str(tmp_path / "mine.py"), frame.tb_lineno)
    assert (Path(path).name, lines[line - 1].strip()) == (
        "mine.py",
        'raise ValueError("too large")',
    )


def test_damaged_archive_is_compiled_again(tmp_path, compiled_functions):
    entry(tmp_path)(4, records())
    for archive in (tmp_path / "cache").rglob("functions"):
        archive.write_bytes(archive.read_bytes()[:-1])
    del compiled_functions[:]
    assert entry(tmp_path, LOW)(4, records()) == 52
    assert {*compiled_functions} >= OWN


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere one process compiles")
def test_second_process_compiles_from_the_end(tmp_path, monkeypatch, compiled_functions):
    """This process waits until the other has compiled the last of three functions."""
    monkeypatch.setattr(specialize, "_may_fork", lambda: True)
    parts = [entry(tmp_path, ("* 10", f"* {10 + n}")) for n in range(3)]
    last = parts[-1].compiled
    assert last is not None
    ready = Compiled.ready

    def last_one_waits(part, arguments):
        if part is parts[0].compiled and compiled_functions == []:
            while not last.is_kept():
                pass
        return ready(part, arguments)

    monkeypatch.setattr(Compiled, "ready", last_one_waits)
    prepare(*((part, (4, records())) for part in parts))
    assert [part(4, records()) for part in parts] == [50, 54, 58]
    assert compiled_functions.count("top") < 3


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere one process compiles")
def test_second_process_never_unmaps_memory_of_an_old_engine(tmp_path, monkeypatch):
    """What this process maps there in between would go with it."""
    monkeypatch.setattr(specialize, "_may_fork", lambda: True)
    n_bytes = 1 << 24
    old = [untouched_zeros(n_bytes, np.dtype(np.uint8))]
    address = old[0].ctypes.data
    old.append(old)  # collected, but not freed as soon as it is out of reach
    done = tmp_path / "done"

    def use_memory() -> None:
        memory = mapped_at(address, n_bytes)
        gc.collect()
        memory[:] = 1
        done.write_text(str(memory.sum()))

    gc.disable()
    del old
    try:
        with in_background(use_memory):
            deadline = time.monotonic() + 20
            while not done.exists() and time.monotonic() < deadline:
                time.sleep(0.01)
    finally:
        gc.enable()
    assert done.exists()


def mapped_at(address, n_bytes):
    """Return new memory at an address that is free."""
    mmap = ctypes.CDLL(None).mmap
    mmap.restype = ctypes.c_void_p
    mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    read_and_write, private_anonymous, fixed = 3, 0x22, 0x10
    assert mmap(address, n_bytes, read_and_write, private_anonymous | fixed, -1, 0) == address
    return np.ctypeslib.as_array((ctypes.c_uint8 * n_bytes).from_address(address))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere one process compiles")
def test_background_process_ends_with_the_block(tmp_path, monkeypatch):
    """It starts no other process."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    begun = tmp_path / "begun"

    def compile_code() -> None:
        with in_background(lambda: begun.with_name("within").touch()):
            begun.touch()
            time.sleep(1000)

    with in_background(compile_code):
        while not begun.exists():
            time.sleep(0.01)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
    assert [path.name for path in tmp_path.iterdir()] == ["begun"]


def test_record_is_reduced_to_the_fields_that_are_named() -> None:
    inner = np.dtype([("x", "i8"), ("y", "i4", (2,))], align=True)
    record = np.dtype([("a", "i2"), ("b", inner), ("c", "f8")], align=True)
    small = reduced(record, frozenset({"b", "y"}))
    assert small.names == ("b",)
    assert small["b"].names == ("y",)
    assert small.itemsize == record.itemsize
    whole = np.zeros(3, record)
    whole["b"]["y"][2] = 7, 8
    assert whole.view(small)["b"]["y"][2].tolist() == [7, 8]


def test_transports_share_loop_and_switches_and_fabrics_share_loop_and_hosts() -> None:
    """The transports' records differ in size, and Homa has a field named like one of the loop."""
    ndp, homa = (code_with(transport) for transport in ("ndp", "homa"))
    loop, _, switches, _ = range(4)
    assert [ours == theirs for ours, theirs in zip(ndp.keys, homa.keys, strict=True)] == [
        n in (loop, switches) for n in range(4)
    ]
    marking = code_with("ndp", Fabric(ecn=Ecn(1000, 2000)))
    differ = [ours != theirs for ours, theirs in zip(ndp.keys, marking.keys, strict=True)]
    assert differ == [n == switches for n in range(4)]


def test_transports_share_the_loop_of_late_frames() -> None:
    """It copies packets."""
    ndp, homa = (code_with(transport, fabric_with("pfc")) for transport in ("ndp", "homa"))
    assert ndp.keys[0] == homa.keys[0] != code_with("ndp").keys[0]


def test_shared_code_copies_whole_records(tmp_path):
    """It is compiled for the engine's fields, without the transport's."""
    source = "def note_delivered(net):\n    net.tx[1] = net.tx[0]\n    return net.tx[1].prio\n"
    (tmp_path / "mine.py").write_text(source)
    module = registry.load(tmp_path / "mine.py", shown="mine.py")
    bindings, function = Bindings({}, [module]), module.note_delivered
    compiled = Compiled(function, bindings, fingerprint_of(bindings, function), None)
    tx = np.zeros(3, padded_record_of(TxRecord, "mine", "seq", ("many", 9)))
    tx["prio"][0], tx["seq"][0], tx["many"][0], tx["seq"][2] = 3, 4, range(9), 5
    assert Entry(compiled)(namedtuple("Net", "tx")(tx)) == 3
    assert tx[1] == tx[0]
    assert (tx["seq"][2], tx["prio"][2]) == (5, 0)


def test_engine_part_of_a_record_has_no_fields_of_plugins() -> None:
    own = padded_record_of(TxRecord, "mine", "seq", ("many", 9))
    assert engine_part(own) == record_of(TxRecord)
    assert engine_part(record_of(PacketRecord, "first")) == record_of(PacketRecord)
    assert engine_part(record_of(Declared, "unused")).names == ()


def code_with(transport: str, fabric: Fabric | None = None) -> Code:
    plugin = registry.find("transport", transport)
    params = {param.name: param.convert(param.default) for param in plugin.params}
    return code_of([PluginSpec(plugin, params)], fabric or Fabric())


def test_kept_functions_depend_on_the_order_of_a_groups_members() -> None:
    """Arrays that trade places have other addresses, even if their types are the same."""
    kind = typeof(np.zeros(1))
    one, other = (
        types.NamedTuple((kind, kind), namedtuple("Group", names)) for names in ("a b", "b a")
    )
    assert str(one) == str(other)
    assert layout_of(one) != layout_of(other)
    outer = [types.NamedTuple((group,), namedtuple("Outer", "inner")) for group in (one, other)]
    assert layout_of(outer[0]) != layout_of(outer[1])
