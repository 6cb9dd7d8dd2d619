"""What closed forms know of a network: how long a message is on the wire."""

from __future__ import annotations

from dataclasses import dataclass

from netsim.limits import PS_BITS


@dataclass(frozen=True)
class Wire:
    """From one position to another, where nobody else is.

    Attributes:
        rate_bps: bits per second in each direction.
        delay_ps: from the moment in which a message has left until it is delivered: cables,
            switches, and its last packet once more for each switch on the way.
        payload_bytes, header_bytes: of a full packet; 0, 0: bytes go without headers.
        far: between nodes, for algorithms that tell near from far; None: this one.
    """

    rate_bps: int
    delay_ps: int = 0
    payload_bytes: int = 0
    header_bytes: int = 0
    far: Wire | None = None

    def send_ps(self, n_bytes: int) -> int:
        """How long it takes to hand over so many bytes; a message has one at least."""
        n_bytes = max(1, n_bytes)
        packets = -(-n_bytes // self.payload_bytes) if self.payload_bytes else 0
        on_wire = n_bytes + packets * self.header_bytes
        return on_wire * PS_BITS // self.rate_bps
