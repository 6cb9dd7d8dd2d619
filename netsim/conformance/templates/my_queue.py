"""Deficit round robin: classes take turns, each with the same bytes per turn.

Describe the discipline here in the terms of its paper, and cite it with the section. `netsim list`
and `netsim show` print the first line. This one is Shreedhar and Varghese, "Efficient fair queueing
using deficit round robin", SIGCOMM 1995.
"""

from netsim.errors import InputError
from netsim.params import Param
from netsim.queue import DROP, class_of, peek, queue_length
from netsim.units import format_bytes

# --- Parameters: keys of [fabric] in an experiment, --set fabric.quantum_bytes=2pkt --------------
# Units: queue (a size, also in packets: "35pkt"; handlers get bytes), bytes, time (picoseconds),
# rate (bit/s), count, fraction, ratio, bool, choice.
PARAMS = [
    Param("queue_bytes", "queue", "100pkt", "per port and class"),
    Param("quantum_bytes", "queue", "1pkt", "bytes that a class may send per turn"),
]
# Named sets of values: queue_discipline = "./my_queue.py:coarse"
PRESETS = {"coarse": {"quantum_bytes": "8pkt"}}

# --- State, initially zero. A bare name is an int64, ("name", float) a float64 --------------------
PORT_STATE = ("turn",)  # per output port: the class whose turn it is
CLASS_STATE = ("deficit_bytes",)  # per class of a port: bytes that it may still send
# CLASSES = 2 requires two classes; without it, n_traffic_classes of [fabric] decides.

MAX_CLASSES = 8


def check(params, fabric, packets):
    """Yield errors between values, before a run, in plain Python."""
    for key in ("queue_bytes", "quantum_bytes"):
        if params[key] < packets.data_bytes:
            least = format_bytes(packets.data_bytes)
            yield InputError("less than a packet", key=key, hint=f"at least {least}")


# --- Handlers: the engine calls and compiles them ------------------------------------------------


def admit(env, now, port, pkt):
    """Return the class in which a packet waits at this output port, or DROP."""
    cls = int(pkt.prio)
    if class_of(env, port, cls).bytes + int(pkt.size_bytes) > env.par.queue_bytes:
        return DROP
    return cls


def choose_class(env, now, port):
    """Return the class to serve when the port is free and several are open.

    The current class continues while its next packet fits its deficit; then the next class has its
    turn.
    """
    while True:
        if is_open(port, port.turn):
            queue = class_of(env, port, port.turn)
            if int(peek(env, queue, 0).size_bytes) <= queue.deficit_bytes:
                return port.turn
        port.turn = (port.turn + 1) % MAX_CLASSES
        if is_open(port, port.turn):
            class_of(env, port, port.turn).deficit_bytes += env.par.quantum_bytes


def on_send(env, now, port, queue, pkt):
    """Charge the packet to its class. An empty class loses its deficit."""
    left = queue.deficit_bytes - int(pkt.size_bytes)
    queue.deficit_bytes = max(0, left) if queue_length(queue) > 0 else 0


# Your own functions are compiled, too; the engine calls only handlers.


def is_open(port, cls):
    """Return whether a packet of this class waits and the neighbor has not paused the class."""
    return (port.backlog & ~port.paused) >> cls & 1 == 1
