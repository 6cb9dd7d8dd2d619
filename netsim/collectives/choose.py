"""Which algorithm does a collective, by name or by itself.

What "auto" takes is what NCCL would between ring and tree, and between ring and PAT, with one GPU a
node and its protocol Simple: the one that its model says is faster, a latency for the algorithm and
each of its steps, and a bandwidth (NVIDIA/nccl, `src/graph/tuning.cc`; microseconds and factors
from there). Everything else has one algorithm that suits it.
"""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import numpy as np

from netsim.collectives import (
    binomial_tree,
    chain,
    direct,
    dissemination,
    double_binary_tree,
    halving_doubling,
    hierarchical,
    in_network,
    pat,
    ring,
)
from netsim.collectives.custom import SUFFIX, from_file
from netsim.collectives.how import How
from netsim.collectives.steps import Carried, Steps, pieces_of, steps
from netsim.collectives.wire import Wire
from netsim.errors import InputError, did_you_mean
from netsim.memory import require_room
from netsim.model.operations import COLLECTIVES

ALGORITHMS: dict[str, ModuleType] = {
    "ring": ring,
    "halving_doubling": halving_doubling,
    "double_binary_tree": double_binary_tree,
    "direct": direct,
    "pat": pat,
    "hierarchical": hierarchical,
    "chain": chain,
    "binomial_tree": binomial_tree,
    "dissemination": dissemination,
    "in_network": in_network,
}
"""The algorithms by their names."""

USUAL = {
    "all_to_all": "direct",
    "broadcast": "chain",
    "reduce": "chain",
    "gather": "direct",
    "scatter": "direct",
    "barrier": "dissemination",
}
"""What has one algorithm that suits it."""

STEP_US, BASE_US = 14.0, 8.4
"""Latency of a step across the network, and of a ring or a tree as a whole."""
PAT_BASE_US, PAT_STEP_US, PAT_POSITION_US = 8.0, STEP_US / 3.5, 2.8
TREE_SHARE, PAT_SHARE = 0.92 / 2, 0.75
"""Of the wire's bandwidth, what a tree and PAT make of it for the whole buffer."""


SEND_BYTES = 200
"""What a send takes while its columns are made."""


def algorithm_of(what: str, n: int, size_bytes: int, how: How) -> str:
    """The algorithm that `how` names, or, if that is "auto", the one for this size and group.

    Raises InputError, naming those that there are, for one that does not do this.
    """
    if what not in COLLECTIVES:
        hint = did_you_mean(what, COLLECTIVES) or f"one of {', '.join(COLLECTIVES)}"
        raise InputError(f"{what!r} is no collective", hint=hint)
    if how.algorithm.endswith(SUFFIX):
        return how.algorithm
    if how.algorithm == "auto":
        if what in USUAL:
            return USUAL[what]
        in_a_node = how.node is not None and n <= how.node
        return "ring" if in_a_node else _chosen(what, n, size_bytes, how.rate_bps)
    found = [name for name, module in ALGORITHMS.items() if what in module.WHATS]
    if how.algorithm not in found:
        message = f"no algorithm {how.algorithm!r} for {what}"
        raise InputError(message, hint=f"one of {', '.join(found)}, auto, or a {SUFFIX} file")
    return how.algorithm


def _chosen(what: str, n: int, size_bytes: int, rate_bps: int) -> str:
    """Ring, or what takes fewer steps, whichever is faster by NCCL's model."""
    whole_us = size_bytes * 8e6 / rate_bps
    rounds = max(n, 1).bit_length() - 1  # log2, rounded down
    n_steps = (2 if what == "all_reduce" else 1) * (n - 1)
    around_us = BASE_US + n_steps * STEP_US + whole_us * n_steps / n
    if what == "all_reduce":
        tree_us = BASE_US + 2 * rounds * STEP_US + whole_us / TREE_SHARE
        return "ring" if around_us <= tree_us else "double_binary_tree"
    pat_us = PAT_BASE_US + rounds * PAT_STEP_US + n * PAT_POSITION_US + whole_us / PAT_SHARE
    return "ring" if around_us <= pat_us else "pat"


def schedule(what: str, n: int, size_bytes: int, how: How) -> Steps:
    """The sends of one group. Raises InputError for what cannot be done in that way."""
    check(n, size_bytes, how)
    name, none = algorithm_of(what, n, size_bytes, how), np.zeros(0, np.int64)
    if n == 1:
        return steps(1, (none, none), Carried(none), np.array([size_bytes], np.int64))
    require_room(most_sends(name, n, size_bytes, how) * SEND_BYTES, what=f"{what} of {n} by {name}")
    if name.endswith(SUFFIX):
        return from_file(name, what, n, size_bytes, how.root)
    made: Steps = ALGORITHMS[name].schedule(what, n, size_bytes, how)
    return made


def most_sends(name: str, n: int, size_bytes: int, how: How) -> int:
    """No fewer than the sends that an algorithm takes."""
    chunk = how.chunk_bytes
    parts = how.channels * (1 + size_bytes // (chunk or size_bytes or 1))
    everybody = 2 * n * (n - 1)
    far = {
        "ring": everybody * how.channels * pieces_of(-(-size_bytes // n), how.channels, chunk),
        "direct": everybody,
        "double_binary_tree": 4 * n * parts,
        "hierarchical": 2 * n * (n // (how.node or 1) + (how.node or n)) * parts,
        "pat": everybody + n * parts,
        "chain": n * parts,
        "in_network": 2 * n * (n * how.channels + parts),
    }
    return far.get(name, 2 * n * n.bit_length())


def closed_form_ps(what: str, n: int, size_bytes: int, wire: Wire, how: How) -> int:
    """How long that takes where nobody else is and adding up takes no time, in ps.

    What of it is exact, and where, stands at each algorithm.
    """
    check(n, size_bytes, how)
    name = algorithm_of(what, n, size_bytes, how)
    if name.endswith(SUFFIX):
        raise InputError(f"{name} has no closed form")
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
        (how.channels > max(1, size_bytes), f"{how.channels} channels for {size_bytes} bytes"),
        (how.latency_ps < 0, f"a latency of {how.latency_ps} ps"),
        (how.reduce_bps is not None and how.reduce_bps < 1, f"{how.reduce_bps} bit/s"),
        (how.window is not None and how.window < 1, f"a window of {how.window}"),
        (how.node is not None and how.node < 1, f"nodes of {how.node}"),
        (how.rate_bps < 1, f"a wire of {how.rate_bps} bit/s"),
        (not 0 <= how.root < max(n, 1), f"root {how.root} in a group of {n}"),
    ]
    for bad, what in wrong:
        if bad:
            raise InputError(f"a collective cannot have {what}")
