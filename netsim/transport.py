"""Names that a transport imports; see transports/README.md. Times are in picoseconds."""

from __future__ import annotations

from netsim.engine.kernels.layout import INF
from netsim.engine.kernels.packets import (
    ACK,
    CNP,
    DATA,
    ECN_CE,
    ECN_ECHO,
    NACK,
    PULL,
    TRIMMED,
    TRIMMED_AT_LAST_HOP,
)
from netsim.engine.kernels.services import (
    BLOCKED,
    armed,
    bit_clear,
    bit_first,
    bit_first_clear,
    bit_get,
    bit_set,
    cancel_timer,
    deliver,
    finish,
    flow_word,
    full_packet_bytes,
    host_timer_armed,
    or_default,
    packet_payload_bytes,
    port_pair,
    port_pairs_in_use,
    send,
    set_host_timer,
    set_timer,
    wire_bytes,
)
from netsim.model.arithmetic import below, mix, permuted, rand32, serialization_ps

__all__ = [
    "ACK", "BLOCKED", "CNP", "DATA", "ECN_CE", "ECN_ECHO", "INF", "NACK", "PULL", "TRIMMED",
    "TRIMMED_AT_LAST_HOP", "armed", "below", "bit_clear", "bit_first", "bit_first_clear",
    "bit_get", "bit_set", "cancel_timer", "deliver", "finish", "flow_word", "full_packet_bytes",
    "host_timer_armed", "mix", "or_default", "packet_payload_bytes", "permuted", "port_pair",
    "port_pairs_in_use", "rand32", "send", "serialization_ps", "set_host_timer", "set_timer",
    "wire_bytes",
]  # fmt: skip
