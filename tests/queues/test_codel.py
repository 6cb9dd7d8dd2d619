"""CoDel: its control law, and its behavior under overload."""

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
PS_PER_PACKET = 1_664_000  # serialization time of a full packet at the bottleneck's 20 Gbps


def test_gap_is_interval_over_square_root_in_whole_ns() -> None:
    for interval in [1_000, 1_999, 100 * US, 10**12]:
        ns = interval // 1000
        for count in [*range(1, 300), 10**6, 10**9, 2**40]:
            found, rest = divmod(gap_ps(interval, count), 1000)
            assert rest == 0
            assert found == math.isqrt(ns * ns // count)
            assert found**2 * count <= ns**2 < (found + 1) ** 2 * count


def standing_queue(fabric: Fabric) -> tuple[np.ndarray, int]:
    """Offer 110 % of a link's rate for 2 ms; return its queue in bytes, and all dropped packets.
    The queue is sampled every 10 us of the second half."""
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


def test_overload_keeps_delay_near_the_target() -> None:
    """Senders do not slow down, so CoDel must drop one packet in eleven. With drop-tail queues the
    excess 2 Gbps accumulates to 250 to 500 KB."""
    bytes_of_target = TARGET * PACKET // PS_PER_PACKET
    held, drops = standing_queue(CODEL)
    assert 0.5 * bytes_of_target < np.median(held) - PACKET < 4 * bytes_of_target
    sent = 2000 * US * 22 // (8 * PACKET * 1000)
    assert 0.9 * sent / 11 < drops < 1.1 * sent / 11
    assert standing_queue(DROP_TAIL)[0].min() > 240_000
