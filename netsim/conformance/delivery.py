"""Cases: every byte arrives, for all sizes and traffic patterns."""

from __future__ import annotations

import numpy as np

from netsim.conformance.finding import ConformanceError
from netsim.conformance.testbed import Testbed
from netsim.model.fabric import PacketFormat
from netsim.model.flows import FlowTable
from netsim.plugins.registry import PluginSpec

PACKET = PacketFormat().payload_bytes
HOSTS = 8
OTHER = "roce"
SPREAD_PS = 700_000


def packets_of(testbed: Testbed, few: int) -> int:
    """Return the packets of a flow: few, or 20 times as many in a long check."""
    return 20 * few if testbed.long else few


def permutation_of(n_bytes: int, start_ps: int = 0) -> FlowTable:
    """Return a flow from every host to one on another leaf."""
    src = np.arange(HOSTS)
    return FlowTable(src, (src + 3) % HOSTS, n_bytes, start_ps)


def incast_of(n_bytes: int) -> FlowTable:
    """Return flows from all other hosts to host 0."""
    return FlowTable(np.arange(1, HOSTS), 0, n_bytes)


def sizes(testbed: Testbed) -> str:
    """One byte, one packet, a byte more or less, and odd sizes."""
    n = packets_of(testbed, 17)
    given = [1, 64, PACKET - 1, PACKET, PACKET + 1, 2 * PACKET, n * PACKET + 1, n * PACKET - 77]
    src = np.arange(len(given)) % HOSTS
    run = testbed.run(FlowTable(src, (src + 3) % HOSTS, given))
    return run.line()


def permutation(testbed: Testbed) -> str:
    return testbed.run(permutation_of(packets_of(testbed, 20) * PACKET)).line()


def incast(testbed: Testbed) -> str:
    return testbed.run(incast_of(packets_of(testbed, 20) * PACKET)).line()


def all_to_all(testbed: Testbed) -> str:
    src, dst = np.divmod(np.arange(HOSTS * HOSTS), HOSTS)
    other = src != dst
    size = packets_of(testbed, 3) * PACKET
    return testbed.run(FlowTable(src[other], dst[other], size)).line()


def many_flows_of_a_host(testbed: Testbed) -> str:
    """Thirty flows of one host, ten of them to the same host, that start one by one."""
    n = 10 * packets_of(testbed, 3)
    dst = np.where(np.arange(n) % 3 == 0, 5, 1 + np.arange(n) % (HOSTS - 1))
    start = np.arange(n) // 2 * SPREAD_PS
    size = 1 + np.arange(n) * 1000 % (6 * PACKET)
    return testbed.run(FlowTable(np.zeros(n, np.int64), dst, size, start)).line()


def dependencies(testbed: Testbed) -> str:
    size = packets_of(testbed, 5) * PACKET
    flows = FlowTable([0, 3, 6, 1, 1, 2], [3, 6, 1, 0, 2, 7], size, [0, 0, SPREAD_PS, 0, 0, 0])
    after = [[], [0], [1], [2], [2], [3, 4]]
    flows.set_dependencies(after)
    run = testbed.run(flows)
    states = run.engine.flow_states()
    for flow, others in enumerate(after):
        for other in others:
            if states.start_ps[flow] < states.done_ps[other]:
                raise ConformanceError(f"flow {flow} started before flow {other} was complete")
    return run.line()


def beside_another(testbed: Testbed) -> str:
    """Half of the flows use another transport on the same hosts, links and queues."""
    size = packets_of(testbed, 10) * PACKET
    flows = FlowTable.join([permutation_of(size), permutation_of(size)])
    other = Testbed.of(OTHER, params={"rto": "200us"})
    use, transports = PluginSpec(other.plugin, other.params), np.repeat([0, 1], HOSTS)
    return testbed.run(flows, beside=[use], transport_of_flow=transports).line()
