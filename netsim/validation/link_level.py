"""Links: PFC, its watchdog, credits, weights of classes, link-level retry (LLR)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from netsim.conformance import probe
from netsim.conformance.networks import star
from netsim.model.builder import NetworkBuilder
from netsim.model.faults import LinkFault, LinkFaults, combine
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.validation.bed import GBPS, MS, US, Bed, fct_ps, run_until
from netsim.validation.laws import PACKET, PAYLOAD, Measured


def headroom(gbps: int, delay_us: float, quanta: int) -> Measured:
    """Measure the smallest headroom without drops, in steps of a packet from the law's value.

    A host sends to a host with a tenth of its rate, so it is paused repeatedly. Another host sends
    full packets to it, so PFC frames wait behind them for all possible times.
    """
    builder = NetworkBuilder()
    sender, other, slow = builder.add_hosts(3)
    switch = builder.add_switch()
    for host, rate in ((sender, gbps), (other, gbps), (slow, gbps / 10)):
        builder.cable(host, switch, rate_bps=int(rate * GBPS), delay_ps=int(delay_us * US))
    network = builder.build("headroom")
    n_bytes = 400 * PAYLOAD
    flows = [(sender, slow, n_bytes, 0), (other, sender, 10 * n_bytes, 0)]
    theirs = int(2 * delay_us * gbps * 125) + 2 * PACKET + 64 + 64 * quanta
    fabric = {"queue_discipline": "pfc", "xoff_bytes": "3pkt", "xon_bytes": "1pkt"}
    ours, drops = theirs + PACKET, 0
    while not drops:
        ours -= PACKET
        own = {**fabric, "headroom_bytes": f"{ours}B"}
        engine = Bed("datagram", network, fabric=own, jit=False).engine(flows)
        run_until(engine, 10 * n_bytes * 8000 // gbps)
        drops = int(engine.link_counters().drops.sum())
    yield {"ours": ours + PACKET, "theirs": theirs}


def watchdog(poll_ms: int, detect_ms: int) -> Measured:
    """Measure how long after the first pause the watchdog acts on an endless one."""
    builder = NetworkBuilder()
    source, sink = builder.add_hosts(2)
    switches = builder.add_switch(), builder.add_switch()
    builder.cable(source, switches[0], 100 * GBPS, US)
    builder.cable(*switches, 100 * GBPS, US)
    builder.cable(switches[1], sink, 10_000, US)  # 3 s per packet: the pause does not end
    network = builder.build("endless pause")
    port = int(network.node_first_port[switches[0]]) + 1
    times = {"watchdog_poll": f"{poll_ms}ms", "watchdog_detect": f"{detect_ms}ms"}
    fabric = {"queue_discipline": "pfc", "watchdog": "drop", **times}
    start_ps = 3 * poll_ms * MS // 2
    engine = Bed("datagram", network, fabric=fabric, jit=False).engine(
        [(source, sink, 100 * PAYLOAD, start_ps)]
    )
    at_ms = 0
    while not int(engine.link_counters().drops[port]):
        at_ms += 1
        run_until(engine, at_ms * MS + 1)
    least, most = detect_ms, detect_ms + 2 * poll_ms
    ours = int(engine.link_counters().paused_ps[port]) / MS
    yield {"ours": ours, "theirs": (least + most) / 2, "spread": (least, most)}


def rates(
    network: Network,
    flows: Sequence[tuple[int, int]],
    window_us: tuple[float, float],
    fabric: Mapping[str, Any],
    cls: Sequence[int] = (0,),
    faults: LinkFaults | None = None,
) -> list[float]:
    """Return the arrival rate of each endless flow, in Gbps on the wire; with credits unless the
    fabric has another discipline."""
    src, dst = np.array(flows, np.int32).T
    table = FlowTable(src, dst, 10**10, 0, cls=np.resize(cls, len(flows)))
    own = {"queue_discipline": "credits", "n_traffic_classes": max(cls) + 1, **fabric}
    engine = Bed(str(probe.__file__), network, fabric=own).engine(table, faults=faults)
    run_until(engine, int(window_us[0] * US))
    before = engine.flow_states().received_bytes.copy()
    run_until(engine, int(window_us[1] * US))
    packets = (engine.flow_states().received_bytes - before) / PAYLOAD
    found: list[float] = (packets * PACKET * 8e-3 / (window_us[1] - window_us[0])).tolist()
    return found


def credit_rate(buffer_packets: int, delay_us: int) -> Measured:
    """Measure the rate at which a 400 Gbps link can send with a buffer of this many packets.

    A packet's credits return after T: its transmission, the delay, its transmission at the next
    switch, and the return of the credit message.
    """
    gbps = 400
    builder = NetworkBuilder()
    source, sink = builder.add_hosts(2)
    switches = builder.add_switch(), builder.add_switch()
    builder.cable(source, switches[0], gbps * GBPS, US // 10)
    builder.cable(*switches, gbps * GBPS, delay_us * US)
    builder.cable(switches[1], sink, gbps * GBPS, US // 10)
    sizes = {"buffer_bytes": f"{buffer_packets * PACKET}B", "update_bytes": f"{PACKET}B"}
    trip_ns = (2 * PACKET + 8) * 8 / gbps + 2000 * delay_us
    window_us = 50, 50 + trip_ns / 10  # a hundred round trips
    (ours,) = rates(builder.build("credits"), [(source, sink)], window_us, sizes)
    yield {"ours": ours, "theirs": min(gbps, buffer_packets * PACKET * 8 / trip_ns)}


def lanes(n: int, own: bool) -> Measured:
    """Measure a victim that shares an uplink with one of n flows to one host, on their virtual lane
    or a separate one. All links have 100 Gbps. Buffers are large: on a shared lane, the victim's
    packets in flight take credit from the other flow of the uplink."""
    builder = NetworkBuilder()
    hosts = builder.add_hosts(n + 3)
    left, right = builder.add_switch(), builder.add_switch()
    for host in hosts:
        builder.cable(host, left if host in (0, n) else right, 100 * GBPS, US)
    builder.cable(left, right, 100 * GBPS, US)
    own_buffer = {"buffer_bytes": "1MiB"}
    flows = [*((k, n + 1) for k in range(n)), (n, n + 2)]
    found = rates(builder.build("lanes"), flows, (3000, 7000), own_buffer, [0] * n + [int(own)])
    yield {"ours": found[n], "theirs": 100 * (1 - 1 / n) if own else 100 / n}


def weights(discipline: str, class_weights: str, gbps: Sequence[float]) -> Measured:
    """Measure the rates of endless flows to one host at 100 Gbps, each in a separate class."""
    n = len(gbps)
    fabric = {"queue_discipline": discipline, "class_weights": class_weights}
    flows = [(k, n) for k in range(n)]
    found = rates(star(n + 1, 100 * GBPS, US), flows, (100, 700), fabric, range(n))
    for k, (ours, theirs) in enumerate(zip(found, gbps, strict=True)):
        yield {"k": k, "ours": ours, "theirs": theirs}


def hosts_to_one(gbytes: Sequence[float], port_gbps: int) -> Measured:
    """Measure the total GB/s that one host receives from hosts that each send at their own rate."""
    n, builder = len(gbytes), NetworkBuilder()
    hosts, switch = builder.add_hosts(n + 1), builder.add_switch()
    for host, rate in zip(hosts, [*gbytes, port_gbps * PAYLOAD / PACKET / 8], strict=True):
        builder.cable(host, switch, round(rate * 8 * PACKET / PAYLOAD * GBPS), US)
    found = rates(builder.build("hosts_to_one"), [(k, n) for k in range(n)], (500, 1500), {})
    yield {"ours": sum(found) * PAYLOAD / PACKET / 8}


def parking_lot(n: int) -> Measured:
    """Measure n flows to one host that join a line of switches one by one: the last flow gets half
    of the rate, the one before a quarter, and so on; the first two get equal rates."""
    builder = NetworkBuilder()
    hosts = builder.add_hosts(n + 1)
    line = [builder.add_switch() for _ in range(n)]
    for host, switch in zip(hosts, line, strict=False):
        builder.cable(host, switch, 100 * GBPS, US)
    for end, switch in zip([*line[1:], hosts[n]], line, strict=True):
        builder.cable(switch, end, 100 * GBPS, US)
    found = rates(builder.build("parking lot"), [(k, n) for k in range(n)], (4000, 14_000), {})
    for k, ours in enumerate(found):
        yield {"k": k + 1, "ours": ours, "theirs": 100 / 2 ** min(n - 1, n - k)}


PACKET_PS, ANSWER_PS = 332_800, 640  # at 100 Gbps


def retry_rate(loss: float, frames: int) -> Measured:
    """Measure the rate of a host's 100 Gbps link that loses and resends packets, with credits.
    Until a replay begins, a loss costs ``frames`` packets."""
    delay_ps = ((frames - 1) * PACKET_PS - ANSWER_PS) // 2
    network = star(2, 100 * GBPS, delay_ps)
    faults = combine([LinkFault(np.array([0]), loss=loss)], network.n_ports)
    fabric = {"buffer_bytes": "1MiB", "llr": {"max_replays": "unlimited"}}
    window_us = 100, 350_100  # about a million packets
    (ours,) = rates(network, [(0, 1)], window_us, fabric, faults=faults)
    yield {"ours": ours, "theirs": 100 * (1 - loss) / (1 - loss + loss * frames)}


def retry_time(losses: int, outage: bool) -> Measured:
    """Measure when a single-packet flow arrives if its first transmissions are lost. A NACK answers
    a damaged packet; after an outage or an earlier NACK, the replay timer expires."""
    network = star(2, 100 * GBPS, US)
    loop_ps = PACKET_PS + 2 * US + ANSWER_PS
    starts = [0, PACKET_PS + 2 * loop_ps] if outage else [0, loop_ps, PACKET_PS + 3 * loop_ps]
    until_ps = starts[losses - 1] + 1 if losses else 0
    fault = LinkFault(np.array([0]), loss=1.0, until_ps=until_ps)
    if outage:
        fault = LinkFault(np.array([0]), outages_ps=((0, until_ps),))
    bed = Bed("datagram", network, fabric={"llr": {"max_replays": 2}}, jit=False)
    engine = bed.engine([(0, 1, PAYLOAD, 0)], faults=combine([fault], network.n_ports))
    theirs = starts[losses] + 2 * (PACKET_PS + US)
    yield {"ours": float(fct_ps(engine)[0]) / US, "theirs": theirs / US}


def retry_loss(max_replays: int | str) -> Measured:
    """Measure how much of a message arrives over links that all lose 1 % of their packets, with
    credits and retry. With a replay limit, packets that a port gives up on are missing."""
    network = star(2, 100 * GBPS, US)
    faults = combine([LinkFault(np.arange(network.n_ports), loss=0.01)], network.n_ports)
    fabric = {"queue_discipline": "credits", "llr": {"max_replays": max_replays}}
    engine = Bed("datagram", network, fabric=fabric, jit=False).engine(
        [(0, 1, 3000 * PAYLOAD, 0)], faults=faults
    )
    run_until(engine, 10 * MS)
    lost = int(engine.link_counters().lost_packets.sum())
    yield {"ours": int(engine.flow_states().received_bytes[0]) / PAYLOAD, "theirs": 3000 - lost}
