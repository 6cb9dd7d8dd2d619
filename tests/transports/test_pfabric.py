"""pFabric: short flows are not delayed by long ones, and lost packets are found."""

import numpy as np
from engine_runs import (
    NS,
    PACKET,
    US,
    build,
    counter,
    dumbbell,
    fabric_with,
    fat_tree,
    fct_ps,
    flow_table,
    run,
)

from netsim.model.arithmetic import byte_quotient, serialization_ps
from netsim.model.fabric import PacketFormat
from netsim.model.ideal import ideal_times

FABRIC = fabric_with("pfabric", routing="spray_round_robin", queue_bytes=60 * PACKET)
PACKET_PS = serialization_ps(PACKET, int(byte_quotient(100 * 10**9)))


def test_short_flow_waits_only_for_packets_in_transmission() -> None:
    """A long flow fills the link to a host to which others send 3 to 10 packets, one after the
    other.

    They share that link and the one before it, and wait for at most one of its packets on each.
    """
    network = fat_tree(4, 4, "100Gbps")
    mice = [(1 + i % 3, 15, (3 + i) * 4096, (20 + 12 * i) * US) for i in range(8)]
    flows = flow_table([(4, 15, 400 * 4096, 0), *mice])
    engine = run(build(network, flows, "pfabric", FABRIC, jit=False))
    ideal = ideal_times(network, flows, PacketFormat(), multipath=True).fct_ps
    late = fct_ps(engine) - ideal
    assert np.all((late[1:] >= 0) & (late[1:] <= 2 * PACKET_PS))
    # The long flow loses the time of their packets and at most one packet time per short flow.
    assert sum(range(3, 11)) * PACKET_PS <= late[0] <= (sum(range(3, 11)) + 8) * PACKET_PS
    assert counter(engine, "drops") == 0


def test_flows_finish_in_order_of_size() -> None:
    """Each takes the time of itself and all shorter flows, plus some timeouts of waiting flows."""
    sizes = np.array([150, 50, 200, 100])
    flows = flow_table([(h, 15, int(sizes[h]) * 4096, 0) for h in range(4)])
    engine = run(build(fat_tree(4, 4, "100Gbps"), flows, "pfabric", FABRIC, jit=False))
    together = np.cumsum(np.sort(sizes)) * PACKET_PS
    done = fct_ps(engine)[np.argsort(sizes)]
    assert np.all((together < done) & (done < 1.5 * together))
    assert counter(engine, "drops") > 0


def test_starved_flow_probes_and_recovers() -> None:
    """The queue holds one packet, so a flow of 500 packets starves one of 501, which only probes.

    The longer flow starts 1 ns later. If packets of both arrived at the same instant they would
    alternate, as the first packet at an idle port is sent at once, whatever its priority.
    """
    network = dumbbell(hosts=2, host_delay="1us", bottleneck_delay="1us")
    flows = flow_table([(0, 2, 500 * 4096, 0), (1, 3, 501 * 4096, NS)])
    one = fabric_with("pfabric", queue_bytes=PACKET)
    engine = build(network, flows, "pfabric", one, jit=False)
    run(engine, 500 * US)
    tx = engine.state.hosts.tx[1]
    assert (tx.probing, tx.timeouts > 5) == (1, True)
    run(engine)
    assert np.all(fct_ps(engine) > 0)
