"""Selection of algorithms, by name or automatically.

"auto" takes the algorithm with the shortest closed form on the wires between the group's hosts
(`netsim.workloads.operations.Wires`), including software latency per step. Among algorithms within
2 %, the first of `ALGORITHMS` wins. It never uses reduction units, and avoids algorithms with more
than four million sends if others need fewer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from netsim.common.memory import require_room
from netsim.errors import InputError, did_you_mean
from netsim.workloads.collectives.custom import SUFFIX, from_file
from netsim.workloads.collectives.exchanges import DIRECT, DISSEMINATION, HALVING_DOUBLING
from netsim.workloads.collectives.in_network import IN_NETWORK
from netsim.workloads.collectives.rings import HIERARCHICAL, RING, orders
from netsim.workloads.collectives.steps import (
    COLLECTIVES,
    Algorithm,
    Carried,
    CollectiveOptions,
    Hops,
    Steps,
    Wire,
    pieces_of,
    steps,
)
from netsim.workloads.collectives.trees import BINOMIAL_TREE, CHAIN, DOUBLE_BINARY_TREE, PAT

ALGORITHMS: dict[str, Algorithm] = {
    "ring": RING,
    "halving_doubling": HALVING_DOUBLING,
    "double_binary_tree": DOUBLE_BINARY_TREE,
    "direct": DIRECT,
    "pat": PAT,
    "hierarchical": HIERARCHICAL,
    "chain": CHAIN,
    "binomial_tree": BINOMIAL_TREE,
    "dissemination": DISSEMINATION,
    "in_network": IN_NETWORK,
}

EQUAL = 0.98
"""An algorithm is faster only if it takes less than this fraction of another's time."""

MAX_SENDS = 1 << 22
"""Algorithms with more sends are selected only if all have more."""

SEND_BYTES = 200
"""Memory of a send while its columns are built, in bytes."""

WAIT_BYTES = 64
"""The same of a send's wait for a delivery."""


def algorithm_of(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> str:
    """Return the algorithm that `how` names, or for "auto" the fastest without a network."""
    check_algorithm(what, how)
    if how.algorithm == "auto":
        return fastest(what, n, size_bytes, how, lambda hops: _plain(hops, how.rate_bps))
    return how.algorithm


def check_algorithm(what: str, how: CollectiveOptions) -> None:
    """Raise InputError, with the choices, for an unknown collective or algorithm."""
    if what not in COLLECTIVES:
        hint = did_you_mean(what, COLLECTIVES) or f"one of {', '.join(COLLECTIVES)}"
        raise InputError(f"unknown collective {what!r}", hint=hint, code="unknown_value")
    known = [name for name, one in ALGORITHMS.items() if what in one.whats]
    if how.algorithm not in (*known, "auto") and not how.algorithm.endswith(SUFFIX):
        message = f"no algorithm {how.algorithm!r} for {what}"
        raise InputError(message, hint=f"one of {', '.join(known)}, auto, or a {SUFFIX} file")


def fastest(
    what: str, n: int, size_bytes: int, how: CollectiveOptions, measure: Callable[[Hops], Wire]
) -> str:
    """Return the algorithm with the shortest time on wires from `measure`."""
    orders(n, how)  # invalid orders are an error for any algorithm
    took: dict[str, int] = {}
    refused = None
    for name, one in ALGORITHMS.items():
        if what not in one.whats or one.hops is None:
            continue
        try:
            wire = measure(one.hops(what, n, size_bytes, how)) if n > 1 else Wire(how.rate_bps)
            took[name] = one.closed_form_ps(what, n, size_bytes, wire, how) if n > 1 else 0
        except InputError as error:  # unsuited to n, or no route
            refused = error
    if not took:
        assert refused is not None
        raise refused
    few = [name for name in took if most_sends(name, n, size_bytes, how) <= MAX_SENDS] or took
    best = min(took[name] for name in few)
    return next(name for name in few if best >= EQUAL * took[name])


def _plain(hops: Hops, rate_bps: int) -> Wire:
    return Wire(rate_bps, far=None if hops.far is None else Wire(rate_bps))


def schedule(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Steps:
    """Return the sends of one group. Raises InputError for impossible options."""
    check(n, size_bytes, how)
    name, none = algorithm_of(what, n, size_bytes, how), np.zeros(0, np.int64)
    if n == 1:
        return steps(1, (none, none), Carried(none), np.array([size_bytes], np.int64))
    n_bytes = most_sends(name, n, size_bytes, how) * SEND_BYTES
    if (name, what) == ("direct", "all_reduce"):
        n_bytes += n**3 * WAIT_BYTES  # a position's second sends wait for all deliveries
    require_room(n_bytes, what=f"{what} of {n} by {name}")
    if name.endswith(SUFFIX):
        return from_file(name, what, n, size_bytes, how.root)
    return ALGORITHMS[name].schedule(what, n, size_bytes, how)


def most_sends(name: str, n: int, size_bytes: int, how: CollectiveOptions) -> int:
    """Return an upper bound of the number of sends."""
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


def closed_form_ps(what: str, n: int, size_bytes: int, wire: Wire, how: CollectiveOptions) -> int:
    """Return the duration in ps without other traffic and with free reductions.

    Each algorithm documents where it is exact.
    """
    check(n, size_bytes, how)
    name = algorithm_of(what, n, size_bytes, how)
    if name.endswith(SUFFIX):
        raise InputError(f"{name} has no closed form")
    if n == 1:
        return 0
    how = replace(how, algorithm=name)
    return ALGORITHMS[name].closed_form_ps(what, n, size_bytes, wire, how)


def hops_of(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Hops:
    hops = ALGORITHMS[how.algorithm].hops
    assert hops is not None
    return hops(what, n, size_bytes, how)


def check(n: int, size_bytes: int, how: CollectiveOptions) -> None:
    """Raise InputError for options that are invalid for any algorithm."""
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
