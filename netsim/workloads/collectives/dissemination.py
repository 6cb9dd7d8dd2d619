"""Dissemination barrier: in round k each position notifies the one 2^k ahead.

After ceil(log2 n) rounds all have heard from all (D. Hensgen, R. Finkel and U. Manber,
International Journal of Parallel Programming 17(1), 1-17, 1988). A message is one byte.
"""

from __future__ import annotations

import numpy as np

from netsim.workloads.collectives.steps import (
    Carried,
    CollectiveOptions,
    Hops,
    Steps,
    Wire,
    shifted,
    steps,
)

WHATS = ("barrier",)


def schedule(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Steps:  # noqa: ARG001
    away = 1 << np.arange((n - 1).bit_length())[:, None]
    position = np.arange(n)
    here = np.arange(away.size)[:, None] * n + position
    return steps(
        n,
        (np.broadcast_to(position, here.shape), (position + away) % n),
        Carried(np.zeros_like(here), adds=True),
        np.zeros(1, np.int64),
        after=(here[:-1, :1] + (position - away[:-1]) % n, here[1:]),
        follows=np.maximum(here - n, -1),
    )


def hops(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Hops:  # noqa: ARG001
    return Hops(tuple(shifted(n, [1 << k]) for k in range((n - 1).bit_length())), 1)


def closed_form_ps(what: str, n: int, size_bytes: int, wire: Wire, how: CollectiveOptions) -> int:  # noqa: ARG001
    return (n - 1).bit_length() * (how.latency_ps + wire.send_ps(1) + wire.delay_ps)
