"""Random racks of hosts, with one network per rack and one per rail."""

from __future__ import annotations

import random

from .model import Cable, Case
from .small import FULL, NS, PAYLOAD, G, case, fabric


def racks(rng: random.Random) -> tuple[Case, int, int]:
    """Return two or three racks of two to four hosts, and random flows."""
    n_racks, rack = rng.randint(2, 3), rng.choice((2, 3, 4))
    rail = 2 if rack == 4 and rng.random() < 0.5 else 1
    n = n_racks * rack
    rates = [rng.choice((10, 50, 100)) * G for _ in range(2)]
    delays = [rng.randint(50, 2_000) * NS for _ in range(2)]
    cables = [Cable(h, n + h // rack, rates[0], delays[0], delays[0]) for h in range(n)]
    for h in range(n):
        switch = n + n_racks + h % rack // rail
        cables.append(Cable(h, switch, rates[1], delays[1], delays[1], nic=1))
    flows = []
    for _ in range(rng.randint(1, 9)):
        src, dst = rng.sample(range(n), 2)
        flows.append(
            (src, dst, rng.randint(1, 12 * PAYLOAD), rng.choice((0, rng.randrange(10**7))))
        )
    queue = rng.choice((3, 10, 1000)) * FULL
    kind = rng.choice(("datagram", "roce", "ndp"))
    in_fabric = fabric("trim" if kind == "ndp" else "drop_tail", queue_bytes=queue)
    made = case(n, cables, flows, kind, in_fabric=in_fabric, seed=rng.randrange(1000))
    if kind == "roce":
        made.params["rto_ps"] = 50_000 * NS
    if kind == "ndp":
        made.params["rto_ps"] = 80_000 * NS
    return made, rack, rail
