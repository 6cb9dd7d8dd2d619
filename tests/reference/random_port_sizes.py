"""Random queue and ECN sizes that differ between ports."""

from __future__ import annotations

import random
from dataclasses import replace

from .model import Case

SIZES = ("queue_bytes", "header_queue_bytes", "xoff_bytes", "headroom_bytes", "xon_gap_bytes")
KINDS = 3
"""Most kinds of ports."""


def with_port_sizes(case: Case, rng: random.Random) -> Case:
    """Return some kinds of ports, each with a multiple of the fabric's sizes."""
    kinds = [_kind(case, rng) for _ in range(rng.randint(2, KINDS))]
    sizes = {port: rng.choice(kinds) for port in range(2 * len(case.cables))}
    return replace(case, port_sizes=sizes)


def _kind(case: Case, rng: random.Random) -> dict[str, int]:
    """Return the sizes of a kind; every kind has all of them."""

    def scaled(size_bytes: int) -> int:
        return size_bytes * rng.choice((1, 2, 3, 5)) // rng.choice((1, 2, 3))

    sizes = {name: scaled(case.fabric[name]) for name in SIZES}
    sizes["xon_bytes"] = rng.choice((max(1, sizes["xoff_bytes"]), sizes["xoff_bytes"] // 2 + 1, 1))
    if case.fabric["ecn"] is not None:
        sizes["kmin_bytes"] = scaled(case.fabric["ecn"]["kmin_bytes"])
        room = case.fabric["ecn"]["kmax_bytes"] - case.fabric["ecn"]["kmin_bytes"]
        sizes["kmax_bytes"] = sizes["kmin_bytes"] + scaled(room)
    return sizes
