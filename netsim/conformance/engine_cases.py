"""Cases for transports, queue disciplines and routing algorithms.

A `Play` runs flows on a network; their packets must arrive despite faults. Other cases compare
runs, measure a transport's speed and fairness, or check queues and routes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any

import numpy as np

from netsim.conformance import networks
from netsim.conformance.finding import (
    COMPILED,
    RELIABLE,
    Cases,
    ConformanceError,
    NotApplicableError,
)
from netsim.conformance.networks import HOSTS, PACKET, everybody, incast_of, permutation_of
from netsim.conformance.testbed import QueueTestbed, RoutingTestbed, Run, Testbed, run_until
from netsim.engine.routing_choices import choices_of
from netsim.engine.simulation import Sizes
from netsim.errors import InputError
from netsim.frozen import frozen
from netsim.model.checks import check_symmetric
from netsim.model.deadlock import waiting_cycle
from netsim.model.fabric import PacketFormat
from netsim.model.faults import LinkFault, LinkFaults, combine, follow_failures
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.port_pairs import ENTROPY, HASH, LEAST_LOADED, PERMUTATION, ROUND_ROBIN
from netsim.plugins.registry import PluginSpec

DETERMINISM, TRANSPORT, QUEUE, ROUTING = Cases(), Cases(), Cases(), Cases()
"""Cases by kind of plugin; the kinds also include the cases of `DETERMINISM`."""

CONVERGE_PS = 4_000_000
DATA_BYTES = PacketFormat().data_bytes


@frozen
class Play:
    """Flows of a testbed on a network, with other keys of [fabric] and faults of links.

    All packets must arrive. The case applies only if `happens`, a counter of `Run`, is not 0 and
    `applies` returns no reason against it.
    """

    flows: Callable[[Testbed], FlowTable]
    network: Callable[[], Network] = networks.tree
    fabric: Mapping[str, Any] = field(default_factory=dict)
    faults: Callable[[Network], LinkFaults | None] = lambda _: None
    happens: str = ""
    applies: Callable[[Testbed], str] = lambda _: ""

    def __call__(self, testbed: Testbed) -> str:
        """Run the flows, and return a line of results."""
        if reason := self.applies(testbed):
            raise NotApplicableError(reason)
        network = testbed.prepared(self.network())
        faults = self.faults(network)
        run = testbed.run(self.flows(testbed), network, self.fabric, faults=faults)
        if self.happens and run.total(self.happens) == 0:
            raise NotApplicableError(f"nothing was {HAPPENED[self.happens]}")
        return run.line()


HAPPENED = {"lost_packets": "lost", "trims": "trimmed"}


def packets(make: Callable[[int], FlowTable], few: int) -> Callable[[Testbed], FlowTable]:
    """Return a function that makes flows of a few packets, or many in a long check."""
    return lambda testbed: make(testbed.packets(few) * PACKET)


def to_everybody(few: int) -> Callable[[Testbed], FlowTable]:
    """Return a function that makes flows between all hosts, in all classes."""
    return lambda testbed: everybody(
        HOSTS, testbed.packets(few), n_traffic_classes=testbed.n_traffic_classes
    )


def in_classes(few: int) -> Callable[[Testbed], FlowTable]:
    """Return a function that makes flows to one host, in all classes."""
    return lambda testbed: networks.incast_in_classes(
        testbed.packets(few), testbed.n_traffic_classes
    )


def down(ports: np.ndarray, network: Network, outage_ps: tuple[int, int]) -> LinkFault:
    """Return an outage of the links of ports, in both directions."""
    return LinkFault(np.concatenate([ports, network.port_peer[ports]]), outages_ps=(outage_ps,))


def following(faults: LinkFaults, network: Network) -> LinkFaults:
    """Return faults that routes follow, some time later."""
    delays_ps = np.full(network.n_switches, CONVERGE_PS)
    return replace(faults, routes=follow_failures(network, faults, delays_ps))


@DETERMINISM("windows", "same result for any window length")
def windows(testbed: Testbed) -> str:
    lengths_ps = (1_000_000, 370_000, 41_001)
    return _same(testbed, {f"windows of {ps} ps": {"window_ps": ps} for ps in lengths_ps})


@DETERMINISM("growth", "same result with little working memory")
def growth(testbed: Testbed) -> str:
    return _same(testbed, {"much working memory": {}, "little": {"sizes": Sizes(scratch=4)}})


@DETERMINISM("resumed", "same result from a checkpoint")
def resumed(testbed: Testbed) -> str:
    """A run that is saved halfway and resumed by another engine gives the same result."""
    network = testbed.prepared(networks.tree())
    table = testbed.crowd()
    run = testbed.run(table, network)
    first, second = (testbed.engine(table, network, jit=False) for _ in range(2))
    run_until(first, run.engine.now_ps // 2)
    second.restore(first.snapshot())
    run_until(second, run.engine.now_ps)
    if second.digest() != run.engine.digest():
        raise ConformanceError(
            "a continued run differs: handlers must keep state only in what the file declares"
        )
    return run.line()


@DETERMINISM("compiled", "same result compiled and plain", COMPILED)
def compiled_as_plain(testbed: Testbed) -> str:
    return _same(testbed, {"compiled code": {"jit": True}, "plain Python": {"jit": False}})


@DETERMINISM("threads", "same result for 1, 2, 4 threads", COMPILED)
def threads(testbed: Testbed) -> str:
    network = testbed.prepared(networks.tree(leaves=8, per_leaf=4))
    table = networks.two_of_each(network.n_hosts, 60, testbed.n_traffic_classes)
    ways = {f"{count} threads": {"jit": True, "threads": count} for count in (1, 2, 4)}
    return _compare(testbed, table, network, ways).line()


def _same(testbed: Testbed, ways: Mapping[str, Mapping[str, Any]]) -> str:
    network = testbed.prepared(networks.tree())
    return _compare(testbed, testbed.crowd(), network, ways).line()


def _compare(
    testbed: Testbed, table: FlowTable, network: Network, ways: Mapping[str, Mapping[str, Any]]
) -> Run:
    """Run flows in several ways; require the same state when the first run ends."""
    (first, options), *others = ways.items()
    run = testbed.run(table, network, **options)
    end_ps, digest = run.engine.now_ps, run.engine.digest()
    for way, options in others:
        if testbed.run(table, network, until_ps=end_ps, **options).engine.digest() != digest:
            raise ConformanceError(
                f"{first} and {way} give different results: handlers must depend only on "
                "their arguments and the declared state"
            )
    return run


# -- transports ------------------------------------------------------------------------------------

OTHER = "roce"
SPREAD_PS = 700_000
DOWN_PS = (6_000_000, 60_000_000)
FLOWS = 4
START_PS = 100_000_000  # time between the starts of two flows

SIZE_BYTES = 10**9
HALF_PS = 20 * 10**9  # how long endless flows settle, and how long they are then measured

DROPS = {"queue_discipline": "drop_tail", "queue_bytes": "8pkt"}
TRIMS = {
    "queue_discipline": "trim", "n_traffic_classes": 2, "queue_bytes": "4pkt",
    "header_queue_bytes": "1MB",
}  # fmt: skip
FEW_HEADERS = {"queue_bytes": "2pkt", "header_queue_bytes": "256B"}


def odd_sizes(testbed: Testbed) -> FlowTable:
    """Return flows of one byte, one packet, a byte more or less, and odd sizes."""
    n = testbed.packets(17)
    given = [1, 64, PACKET - 1, PACKET, PACKET + 1, 2 * PACKET, n * PACKET + 1, n * PACKET - 77]
    src = np.arange(len(given)) % HOSTS
    return FlowTable(src, (src + 3) % HOSTS, given)


def thirty_flows(testbed: Testbed) -> FlowTable:
    """Return thirty flows from one host, ten of them to the same host, that start one by one."""
    n = 10 * testbed.packets(3)
    dst = np.where(np.arange(n) % 3 == 0, 5, 1 + np.arange(n) % (HOSTS - 1))
    start = np.arange(n) // 2 * SPREAD_PS
    return FlowTable(np.zeros(n, np.int64), dst, 1 + np.arange(n) * 1000 % (6 * PACKET), start)


def everywhere(**fault: Any) -> Callable[[Network], LinkFaults]:
    """Return a function that makes the same fault on all links."""
    return lambda network: combine(
        [LinkFault(np.arange(network.n_ports), **fault)], network.n_ports
    )


def two_down(network: Network) -> LinkFaults:
    """Return a host's link and a fabric link that fail for some round trips."""
    uplink = int(network.node_first_port[network.n_hosts + 1]) + 2
    return combine([down(np.array([0, uplink]), network, DOWN_PS)], network.n_ports)


