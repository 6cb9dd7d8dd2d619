"""Why a flow was slow: each part of its completion time, with its cause, place and flows.

The segments of a trace divide the time (`netsim.tracing.segments`); a log of all packets at the
ports where the flow waited says whose packets went first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netsim.engine.kernels import trace as event
from netsim.engine.kernels.packets import PFC
from netsim.engine.kernels.trace import TraceEntries
from netsim.errors import InputError
from netsim.experiment.scenario import Scenario
from netsim.limits import HORIZON_PS
from netsim.model.arithmetic import byte_quotient, send_time
from netsim.model.fabric import PacketFormat, after_header_ps, left_ps
from netsim.model.network import Network
from netsim.tracing.flow_trace import FlowTrace

if TYPE_CHECKING:
    import polars as pl


CAUSES = {
    "data": "sending its own bytes",
    "propagation": "cables and switches",
    "incast": "incast",
    "collision": "hash collision",
    "shared_link": "shared link",
    "pfc": "PFC victim",
    "slow_link": "slow link",
    "circuit": "circuit down",
    "loss": "loss or timeout",
    "receiver": "receiver's pacing",
    "nic": "shared NIC",
    "window": "own window",
    "pacing": "own pacing",
    "unexplained": "unexplained",
}
"""Causes and their titles. Any flow takes `data` and `propagation`; the others delay it."""

LOSSES = ("lost", "drop", "unroutable")
SIGNALS = ("mark", "trim", "drop")

IDLE = 0.5  # a parallel link has room if busy for at most this share of the link's busy time
NOTABLE_WAIT = 0.1  # a mean wait at a port of this fraction of a round trip slows the sender
NOTABLE_SHARE = 0.05  # minimum share of a port's time for other flows to count as sharing it
IN_FLIGHT = (
    "transmission",
    "propagation",
    "queue",
    "retry",
    "paused",
)  # a packet's segments between hosts
DEEPEST = 16  # longest chain of paused switches that is followed


LEAVES = (event.SENT, event.FORWARDED)

FRAME = -1  # stands for a PFC frame instead of a flow's number


class _Rows:
    """Entries of one kind in order of port, then of time."""

    def __init__(
        self,
        network: Network,
        sizes: PacketFormat,
        recorded: TraceEntries,
        what: tuple[int, ...],
    ) -> None:
        is_packet = recorded.entries[:, event.WHAT] < event.TX
        entries, packets = recorded.entries[is_packet], recorded.packets
        these = np.flatnonzero(np.isin(entries[:, event.WHAT], what))
        order = these[np.lexsort((entries[these, event.TIME], entries[these, event.PORT]))]
        rows, packets = entries[order], packets[order]
        self.time, self.flow = rows[:, event.TIME], rows[:, event.FLOW]
        self.paused_ps = rows[:, event.PAUSED_PS]
        self.arrival = packets["time"].astype(np.int64)
        self.size, self.kind = (packets[name].astype(np.int64) for name in ("size_bytes", "kind"))
        port = rows[:, event.PORT]
        self.end = left_ps(network, sizes, port, (self.time, self.arrival), self.size)
        later_ps = after_header_ps(network, sizes, port, self.size)
        self.end += np.where(self.kind < PFC, later_ps, 0)
        self.seq, self.traffic_class = (packets[name].astype(np.int64) for name in ("seq", "prio"))
        self.first = np.searchsorted(port, np.arange(network.n_ports + 1))

    def of_port(self, port: int) -> slice:
        return slice(int(self.first[port]), int(self.first[port + 1]))

    def keys(self, rows: slice | np.ndarray) -> list[tuple[int, ...]]:
        """Return the keys of the packets of some rows: flow, kind and number."""
        return list(zip(*(c[rows].tolist() for c in (self.flow, self.kind, self.seq)), strict=True))


class PortLog:
    """The packets that arrived at recorded switch ports, and that recorded ports sent."""

    def __init__(
        self,
        network: Network,
        sizes: PacketFormat,
        entries: TraceEntries,
        message_of: Callable[[int], int] = lambda flow: flow,
    ) -> None:
        self.network, self.message_of = network, message_of
        self.sent = _Rows(network, sizes, entries, LEAVES)
        self.arrived = _Rows(network, sizes, entries, (event.ARRIVED,))

    def sent_between(self, port: int, start_ps: int, end_ps: int) -> tuple[slice, np.ndarray]:
        """Return the rows in `sent` of transmissions between two times, and how long each occupied
        the port in that time, in ps."""
        rows = self.sent.of_port(port)
        begin = rows.start + int(np.searchsorted(self.sent.end[rows], start_ps, side="right"))
        end = rows.start + int(np.searchsorted(self.sent.time[rows], end_ps, side="left"))
        rows = slice(begin, max(begin, end))
        inside = np.minimum(self.sent.end[rows], end_ps) - np.maximum(
            self.sent.time[rows], start_ps
        )
        return rows, inside

    def shares(self, port: int, start_ps: int, end_ps: int) -> Counter[int]:
        """Return for how long each message's packets occupied a port between two times, in ps."""
        rows, inside = self.sent_between(port, start_ps, end_ps)
        flows, place = np.unique(self.sent.flow[rows], return_inverse=True)
        sums = np.zeros(flows.size, np.int64)
        np.add.at(sums, place, inside)
        found: Counter[int] = Counter()
        for flow, time_ps in zip(flows.tolist(), sums.tolist(), strict=True):
            found[self.message_of(flow)] += time_ps
        return found

    def paused_ps(self, port: int, traffic_class: int, start_ps: int, end_ps: int) -> int:
        """Return approximately how long PFC paused a class of a port between two times: from the
        last packet before to the first packet after."""
        found = []
        for one in (self.sent, self.arrived):
            rows = one.of_port(port)
            mine = one.traffic_class[rows] == traffic_class
            found.append((one.time[rows][mine], one.paused_ps[rows][mine]))
        time, paused = (np.concatenate(part) for part in zip(*found, strict=True))
        if not time.size:
            return 0
        order = np.lexsort((paused, time))
        time, paused = time[order], paused[order]
        before = max(0, int(np.searchsorted(time, start_ps, side="right")) - 1)
        after = min(time.size - 1, int(np.searchsorted(time, end_ps, side="left")))
        return min(end_ps - start_ps, max(0, int(paused[after] - paused[before])))

    def queued(self, node: int, by_port: int, at_ps: int) -> Counter[int]:
        """Return the bytes that waited at each port of a switch at a time after arriving over the
        link of `by_port`."""
        came = self.sent.of_port(by_port)
        came_keys = set(zip(self.sent.keys(came), self.sent.arrival[came].tolist(), strict=True))
        held: Counter[int] = Counter()
        first = self.network.node_first_port
        for port in range(int(first[node]), int(first[node + 1])):
            rows = self.arrived.of_port(port)
            until = rows.start + int(np.searchsorted(self.arrived.time[rows], at_ps, side="right"))
            rows = slice(rows.start, until)
            left = self.sent.of_port(port)
            gone_until = left.start + int(np.searchsorted(self.sent.end[left], at_ps, "right"))
            gone = Counter(self.sent.keys(slice(left.start, gone_until)))
            sizes = self.arrived.size[rows].tolist()
            times = self.arrived.time[rows].tolist()
            for key, time, size in zip(self.arrived.keys(rows), times, sizes, strict=True):
                if gone[key] > 0:
                    gone[key] -= 1
                elif (key, time) in came_keys:
                    held[port] += size
        return held


