"""Packet trimming: cuts data packets that do not fit to their headers.

Class 0 has headers and control packets, class 1 data. While both wait, `header_ratio` packets of
class 0 are served per packet of class 1. Further classes (`n_traffic_classes`) are for traffic
without trimming: it has lower priority than both and is dropped if it does not fit. Handley et al.,
"Re-architecting datacenter networks and stacks for low latency and high performance" (NDP), SIGCOMM
2017, section 3.1.
"""

from netsim.errors import InputError
from netsim.params import Param
from netsim.queue import (
    ACK,
    DROP,
    PURPOSE_TRIM,
    class_of,
    drop,
    enqueue,
    peek,
    pop_tail,
    queue_length,
    rand32,
    trim,
    trim_to,
)
from netsim.units import format_bytes

CLASSES = (2, 4)

PARAMS = [
    Param("queue_bytes", "queue", "8pkt", "data, per port"),
    Param("header_queue_bytes", "queue", "100pkt", "headers and control packets, per port"),
    Param("header_ratio", "count", 10, "headers per data packet if both are queued", minimum=1),
    Param("lower_queue_bytes", "queue", "1000pkt", "each lower-priority class, per port"),
    Param(
        "trim_bytes",
        "bytes",
        None,
        "size of a trimmed packet; default: as a control packet",
        none="control",
        minimum="24B",
        source="Ultra Ethernet 1.0: at least 24 bytes over UDP",
    ),
]

PORT_STATE = ("header_run", "coins")

HEADERS, BULK = 0, 1


def check(params, fabric, packets):
    header, least = packets.control_bytes, packets.header_bytes + 1
    if params["trim_bytes"] is None and header > least:  # the smallest data packet carries one byte
        yield InputError(
            f"a trimmed header of {format_bytes(header)} exceeds "
            f"a packet with one byte, {format_bytes(least)}",
            key="packets.control_bytes",
            hint="at most header_bytes + 1B",
        )
    full = packets.data_bytes
    header = max(header, params["trim_bytes"] or 0)
    sizes = {"queue_bytes": full, "header_queue_bytes": header, "lower_queue_bytes": full}
    for key, size in sizes.items():
        if params[key] < size:
            yield InputError(
                f"{format_bytes(params[key])} is less than one packet",
                key=key,
                hint=f"at least {format_bytes(size)}",
                code="out_of_range",
            )


def admit(env, now, port, pkt):
    cls = int(pkt.prio)
    if cls > BULK:
        return cls if fits(env, port, cls, pkt, env.par.lower_queue_bytes) else DROP
    if cls == BULK:
        if fits(env, port, BULK, pkt, env.par.queue_bytes):
            return BULK
        if takes_the_last_place(env, port, pkt):
            last = cut_the_last(env, now, port)
            if fits(env, port, HEADERS, last, env.par.header_queue_bytes):
                enqueue(env, now, port, HEADERS, last)
            else:
                drop(env, now, port, last)
            return BULK
        if int(pkt.kind) >= ACK:  # there is no payload to trim
            return DROP
        cut(env, now, port, pkt)
    return HEADERS if fits(env, port, HEADERS, pkt, env.par.header_queue_bytes) else DROP


def fits(env, port, cls, pkt, most_bytes):
    """Return whether a packet fits a class."""
    return class_of(env, port, cls).bytes + int(pkt.size_bytes) <= most_bytes


def cut(env, now, port, pkt):
    """Trim a packet, which becomes a header."""
    if env.par.trim_bytes < 0:
        trim(env, now, port, pkt)
    else:
        trim_to(env, now, port, pkt, env.par.trim_bytes)
    pkt.prio = HEADERS


def takes_the_last_place(env, port, pkt):
    """Flip a coin; on heads, the last waiting packet is to be trimmed instead of the arriving one.
    Otherwise one of several synchronized senders would always lose."""
    bulk = class_of(env, port, BULK)
    coin = rand32(env.par.seed, PURPOSE_TRIM, int(port.number), port.coins) & 1
    port.coins += 1
    n = queue_length(bulk)
    if coin == 0 or n == 0:
        return False
    tail = peek(env, bulk, n - 1)
    most_bytes = env.par.queue_bytes + int(tail.size_bytes)
    return int(tail.kind) < ACK and fits(env, port, BULK, pkt, most_bytes)


def cut_the_last(env, now, port):
    """Remove the last waiting data packet, trim it and return it."""
    last = pop_tail(env, port, class_of(env, port, BULK))
    cut(env, now, port, last)
    return last


def choose_class(env, now, port):
    open_classes = port.backlog & ~port.paused
    cls = HEADERS
    while (open_classes >> cls) & 1 == 0:
        cls += 1
    if cls > HEADERS or (open_classes >> BULK) & 1 == 0:
        return cls
    if port.header_run < env.par.header_ratio:
        port.header_run += 1
        return HEADERS
    return BULK


def on_send(env, now, port, queue, pkt):
    if int(pkt.prio) == BULK:
        port.header_run = 0
