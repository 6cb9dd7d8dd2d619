"""CoDel: its control law, and what it makes of an overload."""

from __future__ import annotations

import math

import numpy as np
from engine_runs import (
    DROP_TAIL,
    PACKET,
    US,
    build,
    counter,
    dumbbell,
    fabric_with,
    flow_table,
    run,
)

from netsim.model.fabric import Fabric
from netsim.queues.codel import gap_ps

TARGET, INTERVAL = 5 * US, 50 * US
CODEL = fabric_with("codel", queue_bytes=10**9, target=TARGET, interval=INTERVAL)
PS_PER_PACKET = 1_664_000
"""Of a full packet, at the bottleneck's 20 Gbps."""


def test_the_gap_is_the_interval_over_a_square_root_in_whole_ns() -> None:
    for interval in [1_000, 1_999, 100 * US, 10**12]:
        ns = interval // 1000
        for count in [*range(1, 300), 10**6, 10**9, 2**40]:
            found, rest = divmod(gap_ps(interval, count), 1000)
            assert rest == 0
            assert found == math.isqrt(ns * ns // count)
            assert found**2 * count <= ns**2 < (found + 1) ** 2 * count


def standing_queue(fabric: Fabric) -> tuple[np.ndarray, int]:
    """Bytes held at a link that is offered 10 % too much for 2 ms, every 10 us of the second half.

    And how many packets were dropped by then.
    """
    network = dumbbell(
        hosts=2,
        host_rate="40Gbps",
        bottleneck_rate="20Gbps",
        host_delay="1us",
        bottleneck_delay="1us",
    )
    flows = flow_table([(h, 2 + h, 10**9, 0) for h in range(2)])
    engine = build(network, flows, "datagram", fabric, params={"rate": "11Gbps"}, jit=False)
    held = []
    for t in range(1000, 2000, 10):
        run(engine, t * US)
        held.append(int(engine.state.links.queues["bytes"].max()))
    return np.array(held), counter(engine, "drops")


def test_an_overload_waits_for_about_the_target() -> None:
    """Nobody slows down, so that CoDel has to drop one packet in eleven, and no more.

    Without it 2 Gbps stay behind: 250 to 500 KB.
    """
    bytes_of_target = TARGET * PACKET // PS_PER_PACKET
    held, drops = standing_queue(CODEL)
    assert 0.5 * bytes_of_target < np.median(held) - PACKET < 4 * bytes_of_target
    sent = 2000 * US * 22 // (8 * PACKET * 1000)
    assert 0.9 * sent / 11 < drops < 1.1 * sent / 11
    assert standing_queue(DROP_TAIL)[0].min() > 240_000
