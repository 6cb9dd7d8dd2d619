"""Homa: exact times, order of service, buffers, recovery, and what priorities are worth."""

from __future__ import annotations

import numpy as np
import pytest
from engine_runs import (
    PACKET,
    US,
    acked_ps,
    assert_conserved,
    build,
    counter,
    fat_tree,
    fct_ps,
    flow_table,
    run,
)

from netsim import registry
from netsim.engine.engine import Engine
from netsim.fabric import Fabric, PacketFormat
from netsim.faults import LinkFault, combine
from netsim.flows import FlowTable, TrafficContext
from netsim.ideal import ideal_times
from netsim.network import Network
from netsim.params import resolve_params
from netsim.traffic._sizes import BUILT_IN, Sizes

PAYLOAD = 4096
FULL = 332_800
"""A full packet at 100 Gbps, ps."""
CONTROL = 5_120
TIMEOUT = 100 * US
FAR = 43
"""RTTbytes between two leaves of `NETWORK`, in packets: (4 FULL + 4 CONTROL + 8 us) * 1.5."""
NETWORK = fat_tree(4, 2, "100Gbps")
FABRIC = Fabric(load_balancing="spray_permutation", n_classes=8, queue_bytes=10**9)
SENT, RESENT = "sent_packets", "retransmits"


def homa(
    flows: list[tuple[int, int, int, int]],
    *,
    network: Network = NETWORK,
    fabric: Fabric = FABRIC,
    faults: list[LinkFault] | None = None,
    **params: object,
) -> Engine:
    """Run messages of (src, dst, bytes, start_ps) until the last sender knows."""
    options = {"faults": combine(faults, network.n_ports)} if faults else {}
    params = {"resend_timeout": "100us"} | params
    engine = run(
        build(network, flow_table(flows), "homa", fabric, params=params, **options)
    )
    assert (fct_ps(engine) > 0).all()
    assert (acked_ps(engine) > 0).all()
    return engine


def alone_ps(n_packets: int, links: int = 4) -> int:
    """Of a message of full packets that has the network to itself."""
    return (n_packets + links - 1) * FULL + links * US


def retransmits(engine: Engine) -> int:
    return int(engine.state.ends.tx["retransmits"].sum())


def sent_in_class(engine: Engine, port: int) -> list[int]:
    classes = engine.fabric.n_classes
    return engine.state.wires.queues["sent_packets"][port * classes : (port + 1) * classes].tolist()


def downlink(network: Network, host: int) -> int:
    """The port that feeds the host's link."""
    return int(network.port_peer[network.host_port_index(host)])


# -- alone ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_packets", [1, 2, FAR, FAR + 1, 500])
@pytest.mark.parametrize(("dst", "links"), [(7, 4), (1, 2)])
def test_alone_a_message_takes_the_ideal_time(n_packets: int, dst: int, links: int) -> None:
    """Also when it is longer than RTTbytes: grants come in time."""
    engine = homa([(0, dst, n_packets * PAYLOAD, 0)])
    assert fct_ps(engine)[0] == alone_ps(n_packets, links)
    assert acked_ps(engine)[0] == alone_ps(n_packets, links) + links * (CONTROL + US)
    assert retransmits(engine) == 0


def test_one_byte() -> None:
    engine = homa([(0, 7, 1, 0)])
    assert fct_ps(engine)[0] == 4 * (65 * 80 + US)


def test_too_small_rtt_bytes_leave_the_link_idle() -> None:
    """With a window of w packets, w go in each round trip."""
    window = 10
    engine = homa([(0, 7, 100 * PAYLOAD, 0)], rtt_bytes=f"{window * PACKET}B")
    round_trip = 4 * (FULL + US) + 4 * (CONTROL + US)
    assert fct_ps(engine)[0] == 9 * round_trip + alone_ps(window)
