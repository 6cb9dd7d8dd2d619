"""Packet trimming: of a data packet that does not fit, the header goes on.

Class 0 has headers and control packets, class 1 data. While both wait, `header_ratio` packets of
class 0 are served for each of class 1. Handley et al., "Re-architecting datacenter networks and
stacks for low latency and high performance" (NDP), SIGCOMM 2017, section 3.1.
"""

from netsim.errors import InputError
from netsim.params import Param
from netsim.queue import (
    ACK,
    DROP,
    PURPOSE_TRIM,
    class_of,
    cut,
    drop,
    peek,
    push,
    rand32,
    take_last,
    waiting,
)
from netsim.units import format_bytes

CLASSES = 2

PARAMS = [
    Param("queue_bytes", "queue", "8pkt", "data, per port"),
    Param("header_queue_bytes", "queue", "100pkt", "headers and control packets, per port"),
    Param(
        "header_ratio", "count", 10, "headers served for each data packet if both wait", minimum=1
    ),
]

PORT_STATE = ("header_run", "coins")

HEADERS, BULK = 0, 1


def check(params, fabric, packets):
    header, least = packets.control_bytes, packets.header_bytes + 1
    if header > least:  # the smallest data packet carries one byte
        yield InputError(
            f"a trimmed header of {format_bytes(header)} is larger than "
            f"a packet of one byte, {format_bytes(least)}",
            key="packets.control_bytes",
            hint="at most header_bytes + 1B",
        )
    for key, size in (("queue_bytes", packets.data_bytes), ("header_queue_bytes", header)):
        if params[key] < size:
            yield InputError(
                f"{format_bytes(params[key])} does not hold one packet",
                key=key,
                hint=f"at least {format_bytes(size)}",
            )


def admit(env, now, port, pkt):
    if int(pkt.prio) == BULK:
        bulk = class_of(env, port, BULK)
        size = int(pkt.size_bytes)
        if bulk.bytes + size <= env.par.queue_bytes or makes_room(env, now, port, bulk, size):
            return BULK
        if to_sender(pkt):
            return DROP
        cut(env, now, port, pkt)
        pkt.prio = HEADERS
    if header_fits(env, port, pkt):
        return HEADERS
    return DROP


def to_sender(pkt):
    """Is it a control packet, of which there is no payload to cut?"""
    return int(pkt.kind) >= ACK


def header_fits(env, port, pkt):
    """Is there room for a header or a control packet?"""
    held = class_of(env, port, HEADERS).bytes
    return held + int(pkt.size_bytes) <= env.par.header_queue_bytes


def makes_room(env, now, port, bulk, size):
    """By a coin, the last packet that waits is trimmed in place of one of `size` that arrives.

    Without the coin one of several synchronised senders would lose always.
    """
    coin = rand32(env.par.seed, PURPOSE_TRIM, int(port.number), port.coins) & 1
    port.coins += 1
    n = waiting(bulk)
    if coin == 0 or n == 0:
        return False
    tail = peek(env, bulk, n - 1)
    if to_sender(tail) or bulk.bytes - int(tail.size_bytes) + size > env.par.queue_bytes:
        return False
    last = take_last(env, port, bulk)
    cut(env, now, port, last)
    last.prio = HEADERS
    if header_fits(env, port, last):
        push(env, now, port, HEADERS, last)
    else:
        drop(env, now, port, last)
    return True


def choose(env, now, port):
    # Both classes wait, or nothing would be asked.
    if port.header_run < env.par.header_ratio:
        port.header_run += 1
        return HEADERS
    return BULK


def on_send(env, now, port, queue, pkt):
    if int(pkt.prio) == BULK:
        port.header_run = 0
