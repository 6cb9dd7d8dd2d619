"""Drop-tail: drops packets that do not fit their class's queue.

One FIFO per class, all of the same size. The lowest-numbered class with a waiting packet is served
first.
"""

from netsim.errors import InputError
from netsim.params import Param
from netsim.queue import DROP, class_of, queue_length
from netsim.units import format_bytes

QUEUE_PACKETS = Param(
    "queue_packets", "count", None, "also drop when this many packets wait, of any size",
    source="Linux's pfifo counts packets", minimum=1,
)  # fmt: skip

PARAMS = [Param("queue_bytes", "queue", "100pkt", "per port and class"), QUEUE_PACKETS]


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
    queue = class_of(env, port, cls)
    if queue.bytes + int(pkt.size_bytes) > env.par.queue_bytes:
        return DROP
    if queue_length(queue) == env.par.queue_packets:
        return DROP
    return cls
