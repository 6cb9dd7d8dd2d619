"""TCP CUBIC on a dumbbell: its window against RFC 9438, its throughput, its recovery."""

from __future__ import annotations

from engine_runs import acked_ps, assert_conserved, build, counter, fct_ps, flow_table, run
from test_dumbbell import dumbbell

from netsim.fabric import Fabric, PacketFormat

MS = 10**9
S = 10**12
PACKETS = PacketFormat(payload_bytes=8936, header_bytes=64)
FULL = 9000
DEEP = Fabric(queue_bytes=10**9)


def test_slow_start_doubles_every_round_trip() -> None:
    """10, 20, 40, 80 and the rest of 200 packets: five rounds of 60 ms, acknowledged in six."""
    network = dumbbell(hosts=1, host_delay="1ms", bottleneck_delay="28ms")
    engine = build(network, flow_table([(0, 1, 200 * 8936, 0)]), "cubic", DEEP, packets=PACKETS)
    run(engine)
    assert_conserved(engine)
    assert 270 * MS < fct_ps(engine)[0] < 271 * MS
    assert 300 * MS < acked_ps(engine)[0] < 301 * MS
    assert counter(engine, "drops") == 0
