"""Collectives as data: the sends of a group of ranks and their dependencies.

Each algorithm is an `Algorithm`, such as `CHAIN` in `trees.py`. Sizes are: for an all-reduce,
reduce-scatter or all-gather, the whole buffer; for a broadcast or reduce, the message; for a gather
or scatter, all shards; for an all-to-all, everything that one position has for the group, including
its own share.
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
from netsim.workloads.collectives.steps import (
    COLLECTIVES,
    ONE_WAY,
    RING_ORDERS,
    WHOLE_PACKETS,
    CollectiveOptions,
    Hops,
    Steps,
    Wire,
)

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
