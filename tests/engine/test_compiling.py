"""Leaning on Numba's internals saves time and changes nothing."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from engine_runs import DROP_TAIL, build, fat_tree, flow_table, run
from numba.core.codegen import JITCodeLibrary

from netsim.engine.compiling import deferred as compiling
from netsim.engine.compiling.bindings import Bindings
from netsim.engine.compiling.specialise import Compiled, Entry


def shifted(numbers, by):
    return numbers[0] << by


def summed(numbers):
    total = 0
    for by in range(3):
        total += shifted(numbers, by) + shifted(numbers, np.uint8(1)) // numbers[1]
    return total


def from_behind(numbers, records, at):
    return numbers[at] * 10 + records[0].three[at]


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
