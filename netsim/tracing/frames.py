"""Ethernet frames for captures: RoCEv2, PFC and UDP headers with what a simulated packet knows.

RoCEv2: InfiniBand Architecture Specification, volume 1, release 1.3, chapter 9 (BTH, RETH, AETH),
and annexes A16 and A17 (RoCEv2, CNP). PFC: IEEE 802.1Q, annex on 802.1Qbb.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from netsim.engine.kernels.packets import ACK, CNP, DATA, NACK, PFC

IPV4, MAC_CONTROL, UDP = 0x0800, 0x8808, 17
PFC_ADDRESS = bytes.fromhex("0180c2000001")
PFC_OPCODE, PAUSED = 0x0101, 0xFFFF

ROCE_PORT = 4791
UDP_PORT = 47910
"""Destination ports; the second is netsim's, not assigned by IANA, for other transports' text."""

WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_ONLY, ACKNOWLEDGE = 0x06, 0x07, 0x08, 0x0A, 0x11
CONGESTION = 0x81
"""Operation codes of the base transport header, reliable connection; and a CNP's."""

BECN, ACK_REQUEST, DEFAULT_KEY = 1 << 30, 1 << 31, 0xFFFF
OK, OUT_OF_SEQUENCE = 0x00, 0x60
"""AETH: acknowledged; a gap."""

ICRC = b"\0" * 4
CAPABLE, EXPERIENCED = 2, 3
FIRST_PAIR = 2
"""Queue pair of flow 0: pairs 0 and 1 are for management."""

SMALLEST = 60

WHOLE = 1 << 16
"""No limit: dissectors of RoCEv2 call a packet that was cut off malformed."""


@dataclass(frozen=True)
class SimulatedPacket:
    """What a frame is made of. `name` is the kind; `src` and `dst` are hosts, of which control
    packets swap those of the flow; `last` is the number of the flow's last data packet."""

    kind: int
    name: str
    flow: int
    seq: int
    aux: int
    src: int
    dst: int
    size_bytes: int
    ecn: int
    entropy: int
    hops: int
    last: int = 0


def frame_of(packet: SimulatedPacket, transport: str, *, is_roce: bool) -> tuple[bytes, int]:
    """Return the known bytes of a packet's frame, and its length on the wire, which is at least
    that of its headers."""
    if packet.kind == PFC:
        found = _pfc(packet)
    elif is_roce and packet.kind in (DATA, ACK, NACK, CNP):
        found = _ip(packet, ROCE_PORT, *_roce(packet), WHOLE).ljust(packet.size_bytes, b"\0")
    else:
        text = f"netsim {transport} {packet.name} flow={packet.flow} seq={packet.seq} "
        found = _ip(packet, UDP_PORT, f"{text}aux={packet.aux} ecn={packet.ecn}".encode(), 0, 0)
    return found, max(packet.size_bytes, len(found))


def _mac(node: int) -> bytes:
    """Return a locally administered address."""
    return b"\x02\x00" + struct.pack(">I", node)


def _address(host: int) -> bytes:
    return struct.pack(">I", 10 << 24 | host + 1 & 0xFFFFFF)


def _pfc(packet: SimulatedPacket) -> bytes:
    """Return a PFC frame: classes in `aux` are paused, others resumed."""
    quanta = [PAUSED if packet.aux >> cls & 1 else 0 for cls in range(8)]
    body = struct.pack(">HHH8H", MAC_CONTROL, PFC_OPCODE, 0xFF, *quanta)
    return (PFC_ADDRESS + _mac(packet.src) + body).ljust(SMALLEST, b"\0")


def _roce(packet: SimulatedPacket) -> tuple[bytes, int]:
    """Return the headers after UDP's, and the bytes of the trailer."""
    flags = 0
    if packet.kind == DATA:
        if packet.last == 0:
            opcode = WRITE_ONLY
        elif packet.seq == 0:
            opcode = WRITE_FIRST
        else:
            opcode = WRITE_LAST if packet.seq == packet.last else WRITE_MIDDLE
        flags = ACK_REQUEST if packet.seq == packet.last else 0
    else:
        opcode = CONGESTION if packet.kind == CNP else ACKNOWLEDGE
    pair = packet.flow + FIRST_PAIR & 0xFFFFFF | (BECN if packet.kind == CNP else 0)
    number = packet.seq & 0xFFFFFF | flags
    head = struct.pack(">BBHII", opcode, 0, DEFAULT_KEY, pair, number)
    if opcode in (WRITE_FIRST, WRITE_ONLY):
        head += struct.pack(">QII", 0, packet.flow & 0xFFFFFFFF, 0)
    elif opcode == ACKNOWLEDGE:
        syndrome = OUT_OF_SEQUENCE if packet.kind == NACK else OK
        head += struct.pack(">I", syndrome << 24 | packet.seq & 0xFFFFFF)
    elif opcode == CONGESTION:
        head += b"\0" * 16
    return (head, len(ICRC)) if packet.kind == DATA else (head + ICRC, 0)


def _ip(packet: SimulatedPacket, port: int, content: bytes, trailer: int, most: int) -> bytes:
    """Return the Ethernet, IPv4 and UDP headers, the content of a packet, and at most `most` bytes
    of zeros for the rest."""
    known = 14 + 20 + 8 + len(content) + trailer
    whole = max(packet.size_bytes if packet.kind == DATA else known, known) - 14
    ecn = EXPERIENCED if packet.ecn & 1 else CAPABLE if packet.kind == DATA else 0
    source = 0xC000 | (packet.flow * 2_654_435_761 + packet.entropy) & 0x3FFF
    head = bytearray(struct.pack(">BBHHHBBH", 0x45, ecn, whole, packet.seq & 0xFFFF, 0x4000,
                                 max(1, 64 - packet.hops), UDP, 0))  # fmt: skip
    head += _address(packet.src) + _address(packet.dst)
    total = sum(struct.unpack(">10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    head[10:12] = struct.pack(">H", ~(total + (total >> 16)) & 0xFFFF)
    udp = struct.pack(">HHHH", source, port, whole - 20, 0)
    ethernet = _mac(packet.dst) + _mac(packet.src) + struct.pack(">H", IPV4)
    known_bytes = ethernet + bytes(head) + udp + content
    rest = max(0, 14 + whole - len(known_bytes))
    return (known_bytes + b"\0" * min(rest, most)).ljust(SMALLEST, b"\0")
