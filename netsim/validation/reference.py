"""The engine against the slow reference simulator, which is among the tests of a checkout.

The reference is written from `netsim/engine/MODEL.md` alone and imports nothing of netsim.
"""

from __future__ import annotations

import sys
from importlib import import_module

from netsim.validation.cases import CHECKOUT
from netsim.validation.laws import Measured

TESTS = CHECKOUT / "tests"


def departures(seeds: tuple[int, int], length: int, **named: bool) -> Measured:
    """Compare random cases of so many transmissions: when each packet leaves each port, flows,
    tasks and counters. `seeds` are the first, and the one after the last."""
    if str(TESTS) not in sys.path:
        sys.path.insert(0, str(TESTS))
    check = import_module("agreement").check
    ours: int | None = 0
    theirs, why = 0, ""
    for seed in range(*seeds):
        try:
            engine, simulator = check(seed, length, **named)
        except AssertionError:
            ours, why = None, f"case {seed} differs: run tests/test_against_reference.py"
            break
        ours += engine.counts.hops
        theirs += sum(len(port.departures) for port in simulator.ports)
    yield {"count": seeds[1] - seeds[0], "ours": ours, "theirs": theirs, "why": why}
