"""A few flows in a three-tier network of 65,536 hosts and 64-port switches."""

import numpy as np
import pytest
from engine_runs import DROP_TAIL, build, fct_ps, run

from netsim.model.fabric import PacketFormat
from netsim.model.flows import FlowTable
from netsim.model.ideal import ideal_times
from netsim.model.network import Network
from netsim.network import NetworkBuilder

PORTS = 64
HALF = PORTS // 2
HOSTS = PORTS * HALF * HALF
RATE_BPS, DELAY_PS = 100 * 10**9, 500_000


def three_tiers() -> Network:
    """Return pods of 32 edge and 32 middle switches; each middle switch has 32 core switches."""
    builder = NetworkBuilder()
    builder.reserve(hosts=HOSTS, switches=2 * PORTS * HALF + HALF * HALF, cables=3 * HOSTS)
    builder.add_hosts(HOSTS)
    edge, middle, core = (
        np.array([builder.add_switch() for _ in range(n)])
        for n in (PORTS * HALF, PORTS * HALF, HALF * HALF)
    )
    pod, i, j = (index.ravel() for index in np.indices((PORTS, HALF, HALF)))
    first = pod * HALF
    builder.cables(np.arange(HOSTS), np.repeat(edge, HALF), RATE_BPS, DELAY_PS)
    builder.cables(edge[first + i], middle[first + j], RATE_BPS, DELAY_PS)
    builder.cables(middle[first + i], core[i * HALF + j], RATE_BPS, DELAY_PS)
    return builder.build("three tiers")


@pytest.mark.slow
def test_eight_flows_among_65536_hosts_take_the_ideal_time() -> None:
    network = three_tiers()
    assert (network.n_hosts, network.n_switches) == (65_536, 5120)
    src = np.arange(8, dtype=np.int32) * (HOSTS // 8)
    flows = FlowTable(src, (src + HOSTS // 2 + 1) % HOSTS, np.full(8, 400_000))
    engine = build(network, flows, "datagram", DROP_TAIL)
    engine.advance(20, 10**12)
    half = engine.snapshot()
    assert sum(stored.raw.size for stored in half.values()) < 400_000_000
    run(engine)
    assert engine.conservation().packets.missing == 0
    # No two flows share a link, so each takes its ideal time.
    assert np.array_equal(fct_ps(engine), ideal_times(network, flows, PacketFormat()).fct_ps)
    packets = -(-400_000 // PacketFormat().payload_bytes)
    assert engine.counts.hops == 8 * 6 * packets
