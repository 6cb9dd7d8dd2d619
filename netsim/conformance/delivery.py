"""Cases: every byte arrives, for all sizes and traffic patterns."""

from __future__ import annotations

import numpy as np

from netsim.conformance.finding import ConformanceError
from netsim.conformance.flow_patterns import HOSTS, PACKET, everybody, incast_of, permutation_of
from netsim.conformance.testbed import Testbed
from netsim.model.flows import FlowTable
from netsim.plugins.registry import PluginSpec

OTHER = "roce"
SPREAD_PS = 700_000


def sizes(testbed: Testbed) -> str:
    """One byte, one packet, a byte more or less, and odd sizes."""
    n = testbed.packets(17)
    given = [1, 64, PACKET - 1, PACKET, PACKET + 1, 2 * PACKET, n * PACKET + 1, n * PACKET - 77]
    src = np.arange(len(given)) % HOSTS
    run = testbed.run(FlowTable(src, (src + 3) % HOSTS, given))
    return run.line()


def permutation(testbed: Testbed) -> str:
    return testbed.run(permutation_of(testbed.packets(20) * PACKET)).line()


def incast(testbed: Testbed) -> str:
    return testbed.run(incast_of(testbed.packets(20) * PACKET)).line()


def all_to_all(testbed: Testbed) -> str:
    return testbed.run(everybody(HOSTS, testbed.packets(3))).line()


def many_flows_of_a_host(testbed: Testbed) -> str:
    """Thirty flows of one host, ten of them to the same host, that start one by one."""
    n = 10 * testbed.packets(3)
    dst = np.where(np.arange(n) % 3 == 0, 5, 1 + np.arange(n) % (HOSTS - 1))
    start = np.arange(n) // 2 * SPREAD_PS
    size = 1 + np.arange(n) * 1000 % (6 * PACKET)
    return testbed.run(FlowTable(np.zeros(n, np.int64), dst, size, start)).line()


def dependencies(testbed: Testbed) -> str:
    size = testbed.packets(5) * PACKET
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
    size = testbed.packets(10) * PACKET
    flows = FlowTable.join([permutation_of(size), permutation_of(size)])
    other = Testbed.of(OTHER, params={"rto": "200us"})
    use, transports = PluginSpec(other.plugin, other.params), np.repeat([0, 1], HOSTS)
    return testbed.run(flows, beside=[use], transport_of_flow=transports).line()
