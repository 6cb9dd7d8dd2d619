"""Patches of Numba's internals save time and do not change results."""

from typing import NamedTuple

import numpy as np
import pytest
from engine_runs import DROP_TAIL, build, fat_tree, flow_table, run
from numba.core.codegen import JITCodeLibrary

from netsim.engine.compiling import patches
from netsim.engine.compiling.bindings import Bindings, fingerprint_of
from netsim.engine.compiling.deferred import DeferredLibrary
from netsim.engine.compiling.specialize import Compiled, Entry
from netsim.engine.records import attribute_access


def shifted(numbers, by):
    return numbers[0] << by


def summed(numbers):
    total = 0
    for by in range(3):
        total += shifted(numbers, by) + shifted(numbers, np.uint8(1)) // numbers[1]
    return total


def from_behind(numbers, records, at):
    return numbers[at] * 10 + records[0].three[at]


class Inner(NamedTuple):
    table: np.ndarray
    records: np.ndarray


class Outer(NamedTuple):
    step: int
    numbers: np.ndarray
    inner: Inner


def fill(inner, row, value):
    inner.table[row, 1] = value
    inner.records[row].many[2] += value
    return inner.table.shape[1]


def fill_rows(outer, first):
    outer.numbers[0] = 0
    for row in range(first, outer.inner.table.shape[0], outer.step):
        outer.numbers[0] += outer.numbers[1] * fill(outer.inner, row, row + 5)
    return outer.numbers[0]


def filled_twice(outer, other):
    for _ in range(2):
        outer.numbers[1] += fill_rows(outer, 1)
    return fill_rows(other, 0) + outer.numbers[1]


def entry(function=summed, *, checked=False) -> Entry:
    """Return a function to be compiled, by default one that mixes integer types."""
    bindings = Bindings({}, [], checked=checked)
    return Entry(Compiled(function, bindings, fingerprint_of(bindings, function), None))


def compiled_types(monkeypatch: pytest.MonkeyPatch) -> list[type]:
    """Return a list that collects the types of libraries that Numba builds from now on."""
    types: list[type] = []
    finalize = JITCodeLibrary.finalize

    def noted(library: JITCodeLibrary) -> None:
        types.append(type(library))
        finalize(library)

    monkeypatch.setattr(JITCodeLibrary, "finalize", noted)
    return types


@pytest.mark.parametrize("plain", ["", "0", "1"])
def test_function_gives_the_same_result_with_plain_numba(monkeypatch, plain):
    monkeypatch.setenv("NETSIM_PLAIN_NUMBA", plain)
    types = compiled_types(monkeypatch)
    numbers = np.array([5, 2])
    assert entry()(numbers) == summed(numbers)
    assert (DeferredLibrary in types) == (plain != "1")


@pytest.mark.parametrize("plain", ["0", "1"])
def test_negative_indices_work_only_for_arrays_in_records(monkeypatch, plain):
    """Elsewhere they are an error if bounds are checked."""
    monkeypatch.setenv("NETSIM_PLAIN_NUMBA", plain)
    records = np.array([((7, 8, 9),)], np.dtype([("three", "i8", (3,))]))
    checked = entry(from_behind, checked=True)
    assert checked(np.array([1, 2, 3]), records, 2) == 39
    if plain == "1":
        assert checked(np.array([1, 2, 3]), records, -1) == 39
    else:
        with pytest.raises(IndexError):
            checked(np.array([1, 2, 3]), records, -1)
    two_rows = np.array([[1, 2, 3], [4, 5, 6]])[1]
    assert entry(from_behind)(two_rows, records, 1) == 58


def groups() -> tuple[Outer, Outer]:
    """Return two groups with separate arrays, one of them strided."""
    records = np.dtype([("few", "i4"), ("many", "i8", (3,))], align=True)

    def of(step: int, n: int) -> Outer:
        inner = Inner(np.zeros((n, 2), np.int64), np.zeros(n, records))
        return Outer(step, np.array([1, 2, 3, 4])[:2], inner)

    return of(2, 7), of(1, 4)


@pytest.mark.parametrize("plain", ["0", "1"])
def test_groups_passed_by_address_give_the_same_result(monkeypatch, plain):
    monkeypatch.setenv("NETSIM_PLAIN_NUMBA", plain)
    here, there = groups(), groups()
    plainly = [one._replace(inner=attribute_access(one.inner)) for one in there]
    assert entry(filled_twice)(*here) == filled_twice(*plainly)
    for compiled, other in zip(here, there, strict=True):
        assert compiled.inner.table.tolist() == other.inner.table.tolist()
        assert compiled.inner.records.tobytes() == other.inner.records.tobytes()


@pytest.fixture
def fresh(monkeypatch):
    """Test again which patches work, in the test and after it; return the warnings."""
    monkeypatch.setattr(patches, "warn_once", warned := [].append)
    patches._working.cache_clear()
    yield warned.__self__
    patches._working.cache_clear()


def test_all_patches_work_with_the_installed_numba(fresh):
    """Without them, everything would silently take three times as long."""
    assert [name for name in patches.LOST if patches.working(name) is None] == []
    assert fresh == []


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("deferred", "del numba.core.codegen.CPUCodeLibrary.serialize_using_object_code"),
        ("deferred", "numba.core.codegen.JITCodeLibrary.get_pointer_to_function = abs"),
        ("wide_integers", "del numba.core.dispatcher.Dispatcher.get_call_template"),
        ("wide_integers", "numba.core.types.unliteral = print"),
        ("nonnegative_indices", "del numba.np.arrayobj.basic_indexing"),
        ("nonnegative_indices", "numba.np.arrayobj.basic_indexing = print"),
    ],
)
def test_broken_patch_is_left_out_with_a_warning(monkeypatch, fresh, name, broken):
    """A new Numba may lack what a patch uses, or have changed its meaning."""
    monkeypatch.setattr(patches, "NEWEST_TESTED", (0, 1))
    breaking = f"import numba.core.dispatcher, numba.np.arrayobj; {broken}; "
    monkeypatch.setattr(patches, "TRIAL", breaking + patches.TRIAL)
    assert patches.working(name) is None
    assert [name in warned for warned in fresh] == [True]


@pytest.mark.slow
def test_engine_gives_the_same_result_with_plain_numba(monkeypatch):
    network = fat_tree(3, 3, "100Gbps", spines=2)
    flows = flow_table([(src, (src + 4) % 9, 300_000, 0) for src in range(9)])
    digests = set()
    for plain in ("0", "1"):
        monkeypatch.setenv("NETSIM_PLAIN_NUMBA", plain)
        digests.add(run(build(network, flows, "datagram", DROP_TAIL)).digest())
    assert len(digests) == 1
