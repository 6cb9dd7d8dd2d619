"""A packet that does not fit into its class's queue is dropped.

One FIFO for each class, every one of them as long; the lowest-numbered class that has a packet
waiting is served first.
"""

from netsim.errors import InputError
from netsim.params import Param
from netsim.queue import DROP, class_of
from netsim.units import format_bytes

PARAMS = [Param("queue_bytes", "queue", "100pkt", "per port and class")]


def check(params, fabric, packets):
    if params["queue_bytes"] < packets.data_bytes:
        yield InputError(
            f"{format_bytes(params['queue_bytes'])} does not hold one packet",
            key="queue_bytes",
            hint=f"at least {format_bytes(packets.data_bytes)}",
            code="out_of_range",
        )


def admit(env, now, port, pkt):
    cls = int(pkt.prio)
    if class_of(env, port, cls).bytes + int(pkt.size_bytes) > env.par.queue_bytes:
        return DROP
    return cls
