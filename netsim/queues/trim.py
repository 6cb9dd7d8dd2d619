"""Packet trimming: of a data packet that does not fit, the header goes on.

Class 0 has headers and control packets, class 1 data. While both wait, `header_ratio` packets of
class 0 are served for each of class 1. Handley et al., "Re-architecting datacenter networks and
stacks for low latency and high performance" (NDP), SIGCOMM 2017, section 3.1.
"""

from netsim.errors import InputError
from netsim.params import Param
from netsim.units import format_bytes

CLASSES = 2

PARAMS = [
    Param("queue_bytes", "queue", "8pkt", "data, per port"),
    Param("header_queue_bytes", "queue", "100pkt", "headers and control packets, per port"),
    Param(
        "header_ratio", "count", 10, "headers served for each data packet if both wait", minimum=1
    ),
]


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