def link_text(network: Network, port: int) -> str:
    """Return the name of a port's link; "" without a port."""
    if port < 0:
        return ""
    ends = int(network.port_node[port]), far_node(network, port)
    return " -> ".join(map(network.node_name, ends))


class Part(NamedTuple):
    """A part of a time: its cause, and how many ps of it each other flow took."""

    cause: str
    manner: str
    place: str
    time_ps: int
    flows: Mapping[int, int] = MappingProxyType({})
    root: str = ""  # link of the queue for which PFC paused the flow


class Causes:
    """The causes of one flow's time, from its trace and a log of ports."""

    def __init__(self, trace: FlowTrace, scenario: Scenario, log: PortLog) -> None:
        self.trace, self.scenario, self.log = trace, scenario, log
        self.network, self.flow = scenario.network, log.message_of(trace.flow)
        self.paths = Paths(scenario, trace.flow)
        self.parts: list[Part] = []
        self.missing: set[int] = set()
        self.start_ps, self.end_ps = trace.start_ps, trace.start_ps + (trace.fct_ps or 0)
        self.reference_bps = _nic_port_bps(self.network, self.paths.src_ports)
        self.reference_q20 = _quotient(self.reference_bps)
        self.signals, self.losses = self._signals(), self._losses()

    def run(self, since_ps: int, until_ps: int) -> list[Part]:
        """Return the parts of a time, which add up to it. `missing` are ports whose log is needed
        for a better answer."""
        self.parts = []
        rows = list(self.trace.segments.iter_rows(named=True))
        last = len(rows)
        while last and (end := rows[last - 1])["segment_type"] in IN_FLIGHT and not end["control"]:
            last -= 1  # this row belongs to the last packet's path
        for place, row in enumerate(rows):
            inside = {
                "start_ps": max(row["start_ps"], since_ps),
                "end_ps": min(row["end_ps"], until_ps),
            }
            if inside["start_ps"] < inside["end_ps"]:
                self._explain({**row, **inside}, is_last=place >= last)
        acked_ps = until_ps - since_ps - sum(part.time_ps for part in self.parts)
        self._add("unexplained", "acknowledgments", -1, acked_ps)
        return self.parts

    def ports(self) -> set[int]:
        """Return the ports at which the flow waited, lost packets or got signals, and parallel
        ports."""
        waits = self.trace.segments.filter(
            self.trace.segments["segment_type"].is_in(["queue", "paused", "nic"])
        )
        found = {*waits["port"].drop_nulls().to_list()}
        found |= {port for _, port, _ in self.losses if port >= 0} | {*self.signals}
        found |= {one for port in found for one in self.paths.beside(port)}
        for port in waits.filter(waits["segment_type"] == "paused")["port"].unique().to_list():
            found |= beyond(self.network, port)
        return found | self.missing

    def _add(
        self,
        cause: str,
        manner: str,
        port: int,
        time_ps: int,
        flows: Mapping[int, int] | None = None,
        root: int = -1,
    ) -> None:
        """Add a part, unless it took no time."""
        if time_ps > 0:
            place, queue = link_text(self.network, port), link_text(self.network, root)
            self.parts.append(Part(cause, manner, place, time_ps, flows or {}, queue))

    def _explain(self, row: dict[str, Any], *, is_last: bool) -> None:
        """Add the parts of one segment; `is_last` if it belongs to the last packet's path."""
        kind, start, end = row["segment_type"], row["start_ps"], row["end_ps"]
        port = -1 if row["port"] is None else row["port"]
        lost = None if row["lost_seq"] is None else self._loss_of(row["lost_seq"], start, end)
        if lost is not None or kind == "timeout":
            self._lose(lost, start, end)
        elif kind == "queue":
            self._share(self._sharing(port), kind, port, (start, end))
        elif kind == "paused":
            self._paused(port, start, end)
        elif kind == "retry":
            self._add("loss", "link-level retry", port, end - start)
        elif kind == "nic":
            self._share("nic", "NIC busy", port, (start, end))
        elif kind in ("transmission", "sending"):
            slow = self._slow_part(port, end - start, (start, end))
            self._add("slow_link", "transmission", port, slow)
            if is_last or kind == "sending":
                self._add("data", kind, -1, end - start - slow)
            else:
                self._blocked(start, end - slow)
        elif kind == "propagation":
            if is_last:
                self._add("propagation", kind, -1, end - start)
            else:
                self._blocked(start, end)
        elif kind == "receiver":
            self._receiver(start, end)
        elif kind in ("pacing", "timer"):
            self._limited("pacing", end, end - start)
        else:
            self._add("unexplained", kind, port, end - start)

    # Links

    def _slow_part(self, port: int, time_ps: int, times: tuple[int, int]) -> int:
        """Return how much of a port's sending time is due to the port being slower than the
        source's fastest port."""
        if port < 0:
            return 0
        rows, inside = self.log.sent_between(port, *times)
        took = int((self.log.sent.end[rows] - self.log.sent.time[rows]).sum())
        if not took or not inside.size:
            rate = min(self.reference_bps, int(self.network.port_rate_bps[port]))
            return time_ps - time_ps * rate // self.reference_bps
        needed = sum(
            send_time(size, self.reference_q20) for size in self.log.sent.size[rows].tolist()
        )
        return max(0, time_ps - time_ps * needed // took) if needed < took * 0.99 else 0

    def _share(self, cause: str, manner: str, port: int, times: tuple[int, int]) -> None:
        """Divide a wait for a port among the flows whose packets it sent meanwhile.

        Packets of one flow queue behind each other only if the port is slower than the NIC, or if
        other packets delayed them before.
        """
        start, end = times
        shares = self._others(port, start, end)
        others, own = shares.total(), self.log.shares(port, start, end)[self.flow]
        slow = self._slow_part(port, others, times)
        if own and self._slow_part(port, own, times):
            slow += own
        elif cause == "nic":
            self._add("data", "sending", -1, own)
            start += own
        self._add("slow_link", manner, port, slow)
        circuits = self.network.circuits
        is_circuit = circuits is not None and circuits.of_port[port] >= 0
        idle = end - start - self.log.shares(port, start, end).total() if is_circuit else 0
        self._add("circuit", manner, port, idle)
        left = end - start - slow - idle
        if not others:
            shares = self._others(port, self.start_ps, end)
        if shares:
            self._add(cause, manner, port, left, _scaled(shares, left))
        elif slow or is_circuit:
            self._add("slow_link" if slow else "circuit", manner, port, left)
        else:
            self._add("data" if own else "unexplained", manner, -1 if own else port, left)

    def _others(self, port: int, start: int, end: int) -> Counter[int]:
        """Return for how long each other flow's packets occupied a port between two times."""
        shares = self.log.shares(port, start, end)
        shares.pop(self.flow, 0)
        shares.pop(FRAME, 0)
        return shares

    def _sharing(self, port: int) -> str:
        """Return the cause of sharing a port with other flows."""
        network = self.network
        if port < network.n_host_ports:
            return "nic"
        if int(network.port_peer[port]) < network.n_host_ports:
            return "incast"
        beside = self.paths.beside(port)
        if beside and self.scenario.fabric.one_path:
            times = self.start_ps, self.end_ps
            busy = self.log.shares(port, *times).total()
            if min(self.log.shares(one, *times).total() for one in beside) <= IDLE * busy:
                return "collision"
        return "shared_link"

    # PFC

    def _paused(self, port: int, start: int, end: int) -> None:
        """Find the queue for which PFC paused a port."""
        root, at = -1, port
        for _ in range(DEEPEST):
            held = self.log.queued(far_node(self.network, at), at, start)
            if not held:
                break
            root = max(held, key=lambda one: (held[one], -one))
            if 2 * self.log.paused_ps(root, self._data_class, start, end) < end - start:
                break
            self.missing |= beyond(self.network, root)
            at = root
        if root < 0:
            self._add("pfc", "paused", port, end - start)
            return
        if root in self._used:
            self._share(self._sharing(root), "paused", root, (start, end))
        else:
            self._add("pfc", "paused", port, end - start, self._others(root, start, end), root)

    @cached_property
    def _used(self) -> set[int]:
        """Ports that sent data of the flow."""
        events = self._data_events
        return {*events.filter(events["event"].is_in(["send", "forward"]))["port"].to_list()}

    @cached_property
    def _data_events(self) -> pl.DataFrame:
        events = self.trace.events
        return events.filter(events["kind"].is_in(["DATA", "TRIMMED"]).fill_null(value=False))

    @cached_property
    def _data_class(self) -> int:
        classes = self._data_events["traffic_class"].drop_nulls()
        return int(classes.mode().min() or 0) if len(classes) else 0  # type: ignore[arg-type]

    # Losses

    def _losses(self) -> list[tuple[int, int, dict[str, Any]]]:
        """Return the times, ports and events of lost packets of the flow."""
        events = self.trace.events
        found = events.filter(events["event"].is_in(LOSSES))
        return [(row["time_ps"], row["port"], row) for row in found.iter_rows(named=True)]

    def _loss_of(self, seq: int, start: int, end: int) -> tuple[int, int, dict[str, Any]] | None:
        """Return the loss of a data packet before a time; None if it was trimmed."""
        these = [one for one in self.losses if one[0] < end and one[2]["seq"] == seq] or [
            one for one in self.losses if start <= one[0] < end
        ]
        return these[-1] if these else None

    def _lose(self, lost: tuple[int, int, dict[str, Any]] | None, start: int, end: int) -> None:
        if lost is None:
            lost = next((one for one in self.losses[::-1] if one[0] < end), None)
        if lost is None:
            self._add("loss", "timeout without a drop", -1, end - start)
            return
        time, port, row = lost
        flows: Counter[int] = Counter()
        if row["event"] == "drop" and row["queue_bytes"]:
            rate = int(self.network.port_rate_bps[port])
            drain_ps = send_time(row["queue_bytes"], _quotient(rate))
            flows = self._others(port, time, time + drain_ps)
        taken, total = _scaled(flows, end - start), end - start
        self._add("loss", row["event"], port, total, taken)

    # The sender and the receiver

    def _blocked(self, start: int, end: int) -> None:
        """Add a time when the sender waited for an answer in flight."""
        own = sum(self.log.shares(port, start, end)[self.flow] for port in self.paths.src_ports)
        own = min(own, max(0, end - start))
        self._add("data", "sending", -1, own)
        self._limited("window", end, end - start - own)

    def _limited(self, cause: str, end: int, time_ps: int) -> None:
        """Add time when the sender's window or rate held it back, explained by signals from the
        network."""
        port = next((port for port, first_ps in self.signals.items() if first_ps < end), -1)
        if port < 0:
            lost = next((one for one in self.losses[::-1] if one[0] < end), None)
            if lost is None:
                self._add(cause, "limited", -1, time_ps)
            else:
                self._add("loss", "slowed down", lost[1], time_ps)
            return
        own = self.log.shares(port, self.start_ps, end)[self.flow]
        shares = self._others(port, self.start_ps, end)
        others = shares.total()
        rates = [int(self.network.port_rate_bps[one]) for one in self.paths.beside(port)]
        slow = self._slow_part(port, 1 << 20, (self.start_ps, end)) / (1 << 20)
        if slow and (others < NOTABLE_SHARE * own or (rates and slow >= IDLE)):
            self._add("slow_link", "slowed down", port, time_ps)
        elif others >= NOTABLE_SHARE * (own + others):
            scaled = Counter({flow: ps * time_ps // others for flow, ps in shares.items()})
            self._add(self._sharing(port), "slowed down", port, time_ps, scaled)
        else:
            self._add(cause, "limited", -1, time_ps)

    def _signals(self) -> dict[int, int]:
        """Return the ports that slowed the sender and the times of their first signals (marks,
        trims and drops, or else long waits), the ports with the most signals first."""
        events = self._data_events
        found: Counter[int] = Counter()
        first: dict[int, int] = {}
        for port, time in (
            events.filter(events["event"].is_in(SIGNALS)).select("port", "time_ps").rows()
        ):
            found[port] += 1
            first.setdefault(port, time)
        if not found:
            waits = events.filter(events["event"] == "forward").drop_nulls("wait_ps")
            sent = max(1, len(events.filter(events["event"] == "send")))
            limit = NOTABLE_WAIT * self._round_trip_ps * sent
            for port, time, wait in waits.select("port", "time_ps", "wait_ps").rows():
                found[port] += wait
                if wait:
                    first.setdefault(port, time)
            found = Counter({port: wait for port, wait in found.items() if wait > limit})
        return {port: first[port] for port, _ in found.most_common()}

    @cached_property
    def _round_trip_ps(self) -> int:
        times = self.trace.events["rtt_ps"].drop_nulls()
        return int(times.min()) if len(times) else 0  # type: ignore[arg-type]

    def _receiver(self, start: int, end: int) -> None:
        """Add a time in which the receiver held back pulls or credits: due to other flows while
        their data occupied its link."""
        ports = self.paths.last_ports
        shares: Counter[int] = Counter()
        for port in ports:
            shares.update(self.log.shares(port, start, end))
        shares.pop(FRAME, 0)
        shares = Counter({flow: time // len(ports) for flow, time in shares.items()})
        own = shares.pop(self.flow, 0)
        others = shares.total()
        self._add("data", "sending", -1, own)
        self._add("incast", "receiver's pacing", ports[0], others, shares)
        self._add("receiver", "pacing", -1, end - start - own - others)


def _scaled(flows: Counter[int], time_ps: int) -> Counter[int]:
    """Scale the times of flows so that they add up to at most `time_ps`."""
    total = max(1, time_ps, flows.total())
    return Counter({flow: time * time_ps // total for flow, time in flows.items()})


def _quotient(rate_bps: int) -> int:
    return int(byte_quotient(np.array(rate_bps)))


def _nic_port_bps(network: Network, ports: list[int]) -> int:
    """Return the rate of the fastest port of the NICs that some host ports belong to."""
    nics = network.nic_of_port
    return int(network.port_rate_bps[: nics.size][np.isin(nics, nics[ports])].max())


def far_node(network: Network, port: int) -> int:
    """Return the node at the other end of a port's cable."""
    return int(network.port_node[network.port_peer[port]])


def beyond(network: Network, port: int) -> set[int]:
    """Return the ports of the node at the other end of a port's cable."""
    node = far_node(network, port)
    return {*range(int(network.node_first_port[node]), int(network.node_first_port[node + 1]))}


class Queues:
    """The queues of ports in a result's table of links, if it has one."""

    def __init__(self, scenario: Scenario, links: pl.DataFrame | None) -> None:
        self.network, self.may_pause = scenario.network, scenario.fabric.pauses
        self.paused_ps: np.ndarray | None = None
        if links is not None and self.may_pause:
            n = self.network.n_ports
            rows = links.filter(links["link"].is_between(0, n - 1)).fill_null(0)
            columns = (rows[name].to_numpy() for name in ("paused_ps", "max_queue_bytes"))
            self.paused_ps, queued = (np.bincount(rows["link"], one, n) for one in columns)
            self.waiting_ps = self.paused_ps + queued * (8e12 / self.network.port_rate_bps)

    def reached(self, ports: set[int]) -> set[int]:
        """Return the ports, the ports of queues for which PFC paused them, and so on."""
        found, new = {*ports}, {*ports}
        while new and self.paused_ps is not None:
            paused = [port for port in new if self.paused_ps[port] > 0]
            new = {one for port in paused for one in beyond(self.network, port)} - found
            found |= new
        return found

    def longest_wait_ps(self, ports: set[int]) -> int:
        """Return the longest time that a packet may have waited at one of these ports. Such packets
        cause PFC pauses."""
        if not self.may_pause:
            return 0
        if self.paused_ps is None:
            return HORIZON_PS
        return int(self.waiting_ps[[*ports]].max(initial=0)) + 1


class Paths:
    """The ports that a flow may use: for its data by distance from its source, and for its control
    packets."""

    def __init__(self, scenario: Scenario, flow: int) -> None:
        network, pairs = scenario.network, scenario.port_pairs
        self.network = network
        mine = slice(int(pairs.first[flow]), int(pairs.first[flow + 1]))
        self.src_ports: list[int] = sorted({*pairs.src_port[mine].tolist()})
        dst_ports = sorted({*pairs.dst_port[mine].tolist()})
        self.last_ports: list[int] = [int(network.port_peer[port]) for port in dst_ports]
        src_port, dst_port, data_to, control_to, control_back = (
            column[mine].tolist()
            for column in (
                *(pairs.src_port, pairs.dst_port),
                *(pairs.data_to, pairs.control_to, pairs.control_back),
            )
        )
        self.levels = self._walk({*zip(src_port, data_to, strict=True)})
        self.control = self._walk(
            {*zip(dst_port, control_back, strict=True), *zip(src_port, control_to, strict=True)}
        )

    def _walk(self, ends: set[tuple[int, int]]) -> list[set[int]]:
        """Return the ports between host ports and addresses, by distance."""
        network = self.network
        levels: list[set[int]] = []
        while ends and len(levels) < network.n_nodes:
            levels.append({port for port, _ in ends})
            ends = {
                (port, to)
                for node, to in {(far_node(network, port), to) for port, to in ends}
                for port in self._next_ports(node, to, to // network.n_host_ports)
            }
        return levels

    def _next_ports(self, node: int, to: int, table: int) -> list[int]:
        """Return the ports of a node toward an address; none at a host or without a route."""
        network = self.network
        if node < network.n_hosts:
            return []
        try:
            group = int(network.port_group[to % network.n_host_ports])
            local = network.candidates(node - network.n_hosts, group, table)
        except InputError:  # no route in the first time slot, or while a link is down
            return []
        return [int(network.node_first_port[node]) + port for port in local.tolist()]

    def ports(self) -> set[int]:
        """Return all ports that the flow may use."""
        ends = {*self.src_ports, *self.last_ports, *self.network.port_peer[self.src_ports].tolist()}
        return ends.union(*self.levels, *self.control)

    def beside(self, port: int) -> set[int]:
        """Return the other ports that the flow could have used instead of a port."""
        found: set[int] = set()
        for level in self.levels:
            if port in level:
                found |= level
        return found - {port}
