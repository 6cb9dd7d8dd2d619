"""Cases for queue disciplines."""

from __future__ import annotations

import numpy as np

from netsim.conformance import networks
from netsim.conformance.determinism import DETERMINISM
from netsim.conformance.fabric_testbed import QueueTestbed
from netsim.conformance.finding import Cases, ConformanceError, NotApplicableError
from netsim.conformance.networks import HOSTS, PACKET, everybody, incast_in_classes
from netsim.model.fabric import PacketFormat
from netsim.model.flows import FlowTable

CASES = Cases()

APART_PS = 10**9
FULL_BYTES = PacketFormat().data_bytes
PACKET_PS = FULL_BYTES * 8 * 10**12 // networks.RATE_BPS


@CASES("single packets", "one packet at a time")
def single_packets(testbed: QueueTestbed) -> str:
    classes = np.arange(testbed.n_traffic_classes)
    run = testbed.run(
        FlowTable(classes % 3, 4 + classes % 3, PACKET, classes * APART_PS, cls=classes)
    )
    if run.total("drops") or run.total("trims"):
        raise ConformanceError("a packet is dropped or trimmed in an empty network")
    return run.line()


@CASES("incast", "seven hosts send to one")
def incast(testbed: QueueTestbed) -> str:
    return testbed.run(incast_in_classes(testbed.packets(40), testbed.n_traffic_classes)).line()


@CASES("all-to-all", "every host sends to every other")
def all_to_all(testbed: QueueTestbed) -> str:
    return testbed.run(_everybody(testbed, 6)).line()


@CASES("marking", "switches mark packets")
def marking(testbed: QueueTestbed) -> str:
    flows = incast_in_classes(testbed.packets(20), testbed.n_traffic_classes)
    for at in ("enqueue", "dequeue"):
        run = testbed.run(
            flows, changes={"ecn": {"kmin_bytes": "1pkt", "kmax_bytes": "3pkt", "at": at}}
        )
    return run.line()


@CASES("busy", "a port is never idle while packets wait")
def busy(testbed: QueueTestbed) -> str:
    if testbed.features["IS_SHAPED"]:
        raise NotApplicableError("it shapes: a port may be idle while packets wait")
    n = testbed.packets(30)
    network = networks.star(HOSTS)
    src = np.arange(1, HOSTS)
    flows = FlowTable(src, 0, n * PACKET, cls=src % testbed.n_traffic_classes)
    first_ps, last_ps = PACKET_PS + networks.DELAY_PS, n * PACKET_PS
    run = testbed.run(flows, network, until_ps=last_ps)
    counters = run.engine.link_counters()
    port = int(network.port_peer[0])
    classes = testbed.n_traffic_classes
    sent = int(counters.sent_bytes[port * classes : (port + 1) * classes].sum())
    busy_ps = sent * 8 * 10**12 // networks.RATE_BPS
    wanted_ps = last_ps - first_ps
    if busy_ps < wanted_ps:
        raise ConformanceError(
            f"a port with packets to send was idle for {(wanted_ps - busy_ps) / 1e6:.3f} us of "
            f"{wanted_ps / 1e6:.3f} us, and the discipline does not use wait_until"
        )
    return run.line()


@CASES("order", "packets of a flow stay in order")
def order(testbed: QueueTestbed) -> str:
    features = testbed.features
    if features["HAS_CHOOSE_PACKET"] or features["MOVES_PACKETS"]:
        raise NotApplicableError("it may take packets from other places than the head")
    try:
        return testbed.run(_everybody(testbed, 8), params={"in_order": 1}).line()
    except ConformanceError as error:
        if "AssertionError" not in str(error):
            raise
        raise ConformanceError("packets of a flow are reordered") from None


@CASES("pauses", "no loss with PFC pauses")
def pauses(testbed: QueueTestbed) -> str:
    if not testbed.features["HAS_PFC"]:
        raise NotApplicableError("it does not pause neighbors")
    run = testbed.run(incast_in_classes(testbed.packets(40), testbed.n_traffic_classes))
    if run.total("drops"):
        raise ConformanceError(f"{run.total('drops')} packets are dropped despite pauses")
    return run.line()


def _everybody(testbed: QueueTestbed, few: int) -> FlowTable:
    classes = testbed.n_traffic_classes
    return everybody(HOSTS, testbed.packets(few), n_traffic_classes=classes)


CASES += DETERMINISM
