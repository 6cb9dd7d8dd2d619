"""The engine against the slow reference simulator: every departure of every packet.

The reference is written from `netsim/engine/MODEL.md` alone and imports nothing of netsim. It is
among the tests, so these cases need a checkout.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module

from netsim.accuracy.cases import Case, Row, Tolerance
from netsim.results.provenance import PACKAGE

TESTS = PACKAGE.parent / "tests"
FILES = tuple(sorted([*TESTS.glob("*.py"), *TESTS.glob("reference/*.py")]))

EQUAL = Tolerance(0.0, "one definition, to the picosecond")
SOURCE = "tests/reference, written from netsim/engine/MODEL.md"
SHORT, LONG = 600, 2000
"""Transmissions after which a case ends."""


def departures(name: str, seeds: Sequence[int], length: int, **named: bool) -> Iterator[Row]:
    """Compare random cases: when each packet leaves each port, flows, tasks and counters."""
    if not (TESTS / "agreement.py").is_file():
        yield Row(name, None, None, "departures", EQUAL, "a checkout installed with pip install -e")
        return
    if str(TESTS) not in sys.path:
        sys.path.insert(0, str(TESTS))
    check = import_module("agreement").check
    ours, theirs, why = 0, 0, ""
    for seed in seeds:
        try:
            engine, simulator = check(seed, length, **named)
        except AssertionError:
            why = f"case {seed} differs: run tests/test_against_reference.py"
            break
        ours += engine.counts.hops
        theirs += sum(len(port.departures) for port in simulator.ports)
    yield Row(name, None if why else ours, theirs, "departures", EQUAL, SOURCE, why)


def cases() -> Iterator[Case]:
    for case, name, seeds, length, named, quick in (
        ("everything", "random cases of everything", range(40), SHORT, {}, True),
        ("trees", "random trees of three tiers", range(8), SHORT, {"trees": True}, True),
        (
            "circuits",
            "random racks joined by circuits",
            range(8),
            SHORT,
            {"racks": True},
            True,
        ),
        ("more", "more random cases of everything", range(40, 240), SHORT, {}, False),
        ("longer", "longer random cases of everything", range(240, 264), LONG, {}, False),
    ):
        measure = partial(departures, f"{len(seeds)} {name}", seeds, length, **named)
        yield Case(case, measure, len(seeds) * length / 3000, quick, reads=FILES)
