"""Which algorithm does a collective, by name or by itself."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import numpy as np

from netsim.collectives import direct, ring
from netsim.collectives.how import How
from netsim.collectives.steps import Carried, Steps, steps
from netsim.collectives.wire import Wire
from netsim.errors import InputError, did_you_mean
from netsim.model.operations import COLLECTIVES

ALGORITHMS: dict[str, ModuleType] = {"ring": ring, "direct": direct}
"""The algorithms by their names."""


def algorithm_of(what: str, how: How) -> str:
    """The algorithm that `how` names, or, if that is "auto", a ring where there is one.

    Raises InputError, naming those that there are, for one that does not do this.
    """
    if what not in COLLECTIVES:
        hint = did_you_mean(what, COLLECTIVES) or f"one of {', '.join(COLLECTIVES)}"
        raise InputError(f"{what!r} is no collective", hint=hint)
    if how.algorithm == "auto":
        return "ring" if what in ring.WHATS else "direct"
    found = [name for name, module in ALGORITHMS.items() if what in module.WHATS]
    if how.algorithm not in found:
        message = f"no algorithm {how.algorithm!r} for {what}"
        raise InputError(message, hint=f"one of {', '.join(found)}, auto")
    return how.algorithm


def schedule(what: str, n: int, size_bytes: int, how: How) -> Steps:
    """The sends of one group. Raises InputError for what cannot be done in that way."""
    check(n, size_bytes, how)
    name, none = algorithm_of(what, how), np.zeros(0, np.int64)
    if n == 1:
        return steps(1, (none, none), Carried(none), np.array([size_bytes], np.int64))
    made: Steps = ALGORITHMS[name].schedule(what, n, size_bytes, how)
    return made


def closed_form_ps(what: str, n: int, size_bytes: int, wire: Wire, how: How) -> int:
    """How long that takes where nobody else is, in ps; see each algorithm."""
    check(n, size_bytes, how)
    name = algorithm_of(what, how)
    if n == 1:
        return 0
    how = replace(how, algorithm=name)
    return int(ALGORITHMS[name].closed_form_ps(what, n, size_bytes, wire, how))


def check(n: int, size_bytes: int, how: How) -> None:
    """Refuse what means nothing to any algorithm."""
    wrong = [
        (n < 1, f"a group of {n}"),
        (size_bytes < 0, f"{size_bytes} bytes"),
        (how.chunk_bytes is not None and how.chunk_bytes < 1, f"chunks of {how.chunk_bytes} bytes"),
        (how.channels < 1, f"{how.channels} channels"),
        (how.latency_ps < 0, f"a latency of {how.latency_ps} ps"),
        (how.reduce_bps is not None and how.reduce_bps < 1, f"{how.reduce_bps} bit/s"),
        (how.window is not None and how.window < 1, f"a window of {how.window}"),
        (how.node is not None and how.node < 1, f"nodes of {how.node}"),
        (not 0 <= how.root < max(n, 1), f"root {how.root} in a group of {n}"),
    ]
    for bad, what in wrong:
        if bad:
            raise InputError(f"a collective cannot have {what}")
