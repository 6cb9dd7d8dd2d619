"""The random permutations that htsim's figures were measured with."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from netsim.model.arithmetic import PURPOSE_ECMP, below, mix, rand32

FLOW_BYTES = 489 * 4096
TREES = {128: (8, 16, "100Gbps"), 1024: (32, 32, "800Gbps")}
"""Hosts: hosts per leaf (and spines), leaves, rate."""


def permutation(n_hosts: int) -> list[int]:
    """To whom each host sends."""
    path = Path(__file__).parent / "data" / f"permutation_{n_hosts}.txt"
    return [int(word) for word in path.read_text().split()]


def flows_by_link(n_hosts: int, seed: int) -> tuple[Counter[int], Counter[int]]:
    """How many flows of the permutation ECMP puts on each link up to a spine, and down from one."""
    hosts_per_leaf = TREES[n_hosts][0]
    up: Counter[int] = Counter()
    down: Counter[int] = Counter()
    for flow, to in enumerate(permutation(n_hosts)):
        here, there = flow // hosts_per_leaf, to // hosts_per_leaf
        if here != there:
            draw = rand32(seed, PURPOSE_ECMP, n_hosts + here, mix(2 * flow))
            spine = below(draw, hosts_per_leaf)
            up[here * hosts_per_leaf + spine] += 1
            down[there * hosts_per_leaf + spine] += 1
    return up, down
