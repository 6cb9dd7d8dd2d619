"""Classes share a link by turns, each as many bytes a turn as any other.

Say here what the discipline does, in the words of its paper, and cite it with the section. The
first line is what `netsim list` and `netsim show` print. This one is deficit round robin:
Shreedhar and Varghese, "Efficient fair queueing using deficit round robin", SIGCOMM 1995.
"""

from netsim.errors import InputError
from netsim.params import Param
from netsim.queue import DROP, class_of, peek, queue_length
from netsim.units import format_bytes

# --- What a user may set: keys of [fabric] in an experiment, --set fabric.quantum_bytes=2pkt ------
# Units: queue (a size, also in packets: "35pkt"; handlers get bytes), bytes, time (picoseconds),
# rate (bit/s), count, fraction, ratio, bool, choice.
PARAMS = [
    Param("queue_bytes", "queue", "100pkt", "per port and class"),
    Param("quantum_bytes", "queue", "1pkt", "what a class may send in its turn"),
]
# Sets of values with a name: queue_discipline = "./my_queue.py:coarse"
PRESETS = {"coarse": {"quantum_bytes": "8pkt"}}

# --- State: all zero at first. A bare name is a whole number (int64), ("name", float) is not ------
PORT_STATE = ("turn",)  # one record for each output port: the class whose turn it is
CLASS_STATE = ("deficit_bytes",)  # and one for each of its classes: what it may still send
# CLASSES = 2 for a discipline that needs so many; without it n_traffic_classes of [fabric] decides.

MAX_CLASSES = 8


def check(params, fabric, packets):
    """What is wrong between values that are each right; before a run, in plain Python."""
    for key in ("queue_bytes", "quantum_bytes"):
        if params[key] < packets.data_bytes:
            least = format_bytes(packets.data_bytes)
            yield InputError("less than a packet", key=key, hint=f"at least {least}")


# --- Handlers: the engine calls and compiles them ------------------------------------------------


def admit(env, now, port, pkt):
    """A packet is to leave by this port: in which class is it to wait? Or is it dropped?"""
    cls = int(pkt.prio)
    if class_of(env, port, cls).bytes + int(pkt.size_bytes) > env.par.queue_bytes:
        return DROP
    return cls


def choose_class(env, now, port):
    """The port is free, and packets wait in several classes: which is served?

    The class whose turn it is, while it may send its next packet; then the turn goes on.
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
    """A packet of a class begins to be sent. A class in which nothing waits saves nothing up."""
    left = queue.deficit_bytes - int(pkt.size_bytes)
    queue.deficit_bytes = max(0, left) if queue_length(queue) > 0 else 0


# Functions of one's own are compiled as well; the engine calls the ones it knows the names of.


def is_open(port, cls):
    """Does a packet of this class wait, and has the neighbor not paused it?"""
    return (port.backlog & ~port.paused) >> cls & 1 == 1
