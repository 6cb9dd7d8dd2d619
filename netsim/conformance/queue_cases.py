"""Cases for queue disciplines."""

from __future__ import annotations

import numpy as np

from netsim.conformance import networks
from netsim.conformance.delivery import HOSTS, PACKET, packets_of
from netsim.conformance.determinism import same
from netsim.conformance.finding import ConformanceError, NotApplicableError
from netsim.conformance.queue_testbed import QueueTestbed
from netsim.conformance.testbed import Testbed
from netsim.engine.sizes import Sizes
from netsim.model.fabric import PacketFormat
from netsim.model.flows import FlowTable

APART_PS = 10**9
FULL_BYTES = PacketFormat().data_bytes
PACKET_PS = FULL_BYTES * 8 * 10**12 // networks.RATE_BPS


def incast_of(testbed: Testbed, n_packets: int) -> FlowTable:
    """Return two flows from each of seven hosts to one, at once and in all classes."""
    src = np.repeat(np.arange(1, HOSTS), 2)
    n = np.arange(src.size)
    size = n_packets * PACKET - 1000 * (n % 3)
    return FlowTable(src, 0, size, cls=n % _queue(testbed).n_traffic_classes)


def everybody(testbed: Testbed, n_packets: int) -> FlowTable:
    """Return a flow from every host to every other, in all classes, at slightly different times."""
    src, dst = np.divmod(np.arange(HOSTS * HOSTS), HOSTS)
    src, dst = src[src != dst], dst[src != dst]
    n = np.arange(src.size)
    size = n_packets * PACKET - 777 * (n % 5)
    return FlowTable(src, dst, size, n % 7 * 100_000, cls=n % _queue(testbed).n_traffic_classes)


def lone_packets(testbed: Testbed) -> str:
    classes = np.arange(_queue(testbed).n_traffic_classes)
    run = testbed.run(
        FlowTable(classes % 3, 4 + classes % 3, PACKET, classes * APART_PS, cls=classes)
    )
    if run.total("drops") or run.total("trims"):
        raise ConformanceError("a packet is dropped or trimmed in an empty network")
    return run.line()


def incast(testbed: Testbed) -> str:
    return testbed.run(incast_of(testbed, packets_of(testbed, 40))).line()


def all_to_all(testbed: Testbed) -> str:
    return testbed.run(everybody(testbed, packets_of(testbed, 6))).line()


def marking(testbed: Testbed) -> str:
    flows = incast_of(testbed, packets_of(testbed, 20))
    for at in ("enqueue", "dequeue"):
        run = testbed.run(
            flows, changes={"ecn": {"kmin_bytes": "1pkt", "kmax_bytes": "3pkt", "at": at}}
        )
    return run.line()


def busy(testbed: Testbed) -> str:
    if _queue(testbed).features["IS_SHAPED"]:
        raise NotApplicableError("it shapes: a port may be idle while packets wait")
    n = packets_of(testbed, 30)
    network = networks.star(HOSTS)
    src = np.arange(1, HOSTS)
    flows = FlowTable(src, 0, n * PACKET, cls=src % _queue(testbed).n_traffic_classes)
    first_ps, last_ps = PACKET_PS + networks.DELAY_PS, n * PACKET_PS
    run = testbed.run(flows, network, until_ps=last_ps)
    counters = run.engine.link_counters()
    port = int(network.port_peer[0])
    classes = _queue(testbed).n_traffic_classes
    sent = int(counters.sent_bytes[port * classes : (port + 1) * classes].sum())
    busy_ps = sent * 8 * 10**12 // networks.RATE_BPS
    wanted_ps = last_ps - first_ps
    if busy_ps < wanted_ps:
        raise ConformanceError(
            f"a port with packets to send was idle for {(wanted_ps - busy_ps) / 1e6:.3f} us of "
            f"{wanted_ps / 1e6:.3f} us, and the discipline does not use wait_until"
        )
    return run.line()


def order(testbed: Testbed) -> str:
    features = _queue(testbed).features
    if features["HAS_CHOOSE_PACKET"] or features["MOVES_PACKETS"]:
        raise NotApplicableError("it may take packets from other places than the head")
    try:
        return testbed.run(
            everybody(testbed, packets_of(testbed, 8)), params={"in_order": 1}
        ).line()
    except ConformanceError as error:
        if "AssertionError" not in str(error):
            raise
        raise ConformanceError("packets of a flow are reordered") from None


def pauses(testbed: Testbed) -> str:
    if not _queue(testbed).features["HAS_PFC"]:
        raise NotApplicableError("it does not pause neighbors")
    run = testbed.run(incast_of(testbed, packets_of(testbed, 40)))
    if run.total("drops"):
        raise ConformanceError(f"{run.total('drops')} packets are dropped despite pauses")
    return run.line()


def windows(testbed: Testbed) -> str:
    lengths = (1_000_000, 370_000, 41_001)
    ways = {f"windows of {window} ps": {"window_ps": window} for window in lengths}
    return same(testbed, incast_of(testbed, 8), networks.tree(), ways)


def growth(testbed: Testbed) -> str:
    ways = {"much working memory": {}, "little": {"sizes": Sizes(scratch=4)}}
    return same(testbed, incast_of(testbed, 8), networks.tree(), ways)


def compiled_as_plain(testbed: Testbed) -> str:
    ways = {"compiled code": {"jit": True}, "plain Python": {"jit": False}}
    return same(testbed, incast_of(testbed, 8), networks.tree(), ways)


def threads(testbed: Testbed) -> str:
    network = networks.tree(leaves=8, per_leaf=4)
    n = network.n_hosts
    src = np.repeat(np.arange(n), 2)
    dst = (src + np.tile([5, 16], n)) % n
    cls = np.arange(src.size) % _queue(testbed).n_traffic_classes
    ways = {f"{count} threads": {"jit": True, "threads": count} for count in (1, 2, 4)}
    return same(testbed, FlowTable(src, dst, 60 * PACKET + 9, cls=cls), network, ways)


def _queue(testbed: Testbed) -> QueueTestbed:
    assert isinstance(testbed, QueueTestbed)
    return testbed
