"""Drop-tail: drops packets that do not fit their class's queue.

One FIFO per class, all of the same size. The lowest-numbered class with a waiting packet is served
first.
"""

from netsim.errors import InputError
from netsim.params import Param
from netsim.queue import DROP, class_of
from netsim.units import format_bytes

PARAMS = [Param("queue_bytes", "queue", "100pkt", "per port and class")]


def check(params, fabric, packets):
    if params["queue_bytes"] < packets.data_bytes:
        yield InputError(
            f"{format_bytes(params['queue_bytes'])} is less than one packet",
            key="queue_bytes",
            hint=f"at least {format_bytes(packets.data_bytes)}",
            code="out_of_range",
        )


def admit(env, now, port, pkt):
    cls = int(pkt.prio)
    if class_of(env, port, cls).bytes + int(pkt.size_bytes) > env.par.queue_bytes:
        return DROP
    return cls
