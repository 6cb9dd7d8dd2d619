"""Capture files: pcapng (https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03.html).

All numbers are little endian. Blocks and options are padded to four bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import BinaryIO

SECTION, INTERFACE, PACKET, STATISTICS = 0x0A0D0D0A, 1, 6, 5
"""Types of blocks."""

BYTE_ORDER = 0x1A2B3C4D
ETHERNET = 1

COMMENT, APPLICATION, IF_NAME, IF_SPEED, IF_RESOLUTION = 1, 4, 2, 8, 9
OUTBOUND, FLAGS, SENT, DROPPED = 2, 2, 4, 5
"""Options: of any block, of sections, of interfaces, of packets (FLAGS) and of statistics (SENT and
DROPPED count packets)."""

NANOSECONDS = 9
PS = 1_000


def _options(options: Iterable[tuple[int, bytes]]) -> bytes:
    found = b"".join(struct.pack("<HH", code, len(data)) + _padded(data) for code, data in options)
    return found + struct.pack("<HH", 0, 0)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def _block(kind: int, body: bytes) -> bytes:
    length = len(body) + 12
    return struct.pack("<II", kind, length) + body + struct.pack("<I", length)


class PcapngWriter:
    """Writes packets of several interfaces. Times are in ps; the file has whole nanoseconds."""

    def __init__(self, file: BinaryIO, application: str) -> None:
        self.file = file
        options = _options([(APPLICATION, application.encode())])
        self.file.write(_block(SECTION, struct.pack("<IHHq", BYTE_ORDER, 1, 0, -1) + options))
        self.interfaces: dict[str, int] = {}

    def interface(self, name: str, rate_bps: int) -> int:
        """Return the number of an interface, which is added if it is new."""
        if name not in self.interfaces:
            self.interfaces[name] = len(self.interfaces)
            options = [(IF_NAME, name.encode()), (IF_SPEED, struct.pack("<Q", rate_bps))]
            options.append((IF_RESOLUTION, bytes([NANOSECONDS])))
            body = struct.pack("<HHI", ETHERNET, 0, 0) + _options(options)
            self.file.write(_block(INTERFACE, body))
        return self.interfaces[name]

    def packet(self, interface: int, time_ps: int, frame: bytes, length: int, comment: str) -> None:
        """Write a packet of `length` bytes, of which `frame` are known."""
        time_ns = time_ps // PS
        head = struct.pack(
            "<IIIII", interface, time_ns >> 32, time_ns & 0xFFFFFFFF, len(frame), length
        )
        options = [(COMMENT, comment.encode()), (FLAGS, struct.pack("<I", OUTBOUND))]
        self.file.write(_block(PACKET, head + _padded(frame) + _options(options)))

    def statistics(self, counts: Mapping[int, tuple[int, int]], time_ps: int) -> None:
        """Write how many packets each interface sent and dropped."""
        time_ns = time_ps // PS
        for interface, numbers in counts.items():
            head = struct.pack("<III", interface, time_ns >> 32, time_ns & 0xFFFFFFFF)
            options = [
                (code, struct.pack("<Q", count))
                for code, count in zip((SENT, DROPPED), numbers, strict=True)
            ]
            self.file.write(_block(STATISTICS, head + _options(options)))
