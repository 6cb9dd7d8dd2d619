"""Captures of a result's packets as pcapng files: those of links, of a node, or of a flow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from netsim.engine.kernels import trace as event
from netsim.engine.kernels.packets import DATA, FIRST_CONTROL, PFC, TRIMMED
from netsim.errors import InputError
from netsim.model.fabric import packet_counts
from netsim.tracing.flow_trace import kind_names
from netsim.tracing.frames import SimulatedPacket, frame_of
from netsim.tracing.pcapng import PcapngWriter
from netsim.tracing.port_log import LEAVES
from netsim.tracing.record import Recording, Replay, transport_of
from netsim.version import __version__
from netsim.writing import replacing_file

HERE = {event.MARKED: "marked here", event.TRIMMED: "trimmed here"}
"""Events that happen to a packet before it leaves the port."""

FIELDS = ("time", "flow", "seq", "aux", "size_bytes", "entropy", "kind", "ecn", "hops")


@dataclass(frozen=True)
class Capture:
    """What was written: the number of packets and of links, and whether the limit cut it short."""

    packets: int
    links: int
    is_cut: bool


@dataclass(frozen=True)
class _Entry:
    """A packet that a port starts to send, with what happened to it there."""

    port: int
    start_ps: int
    packet: dict[str, int]
    remarks: list[str]


def write_capture(
    replay: Replay,
    path: Path,
    flows: Sequence[int],
    ports: Sequence[int],
    times_ps: tuple[int, int | None] = (0, None),
    most: int = 0,
) -> Capture:
    """Simulate again and write the packets that start to be sent at `ports` (by default all those
    of `flows`), between two times, to a pcapng file; at most `most` packets (0: all).

    With both flows and ports, only packets of the flows are written. Each link is an interface.
    Raises InputError if the file cannot be written, and as `Replay.record`.
    """
    recording = replay.record(
        flows if not ports else (), ports, until_ps=times_ps[1], since_ps=times_ps[0], most=most
    )
    source = _Packets(recording, {*flows})
    count, links = 0, Counter[int]()
    try:
        with replacing_file(path) as file:
            writer = PcapngWriter(file, f"netsim {__version__}")
            interface: dict[int, int] = {}
            for entry in source.entries(times_ps[0]):
                if most and count == most:
                    break
                port = entry.port
                if port not in interface:
                    rate_bps = int(replay.scenario.network.port_rate_bps[port])
                    interface[port] = writer.interface(source.link(port), rate_bps)
                frame, length, comment = source.frame(entry)
                writer.packet(interface[port], entry.start_ps, frame, length, comment)
                links[port] += 1
                count += 1
            counts = {interface[port]: (n, source.dropped[port]) for port, n in links.items()}
            writer.statistics(counts, recording.engine.now_ps)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=str(path)) from None
    return Capture(count, len(links), bool(most) and count == most)


class _Packets:
    """The recorded packets as frames."""

    def __init__(self, recording: Recording, flows: set[int]) -> None:
        self.replay, self.flows = recording.replay, flows
        self.network = self.replay.scenario.network
        table = self.replay.scenario.flows
        sizes = table.with_sizes(recording.engine.flow_states().size_bytes).size_bytes
        self.src, self.dst = table.src.tolist(), table.dst.tolist()
        self.last = (packet_counts(sizes, self.replay.point.packets) - 1).tolist()
        self.dropped: Counter[int] = Counter()
        recorded = recording.entries
        is_packet = recorded.entries[:, event.WHAT] < event.TX
        rows = recorded.entries[is_packet]
        order = np.lexsort((rows[:, event.PORT], rows[:, event.TIME]))
        self.rows, self.packets = rows[order].tolist(), recorded.packets[order]
        self.transports: dict[int, Any] = {}

    def link(self, port: int) -> str:
        ends = self.network.port_node[port], self.network.port_node[self.network.port_peer[port]]
        return " -> ".join(self.network.node_name(int(node)) for node in ends)

    @cached_property
    def _fields(self) -> list[dict[str, int]]:
        columns = [self.packets[name].tolist() for name in FIELDS]
        return [dict(zip(FIELDS, row, strict=True)) for row in zip(*columns, strict=True)]

    def entries(self, since_ps: int) -> Iterator[_Entry]:
        """Yield the packets that are sent from a time on."""
        lost = {
            (row[event.PORT], row[event.TIME], *_key(packet))
            for row, packet in zip(self.rows, self._fields, strict=True)
            if row[event.WHAT] == event.LOST
        }
        before: dict[tuple[int, ...], list[str]] = {}
        sent: set[tuple[int, ...]] = set()
        gone: Counter[int] = Counter()
        for row, packet in zip(self.rows, self._fields, strict=True):
            port, time_ps, what = row[event.PORT], row[event.TIME], row[event.WHAT]
            place = (port, *_key(packet))
            if self.flows and packet["flow"] not in self.flows:
                continue
            if what in HERE:
                before.setdefault(place, []).append(HERE[what])
            elif what == event.DROPPED:
                self.dropped[port] += 1
                gone[port] += 1
            elif what in LEAVES:
                remarks = before.pop(place, [])
                if packet["kind"] == DATA and place in sent:
                    remarks.append("sent before")
                sent.add(place)
                if gone[port]:
                    remarks.append(f"{gone.pop(port)} dropped since the last packet")
                if (port, time_ps, *_key(packet)) in lost:
                    remarks.append("lost on this link")
                if time_ps >= since_ps:
                    yield _Entry(port, time_ps, packet, remarks)

    def frame(self, entry: _Entry) -> tuple[bytes, int, str]:
        """Return a packet's frame, its length and its comment."""
        packet, flow = entry.packet, entry.packet["flow"]
        kind = packet["kind"]
        if kind == PFC:
            node = int(self.network.port_node[entry.port])
            src, dst, name, module = node, node, "PFC", None
        else:
            if flow not in self.transports:
                use = transport_of(self.replay.point, self.replay.scenario, flow)
                self.transports[flow] = use, kind_names(use.module)
            use, names = self.transports[flow]
            module, name = use.module, names.get(kind, f"kind {kind}")
            src, dst = self.src[flow], self.dst[flow]
            if kind >= FIRST_CONTROL:
                src, dst = dst, src
        simulated = SimulatedPacket(
            name=name,
            src=src,
            dst=dst,
            last=self.last[flow] if flow >= 0 else 0,
            **{key: value for key, value in packet.items() if key != "time"},
        )
        is_roce = bool(getattr(module, "ROCEV2", False))
        data, length = frame_of(simulated, use.name if module else "", is_roce=is_roce)
        what = f"flow {flow} {name} {packet['seq']}" if flow >= 0 else "PFC"
        exact = f"{entry.start_ps} ps, {packet['size_bytes']} bytes"
        return data, length, ", ".join([what, exact, *entry.remarks])


def _key(packet: dict[str, int]) -> tuple[int, int, int]:
    """Return what tells packets at a port apart; a trimmed packet is the data that it was."""
    kind = DATA if packet["kind"] == TRIMMED else packet["kind"]
    return packet["flow"], kind, packet["seq"]
