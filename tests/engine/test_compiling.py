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


def entry() -> Entry:
    """A function that calls another with several types of integers; as in a new process."""
    return Entry(Compiled(summed, Bindings({}, []), "compiling_test", None))


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
