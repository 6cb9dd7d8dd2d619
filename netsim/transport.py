"""What a transport is made of: the names that a protocol file imports.

A transport is one plain Python file with functions ("handlers") that the engine
calls and compiles; nothing in it is decorated. The handlers see records, whose
fields they read and assign (``tx.next_seq += 1``), and ``env``, through which
they send control packets and set timers with the functions of this module.

=====================================  =============================================================
handler                                called
=====================================  =============================================================
``setup(env, tx, rx)``                 once a flow, before the run; only it sees both sides
``on_start(env, now, tx)``             at the flow's start
``ready(env, now, tx)``                the NIC is free: returns ``now``, a later time or ``BLOCKED``
``fill(env, now, tx, pkt)``            a packet is built: sets ``pkt.seq``, and more if it likes
``on_data(env, now, rx, pkt)``         a data packet arrived
``on_trimmed(env, now, rx, pkt)``      the header of one arrived, its payload was cut off
``on_request(env, now, rx, pkt)``      another packet for the receiver (kinds 2 to 7)
``on_control(env, now, tx, pkt)``      a control packet for the sender (kinds 8 to 14)
``on_timer(env, now, tx, k)``          the sender's timer ``k`` fired
``on_rx_timer(env, now, rx, k)``       the receiver's timer ``k`` fired
``on_host_timer(env, now, k)``         the host's timer ``k`` fired
``rank(env, tx)``                      the flow joins the list: the smallest rank is served first
``on_forward(now, pkt, port, queue)``  a data packet's transmission starts (telemetry)
=====================================  =============================================================

Only ``ready`` and ``fill`` are required. ``env.par`` holds the parameters declared
in ``PARAMS`` in engine units (ps, bytes, bit/s) and ``payload_bytes``,
``header_bytes``, ``control_bytes`` and ``seed``; ``env.host`` is the host.
All times are picoseconds.
"""

from __future__ import annotations

from netsim.engine.kernels.layout import INF
from netsim.engine.kernels.packets import ACK, CNP, DATA, ECN_CE, ECN_ECHO, NACK, PULL, TRIMMED
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
    full_bytes,
    host_timer_armed,
    or_default,
    payload_of,
    send,
    set_host_timer,
    set_timer,
    wire_bytes,
)
from netsim.model.arithmetic import below, mix, rand32, serialisation_ps

__all__ = [
    "ACK",
    "BLOCKED",
    "CNP",
    "DATA",
    "ECN_CE",
    "ECN_ECHO",
    "INF",
    "NACK",
    "PULL",
    "TRIMMED",
    "armed",
    "below",
    "bit_clear",
    "bit_first",
    "bit_first_clear",
    "bit_get",
    "bit_set",
    "cancel_timer",
    "deliver",
    "finish",
    "full_bytes",
    "host_timer_armed",
    "mix",
    "or_default",
    "payload_of",
    "rand32",
    "send",
    "serialisation_ps",
    "set_host_timer",
    "set_timer",
    "wire_bytes",
]