def spine_down(network: Network) -> LinkFaults:
    """Return a spine that fails for some round trips, which routes follow, and a slow uplink."""
    spine = network.n_nodes - 1
    ports = np.arange(network.node_first_port[spine], network.node_first_port[spine + 1])
    uplink = np.array([network.port_peer[network.node_first_port[spine - 1]]])
    slow = LinkFault(uplink, rate_bps=networks.RATE_BPS // 4, until_ps=DOWN_PS[1])
    return following(combine([down(ports, network, DOWN_PS), slow], network.n_ports), network)


def _declares_trimming(testbed: Testbed) -> bool:
    return testbed.fabric_defaults.get("queue_discipline") == "trim"


def cannot_trim(testbed: Testbed) -> str:
    can = _declares_trimming(testbed) or hasattr(testbed.plugin.module, "on_trimmed")
    return "" if can else "no on_trimmed, and the fabric does not trim"


def does_not_trim(testbed: Testbed) -> str:
    return "" if _declares_trimming(testbed) else "the fabric does not trim"


LOST: dict[str, Any] = {"happens": "lost_packets"}
for _name, _about, _play in (
    ("sizes", "1 byte, 1 packet, odd sizes", Play(odd_sizes)),
    ("permutation", "every host sends to another", Play(packets(permutation_of, 20))),
    ("incast", "seven hosts send to one", Play(packets(incast_of, 20))),
    ("all-to-all", "every host sends to every other", Play(to_everybody(3))),
    ("many flows", "thirty flows of one host", Play(thirty_flows)),
):
    TRANSPORT.add(_name, _about, _play)


@TRANSPORT("dependencies", "flows that start after others")
def dependencies(testbed: Testbed) -> str:
    size = testbed.packets(5) * PACKET
    flows = FlowTable([0, 3, 6, 1, 1, 2], [3, 6, 1, 0, 2, 7], size, [0, 0, SPREAD_PS, 0, 0, 0])
    after = [[], [0], [1], [2], [2], [3, 4]]
    flows.wait_for(after)
    run = testbed.run(flows)
    states = run.engine.flow_states()
    for flow, others in enumerate(after):
        for other in others:
            if states.start_ps[flow] < states.done_ps[other]:
                raise ConformanceError(f"flow {flow} started before flow {other} was complete")
    return run.line()


@TRANSPORT("beside another", "a second transport")
def beside_another(testbed: Testbed) -> str:
    """Half of the flows use another transport on the same hosts, links and queues."""
    size = testbed.packets(10) * PACKET
    flows = FlowTable.join([permutation_of(size), permutation_of(size)])
    other = Testbed.of(OTHER, settings={"rto": "200us"})
    use, transports = PluginSpec(other.plugin, other.params), np.repeat([0, 1], HOSTS)
    return testbed.run(flows, beside=[use], transport_of_flow=transports).line()


_seven, _thirty = packets(incast_of, 20), packets(permutation_of, 30)
_loss, _errors = everywhere(loss=0.02), everywhere(bit_error_rate=1e-6)
"""2 % of all packets; one bit in a million, so one full packet in thirty and few small packets."""
_spray = Play(packets(permutation_of, 40), fabric={"routing": "spray_random"})
_trimming = Play(_seven, fabric=TRIMS, applies=cannot_trim, happens="trims")
_few_headers = Play(_seven, fabric=FEW_HEADERS, applies=does_not_trim)
for _name, _about, _play, *_needs in (
    ("full queues", "switches drop", Play(_seven, fabric=DROPS), RELIABLE),
    ("trimming", "switches trim packets", _trimming, RELIABLE),
    ("full header queues", "trimmed headers lost", _few_headers, RELIABLE),
    ("reordering", "packets are reordered", _spray),
    ("random loss", "links lose packets", Play(_thirty, faults=_loss, **LOST), RELIABLE),
    ("bit errors", "links corrupt packets", Play(_thirty, faults=_errors, **LOST), RELIABLE),
    ("link down", "links fail and come back", Play(_thirty, faults=two_down, **LOST), RELIABLE),
    ("changing routes", "a spine fails, routes follow", Play(_thirty, faults=spine_down, **LOST),
     RELIABLE),
):  # fmt: skip
    TRANSPORT.add(_name, _about, _play, *_needs)


@TRANSPORT("three tiers", "two pods and a core")
def three_tiers(testbed: Testbed) -> str:
    """Every host sends to the other pod while seven hosts send to one; then one flow runs alone."""
    n_bytes = testbed.packets(10) * PACKET
    src = np.arange(HOSTS)
    across = FlowTable(src, (src + HOSTS // 2) % HOSTS, n_bytes)
    flows = FlowTable.join([across, incast_of(n_bytes), FlowTable([0], [HOSTS - 1], n_bytes)])
    lone = len(flows) - 1
    flows.wait_for([*([] for _ in range(lone)), list(range(lone))])
    run = testbed.run(flows, networks.three_tiers())
    again = int(run.engine.flow_states().retransmits[lone])
    if again:
        raise ConformanceError(f"flow {lone} runs alone but retransmitted {again} packets")
    return run.line()


def on_planes(
    balancing: str,
    slower: float = 1.0,
    faults: Callable[[Network], LinkFaults | None] | None = None,
) -> Callable[[Testbed], str]:
    """Return a case on two planes, the second `slower`: every host sends to a host on another leaf
    while seven hosts send to one. If paths must be symmetric, round_robin means a plane per
    flow."""

    def flows(testbed: Testbed) -> FlowTable:
        n_bytes = testbed.packets(10) * PACKET
        return FlowTable.join([permutation_of(n_bytes), incast_of(n_bytes)])

    def case(testbed: Testbed) -> str:
        network, chosen = networks.planes(slower), balancing
        if (slower < 1 or faults) and testbed.fabric({}, network).symmetric:
            chosen = HASH
        changes = {"plane_balancing": chosen}
        if testbed.fabric(changes, network).symmetric:
            try:
                check_symmetric(network, chosen)
            except InputError as reason:
                raise NotApplicableError(reason.message) from None
        play = Play(flows, lambda: network, changes)
        return replace(play, faults=faults, **LOST)(testbed) if faults else play(testbed)

    return case


def plane_down(network: Network) -> LinkFaults:
    """Return the second plane, which fails for some round trips."""
    of_switches = network.port_node >= network.n_nodes - network.n_switches // 2
    ports = np.flatnonzero(of_switches | of_switches[network.port_peer])
    return combine([LinkFault(ports, outages_ps=(DOWN_PS,))], network.n_ports)


for _name, _about, _case, *_needs in (
    ("planes", "each flow uses one of two planes", on_planes(HASH)),
    ("planes in turn", "packets alternate between two planes", on_planes(ROUND_ROBIN)),
    ("shuffled planes", "packets take planes in random order", on_planes(PERMUTATION)),
    ("least loaded plane", "whichever port is free first", on_planes(LEAST_LOADED)),
    ("chosen planes", "the transport chooses the plane", on_planes(ENTROPY)),
    ("uneven planes", "one plane is slower", on_planes(ROUND_ROBIN, 0.25)),
    ("plane down", "a plane fails and comes back", on_planes(ROUND_ROBIN, faults=plane_down),
     RELIABLE),
):  # fmt: skip
    TRANSPORT.add(_name, _about, _case, *_needs)

TRANSPORT += DETERMINISM


def jain(shares: np.ndarray) -> float:
    """Jain's fairness index: 1 if all shares are equal, 1/n if one flow gets everything. Jain, Chiu
    and Hawe, DEC-TR-301, 1984."""
    total = float(shares.sum())
    return total * total / (shares.size * float((shares * shares).sum())) if total else 0.0


def slow_alone(metrics: dict[str, float]) -> str:
    """Return a warning if the longest flow takes over 1 % longer than the idle network allows."""
    slowdown = [*metrics.values()][-1]
    if slowdown <= 1.01:
        return ""
    return "alone it takes longer than the network: slow start, or a rate or window too small?"


@TRANSPORT("alone", "slowdown of a single flow", doubt=slow_alone)
def alone(testbed: Testbed) -> dict[str, float]:
    metrics = {}
    for n in (1, testbed.packets(10), testbed.packets(100)):
        run = testbed.run(FlowTable([0], [7], n * PACKET))
        metrics[f"slowdown of {n} packet" + "s" * (n > 1)] = float(run.slowdown()[0])
    return metrics


@TRANSPORT("shared link", "four flows, one link", COMPILED)
def shared_link(testbed: Testbed) -> dict[str, float]:
    """Four flows over one link between two switches, each to its own host."""
    src = np.arange(FLOWS)
    return _measure(testbed, FlowTable(src, src + FLOWS, SIZE_BYTES, src * START_PS))


@TRANSPORT("shared host", "four flows, one host", COMPILED)
def shared_receiver(testbed: Testbed) -> dict[str, float]:
    src = np.arange(FLOWS)
    return _measure(testbed, FlowTable(src + FLOWS, 0, SIZE_BYTES, src * START_PS))


def _measure(testbed: Testbed, flows: FlowTable) -> dict[str, float]:
    engine = testbed.engine(flows, networks.dumbbell(FLOWS), jit=True)
    run_until(engine, HALF_PS)
    before = np.array(engine.flow_states().received_bytes)
    run_until(engine, 2 * HALF_PS)
    got = (engine.flow_states().received_bytes - before).astype(float)
    if not got.any():
        raise NotApplicableError("nothing arrived while measuring")
    most = networks.RATE_BPS / 8e12 * HALF_PS * PacketFormat().payload_bytes / DATA_BYTES
    return {
        "Jain index": jain(got),
        "share of the link": float(got.sum()) / most,
        "largest queue in packets": int(engine.link_counters().max_queue_bytes.max()) / DATA_BYTES,
    }


# -- queue disciplines -----------------------------------------------------------------------------

APART_PS = 10**9


@QUEUE("single packets", "one packet at a time")
def single_packets(testbed: QueueTestbed) -> str:
    classes = np.arange(testbed.n_traffic_classes)
    run = testbed.run(
        FlowTable(classes % 3, 4 + classes % 3, PACKET, classes * APART_PS, cls=classes)
    )
    if run.total("drops") or run.total("trims"):
        raise ConformanceError("a packet is dropped or trimmed in an empty network")
    return run.line()


QUEUE.add("incast", "seven hosts send to one", Play(in_classes(40)))
QUEUE.add("all-to-all", "every host sends to every other", Play(to_everybody(6)))


@QUEUE("marking", "switches mark packets")
def marking(testbed: QueueTestbed) -> str:
    for at in ("enqueue", "dequeue"):
        ecn = {"kmin_bytes": "1pkt", "kmax_bytes": "3pkt", "at": at}
        line = Play(in_classes(20), fabric={"ecn": ecn})(testbed)
    return line


@QUEUE("busy", "a port is never idle while packets wait")
def busy(testbed: QueueTestbed) -> str:
    if testbed.discipline.is_shaped:
        raise NotApplicableError("it shapes: a port may be idle while packets wait")
    n, packet_ps = testbed.packets(30), DATA_BYTES * 8 * 10**12 // networks.RATE_BPS
    network = networks.star(HOSTS)
    src = np.arange(1, HOSTS)
    flows = FlowTable(src, 0, n * PACKET, cls=src % testbed.n_traffic_classes)
    first_ps, last_ps = packet_ps + networks.DELAY_PS, n * packet_ps
    run = testbed.run(flows, network, until_ps=last_ps)
    port, classes = int(network.port_peer[0]), testbed.n_traffic_classes
    sent = run.engine.link_counters().sent_bytes[port * classes : (port + 1) * classes].sum()
    busy_ps = int(sent) * 8 * 10**12 // networks.RATE_BPS
    wanted_ps = last_ps - first_ps
    if busy_ps < wanted_ps:
        raise ConformanceError(
            f"a port with packets to send was idle for {(wanted_ps - busy_ps) / 1e6:.3f} us of "
            f"{wanted_ps / 1e6:.3f} us, and the discipline does not use wait_until"
        )
    return run.line()


@QUEUE("order", "packets of a flow stay in order")
def order(testbed: QueueTestbed) -> str:
    if testbed.discipline.has("choose_packet") or testbed.discipline.moves_packets:
        raise NotApplicableError("it may take packets from other places than the head")
    try:
        return testbed.run(to_everybody(8)(testbed), params={"in_order": 1}).line()
    except ConformanceError as error:
        if "AssertionError" not in str(error):
            raise
        raise ConformanceError("packets of a flow are reordered") from None


@QUEUE("pauses", "no loss with PFC pauses")
def pauses(testbed: QueueTestbed) -> str:
    if not testbed.discipline.pauses:
        raise NotApplicableError("it does not pause neighbors")
    run = testbed.run(in_classes(40)(testbed))
    if run.total("drops"):
        raise ConformanceError(f"{run.total('drops')} packets are dropped despite pauses")
    return run.line()


QUEUE += DETERMINISM

# -- routing algorithms ----------------------------------------------------------------------------

LOSSLESS = {"queue_discipline": "lossless", "xoff_bytes": "2pkt", "xon_bytes": "1pkt"}
CABLE_DOWN_PS = (20_000_000, 200_000_000)
SLACK_PS = 40_000_000  # time after which earlier packets have left the network


def arrival(build: Callable[[], Network]) -> Callable[[RoutingTestbed], str]:
    """Return a case in which every host of a network sends to every other."""

    def case(testbed: RoutingTestbed) -> str:
        network = testbed.prepared(build())
        return testbed.deliver(everybody(network.n_hosts, testbed.packets(3)), network).line()

    return case


for _name, _about, _build in (
    ("tree", "leaves and spines", networks.tree),
    ("three tiers", "two pods and a core", networks.three_tiers),
    ("planes", "two trees", networks.planes),
    ("dragonfly", "three groups", networks.dragonfly),
    ("torus", "four by four", networks.torus),
):
    ROUTING.add(_name, _about, arrival(_build))


@ROUTING("failed link", "a cable fails, routes stay")
def failed_link(testbed: RoutingTestbed) -> str:
    """A cable is down for a while, with fixed routes: only packets sent over it may be lost."""
    network = testbed.prepared(networks.tree())
    run = testbed.run(everybody(network.n_hosts, 20), network, faults=_cable_down(network))
    if run.unroutable:
        raise ConformanceError(f"{run.unroutable} packets crossed 255 links: a loop")
    return run.line()


@ROUTING("changing routes", "a cable fails, routes follow")
def changing_routes(testbed: RoutingTestbed) -> str:
    """A cable fails and returns; routes follow. Packets sent after that must arrive."""
    lines = []
    for plain in (networks.tree(), networks.dragonfly()):
        network = testbed.prepared(plain)
        starts_ps = (0, *(time + SLACK_PS for time in CABLE_DOWN_PS))
        parts = [
            everybody(network.n_hosts, n_packets, start_ps=start_ps)
            for n_packets, start_ps in zip((10, 3, 3), starts_ps, strict=True)
        ]
        faults = following(_cable_down(network), network)
        run = testbed.run(FlowTable.join(parts), network, faults=faults)
        missing = run.engine.flows.size_bytes - run.engine.flow_states().received_bytes
        late = missing[len(parts[0]) :]
        if late.any():
            raise ConformanceError(
                f"{np.count_nonzero(late)} flows that start after the routes of {network.name} "
                "have changed lose packets"
            )
        lines.append(run.line())
    return "; ".join(lines)


@ROUTING("deadlock", "no cycle of waiting packets with PFC")
def deadlock(testbed: RoutingTestbed) -> str:
    """With PFC and little buffer, all packets arrive on networks that netsim does not refuse."""
    refused = []
    for build in (networks.tree, networks.three_tiers, networks.dragonfly, networks.torus):
        network = testbed.prepared(build())
        choices = choices_of(testbed.fabric(LOSSLESS, network), network)
        if waiting_cycle(network, choices=choices).ports.size:
            refused.append(network.name)
        else:
            run = testbed.run(everybody(network.n_hosts, testbed.packets(6)), network, LOSSLESS)
    if len(refused) < 4:
        return run.line() + (f"; netsim refuses {', '.join(refused)}" if refused else "")
    raise NotApplicableError("netsim refuses all networks with PFC: links may wait in a cycle")


def _cable_down(network: Network) -> LinkFaults:
    """Return a fault of the first cable between switches, in both directions."""
    switches = network.port_node >= network.n_hosts
    port = np.flatnonzero(switches & switches[network.port_peer])[:1]
    return combine([down(port, network, CABLE_DOWN_PS)], network.n_ports)


ROUTING += DETERMINISM
