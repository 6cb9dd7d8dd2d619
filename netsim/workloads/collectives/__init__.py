"""Collectives as data: what groups of ranks do together, as sends and what they wait for.

Each algorithm is a file with `WHATS`, the collectives that it knows, `schedule(what, n, size_bytes,
how)`, which gives the sends of one group (`Steps`), and `closed_form_ps(what, n, size_bytes, wire,
how)`, how long that takes where nobody else is. Sizes are, of an all-reduce, a reduce-scatter or an
all-gather, the whole buffer; of a broadcast or a reduction the message; of a gather or a scatter
all shards together; of an all-to-all all that one position has for the group, its own share
included.
"""

from __future__ import annotations

from netsim.workloads.collectives.choose import (
    ALGORITHMS,
    algorithm_of,
    check_algorithm,
    closed_form_ps,
    fastest,
    hops_of,
    schedule,
)
from netsim.workloads.collectives.options import RING_ORDERS, CollectiveOptions
from netsim.workloads.collectives.steps import COLLECTIVES, Steps
from netsim.workloads.collectives.wire import ONE_WAY, WHOLE_PACKETS, Hops, Wire

__all__ = [
    "ALGORITHMS",
    "COLLECTIVES",
    "ONE_WAY",
    "RING_ORDERS",
    "WHOLE_PACKETS",
    "CollectiveOptions",
    "Hops",
    "Steps",
    "Wire",
    "algorithm_of",
    "check_algorithm",
    "closed_form_ps",
    "fastest",
    "hops_of",
    "schedule",
]
