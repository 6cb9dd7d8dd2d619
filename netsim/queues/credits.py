"""Credits: a port sends a packet only if the next switch has announced room for it.

Each ingress port of a switch has a buffer per class, in units. Its neighbor counts the units that
it has sent. The switch reports how many it has released, in 8-byte messages sent alongside the
packets. A packet may be sent if its units and the unreleased ones fit in the buffer. So nothing is
dropped, and classes (virtual lanes, virtual channels) do not block each other. Hosts obey credits,
and free received packets immediately. The credits of a packet that a link loses return immediately.

InfiniBand: units of 64 bytes, an update at least every 4.096 us (InfiniBand Architecture, 7.9;
Mellanox, ib_model, `ibuf.cc`). Ultra Ethernet's CBFC: consumed - freed + cost <= limit, units of 32
to 2,048 bytes and an overhead per packet (UEC 1.0, 5.2).
"""

from netsim.errors import InputError
from netsim.params import Param
from netsim.queue import class_of, send_message, set_timer, timer_of
from netsim.units import format_bytes

PARAMS = [
    Param("buffer_bytes", "buffer", "128KiB", "per ingress port and class"),
    Param("unit_bytes", "bytes", "64B", "of credit", minimum="1B", maximum="2KiB"),
    Param("overhead_bytes", "bytes", "0B", "that a packet takes beyond its size", maximum="127B"),
    Param("update_bytes", "buffer", None,
          "released bytes that trigger a credit update; auto: an eighth of the buffer",
          none="auto"),
    Param("update_period", "time", "4.096us", "time until a smaller update", minimum="1ns",
          source="ib_model, obuf.cc"),
]  # fmt: skip
PRESETS = {"infiniband": {}, "uec": {"unit_bytes": "256B", "update_bytes": "4KiB"}}

COUPLED = True
PORT_TIMERS = 1
CLASS_STATE = ("spent", "freed", "released", "told")

UPDATE = 0


def check(params, fabric, packets):
    unit, buffer = params["unit_bytes"], params["buffer_bytes"]
    largest = cost_of(
        max(packets.data_bytes, packets.control_bytes), params["overhead_bytes"], unit
    )
    if buffer // unit < largest:
        message = f"{format_bytes(buffer)} is less than a packet"
        yield InputError(
            message, key="buffer_bytes", hint=f"at least {format_bytes(largest * unit)}"
        )


def cost_of(size, overhead, unit):
    return -(-(size + overhead) // unit)


def cost(par, size):
    return cost_of(size, par.overhead_bytes, par.unit_bytes)


def has_credit(par, queue, size):
    return queue.spent - queue.freed + cost(par, size) <= par.buffer_bytes // par.unit_bytes


def use_credit(par, queue, size):
    queue.spent += cost(par, size)


def return_credit(par, queue, size):
    queue.spent -= cost(par, size)


def on_message(par, queue, value):
    queue.freed = value


def admit(env, now, port, pkt):
    return int(pkt.prio)


def on_departure(env, now, port, cls, size):
    queue = class_of(env, port, cls)
    queue.released += cost(env.par, size)
    update = env.par.update_bytes
    if update < 0:
        update = env.par.buffer_bytes // 8
    if queue.released - queue.told >= max(1, update // env.par.unit_bytes):
        tell(env, now, port, cls, queue)
    elif timer_of(port, UPDATE) == 0:
        set_timer(env, now, port, UPDATE, now + env.par.update_period)


def tell(env, now, port, cls, queue):
    """Send the neighbor its credit."""
    send_message(env, now, port, cls, queue.released)
    queue.told = queue.released


def on_port_timer(env, now, port, k):
    for cls in range(env.par.n_classes):
        queue = class_of(env, port, cls)
        if queue.told < queue.released:
            tell(env, now, port, cls, queue)
