"""Execute a collective's sends on contributions instead of bytes, in any allowed order."""

import numpy as np
from numpy.typing import NDArray

from netsim.workloads.collectives.steps import Steps

Held = NDArray[np.int64]
"""int64[n, pieces, ranks]: how often position i has each rank's contribution to a piece."""

SUMS = ("all_reduce", "reduce_scatter", "reduce", "barrier")


def pieces_of(steps: Steps, send: int) -> NDArray[np.int64]:
    """Return the pieces that a send carries."""
    places = steps.first[send] + np.arange(steps.count[send]) * steps.stride[send]
    return places % steps.piece_bytes.size


def waits_of(steps: Steps, send: int) -> list[int]:
    """Return the sends that must be delivered before a send starts."""
    return steps.after[steps.after_ptr[send] : steps.after_ptr[send + 1]].tolist()


def ranks(steps: Steps) -> int:
    """Return the number of positions, except switch units, which start and end empty."""
    return steps.n - steps.units


def shard_of(steps: Steps) -> NDArray[np.int64]:
    """Return the shard of each piece: which of n equal runs of pieces it belongs to."""
    pieces = steps.piece_bytes.size
    return np.arange(pieces) * ranks(steps) // pieces


def at_first(steps: Steps, what: str, root: int) -> Held:
    """Return the contributions that positions start with."""
    n, pieces = steps.n, steps.piece_bytes.size
    held = np.zeros((n, pieces, ranks(steps)), np.int64)
    if what in SUMS:
        mine = np.arange(ranks(steps))
        held[mine, :, mine] = 1
    else:  # each piece starts at its owner
        owner = np.full(pieces, root) if what in ("broadcast", "scatter") else shard_of(steps)
        held[owner, np.arange(pieces), owner] = 1
    return held


def at_last(steps: Steps, what: str, root: int) -> list[tuple[int, NDArray[np.int64], Held]]:
    """Return (position, pieces, expected contributions) for each position with a result."""
    first, n, pieces = at_first(steps, what, root), ranks(steps), steps.piece_bytes.size
    shard = shard_of(steps)
    everything = np.arange(pieces)
    found = []
    for i in range(n):
        mine = {
            "reduce_scatter": np.flatnonzero(shard == i),
            "scatter": np.flatnonzero(shard == i),
            # The blocks addressed to it: n pieces, or n runs of them, one from each position.
            "all_to_all": np.flatnonzero(everything * n * n // pieces % n == i),
        }.get(what, everything)
        if what not in ("reduce", "gather") or i == root:
            found.append((i, mine, first.sum(0)[mine]))
    return found


def play(steps: Steps, what: str, root: int = 0, seed: int = 0) -> Held:
    """Return the contributions after all sends; several may be in progress at any time. A send
    reads its contributions when it starts or when it is handed over, at random."""
    rng = np.random.default_rng(seed)
    held = at_first(steps, what, root)
    m = len(steps)
    waiting = np.diff(steps.after_ptr) + (steps.follows >= 0)
    released: list[list[int]] = [[] for _ in range(m)]
    for k in range(m):
        for one in waits_of(steps, k):
            assert one < k
            assert steps.dst[one] == steps.src[k]
            released[one].append(k)
    followed: list[list[int]] = [[] for _ in range(m)]
    for k, one in enumerate(steps.follows.tolist()):
        if one >= 0:
            assert one < k
            assert steps.src[one] == steps.src[k]
            followed[one].append(k)
    events = [("starts", k) for k in np.flatnonzero(waiting == 0).tolist()]
    carried: dict[int, Held] = {}
    done = 0

    def release(k: int) -> None:
        waiting[k] -= 1
        if not waiting[k]:
            events.append(("starts", k))

    while events:
        at = int(rng.integers(len(events)))
        events[at], events[-1] = events[-1], events[at]
        event, k = events.pop()
        pieces = pieces_of(steps, k)
        if event == "starts":
            carried[k] = held[steps.src[k], pieces].copy()
            events.append(("handed over", k))
        elif event == "handed over":
            if rng.random() < 0.5:
                carried[k] = held[steps.src[k], pieces].copy()
            for one in followed[k]:
                release(one)
            events.append(("delivered", k))
        else:
            if steps.adds[k]:
                held[steps.dst[k], pieces] += carried[k]
            else:
                held[steps.dst[k], pieces] = carried[k]
            for one in released[k]:
                release(one)
            done += 1
    assert done == m, "sends wait for one another"
    return held
