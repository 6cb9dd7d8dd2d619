"""Leaning on Numba's internals saves time and changes nothing."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
import pytest
from engine_runs import DROP_TAIL, build, fat_tree, flow_table, run
from numba.core.codegen import JITCodeLibrary

from netsim.engine.compiling import deferred as compiling
from netsim.engine.compiling import references
from netsim.engine.compiling.bindings import Bindings
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
    """By default one that calls another with several types of integers; as in a new process."""
    return Entry(Compiled(function, Bindings({}, [], checked=checked), "compiling_test", None))


def compiled_types(monkeypatch: pytest.MonkeyPatch) -> list[type]:
    """The kinds of libraries that Numba makes from here on."""
    made: list[type] = []
    finalize = JITCodeLibrary.finalize

    def noted(library: JITCodeLibrary) -> None:
        made.append(type(library))
        finalize(library)

    monkeypatch.setattr(JITCodeLibrary, "finalize", noted)
    return made


@pytest.mark.parametrize("plain", ["", "0", "1"])
def test_a_function_is_the_same_both_ways(monkeypatch, plain):
    monkeypatch.setenv("NETSIM_PLAIN_NUMBA", plain)
    made = compiled_types(monkeypatch)
    numbers = np.array([5, 2])
    assert entry()(numbers) == summed(numbers)
    assert (compiling.DeferredLibrary in made) == (plain != "1")


@pytest.mark.parametrize("plain", ["0", "1"])
def test_negative_indices_are_for_arrays_in_records(monkeypatch, plain):
    """Elsewhere, where bounds are checked, they are a mistake that is found."""
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
    """Two of a kind whose arrays lie apart, one of them with gaps."""
    records = np.dtype([("few", "i4"), ("many", "i8", (3,))], align=True)

    def of(step: int, n: int) -> Outer:
        inner = Inner(np.zeros((n, 2), np.int64), np.zeros(n, records))
        return Outer(step, np.array([1, 2, 3, 4])[:2], inner)

    return of(2, 7), of(1, 4)


@pytest.mark.parametrize("plain", ["0", "1"])
def test_groups_by_reference_are_the_groups(monkeypatch, plain):
    monkeypatch.setenv("NETSIM_PLAIN_NUMBA", plain)
    monkeypatch.setattr(references, "GROUPS", (Inner, Outer))
    seen = []
    referred = references.Reference.__init__
    monkeypatch.setattr(
        references.Reference, "__init__", lambda *args: (seen.append(args), referred(*args))[1]
    )
    here, there = groups(), groups()
    plainly = [one._replace(inner=attribute_access(one.inner)) for one in there]
    assert entry(filled_twice)(*here) == filled_twice(*plainly)
    for compiled, other in zip(here, there, strict=True):
        assert compiled.inner.table.tolist() == other.inner.table.tolist()
        assert compiled.inner.records.tobytes() == other.inner.records.tobytes()
    assert (len(seen) > 0) == (plain == "0")


def test_this_numba_is_one_that_is_leant_on():
    """Otherwise everything would take three times as long, and nobody would know why."""
    assert compiling._supported(), f"not with Numba {numba.__version__}"


@pytest.mark.slow
def test_the_engine_is_the_same_both_ways(monkeypatch):
    network = fat_tree(3, 3, "100Gbps", spines=2)
    flows = flow_table([(src, (src + 4) % 9, 300_000, 0) for src in range(9)])
    digests = set()
    for plain in ("0", "1"):
        monkeypatch.setenv("NETSIM_PLAIN_NUMBA", plain)
        digests.add(run(build(network, flows, "datagram", DROP_TAIL)).digest())
    assert len(digests) == 1
