"""Jellyfish: a random graph of switches that all have the same number of cables.

Each of the `switches` has `degree` cables to others, drawn with `graph_seed`: cables join random
switches with free ports; if no more can be joined, a switch with free ports is inserted into a
random cable. Packets take all shortest paths. Hosts are numbered switch by switch.

Singla, Hong, Popa and Godfrey, "Jellyfish: Networking Data Centers Randomly", NSDI 2012, which
routes over the k shortest paths.
"""

from __future__ import annotations

import numpy as np

from netsim.errors import InputError
from netsim.model.columns import Ints, Rng
from netsim.network import Network
from netsim.params import REQUIRED, Param, Params
from netsim.topologies._direct import LINKS, Cables, build_direct

PARAMS = [
    Param("switches", "count", REQUIRED, "number of switches", minimum=4),
    Param("degree", "count", REQUIRED, "cables of a switch to others", minimum=3),
    Param("hosts_per_switch", "count", 1, "hosts at every switch", minimum=1),
    Param("graph_seed", "count", 1, "seed of the graph"),
    *LINKS,
]


def build(params: Params) -> Network:
    """Return the network of `params` (see PARAMS). Raises InputError if there is no such graph."""
    n, degree = params["switches"], params["degree"]
    if degree >= n:
        message = f"{degree} cables to {n - 1} other switches"
        raise InputError(message, key="topology.degree", hint=f"at most {n - 1}")
    if n * degree % 2:
        message = f"{n} switches cannot all have {degree} cables"
        raise InputError(message, key="topology.degree", hint="one of both must be even")
    names = [f"s{k}" for k in range(n)]
    cables = [Cables(_draw(n, degree, np.random.default_rng(params["graph_seed"])))]
    each = params["hosts_per_switch"]
    return build_direct(f"jellyfish_{n}x{degree}", params, [names], each, cables, (n,))


def _draw(n: int, degree: int, random: Rng) -> Ints:
    """Return int64[n * degree / 2, 2], the switches that cables connect, in ascending order."""
    free = np.full(n, degree)
    peers: list[set[int]] = [set() for _ in range(n)]

    def connect(a: int, b: int, by: int = 1) -> None:
        (peers[a].add if by > 0 else peers[a].remove)(b)
        (peers[b].add if by > 0 else peers[b].remove)(a)
        free[[a, b]] -= by

    while free.any():
        open_switches = np.flatnonzero(free)
        pairs = [
            (a, b)
            for a in random.permutation(open_switches).tolist()[:2]
            for b in random.permutation(open_switches).tolist()
            if b != a and b not in peers[a]
        ]
        if pairs:
            connect(*pairs[0])
            continue
        # All switches with free ports are already connected to each other: split another cable.
        a = int(random.choice(open_switches))
        b = int(random.choice([k for k in range(n) if k != a and k not in peers[a]]))
        connect(b, int(random.choice(sorted(peers[b]))), -1)
        connect(a, b)
    return np.array([(a, b) for a in range(n) for b in sorted(peers[a]) if a < b], np.int64)
