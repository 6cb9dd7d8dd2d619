"""What a queue discipline is made of: the names that its file imports.

A queue discipline says what the ports of switches admit, drop and cut, which class they serve
next, and when. It is one plain Python file with functions ("handlers") that the engine calls and
compiles; nothing in it is decorated. The handlers see records, whose fields they read and assign
(``port.credit += 1``), and ``env``, through which they use the functions of this module.

===========================================  =======================================================
handler                                      called
===========================================  =======================================================
``on_arrival(env, now, port, pkt)``          a packet came in: returns ``ACCEPT`` or ``DROP``
``admit(env, now, port, pkt)``               it will leave by ``port``: returns a class, or ``DROP``
``choose(env, now, port)``                   the port is free: returns a class, or ``NOTHING``
``pick(env, now, port, queue)``              ``queue`` is served: returns the place of a packet
``on_send(env, now, port, queue, pkt)``      a packet of ``queue`` begins to be sent
``on_departure(env, now, port, cls, size)``  a packet that came in by ``port`` has been sent
``foresee(env, port, cls, size, change)``    what ``size`` bytes by ``port`` may lead to
===========================================  =======================================================

Only ``admit`` is required. ``env.par`` holds the parameters declared in ``PARAMS`` in engine units
(ps, bytes, bit/s) and ``payload_bytes``, ``header_bytes``, ``control_bytes`` and ``seed``.

What the discipline keeps it declares: ``PORT_STATE`` for each port, ``CLASS_STATE`` for each port
and class (``class_of``), ``PACKET_FIELDS`` in packets, each a tuple of fields, which begin as 0. A
port's state belongs to the port that a handler is given, since the ports of a switch are simulated
one after the other. A file that says ``COUPLED = True`` has them simulated in the time order of
the whole switch: then there may be ``SWITCH_STATE``, in ``env.switch``, and ``on_arrival`` and
``on_departure``, in which ``pause`` and ``resume`` act on the neighbour that the port is cabled
to. ``CLASSES = 2`` is for a discipline that needs so many classes, (2, 4) for one that needs two
and may have four; without it `n_classes` of [fabric] decides.

``on_arrival`` comes before the packet's route is chosen, ``admit`` after. A class is *open* if a
packet waits in it and it is not paused. ``choose`` must name an open class; it is asked if several
are open, or, of a discipline with ``wait_until``, which may say ``NOTHING``, if there is one;
without it the lowest-numbered one is served. ``pick`` counts from 0, the head, which is sent
without it. Random numbers are `rand32` of the parameter ``seed``, a purpose from 32 to 63,
``port.number`` and a count that the port keeps.
"""

from __future__ import annotations

from netsim.engine.kernels.layout import INF
from netsim.engine.kernels.packets import ACK, CNP, DATA, ECN_CE, ECN_ECHO, NACK, PULL, TRIMMED
from netsim.engine.kernels.queue_services import (
    ACCEPT,
    COUNTS,
    DROP,
    MAY_DROP,
    MAY_PAUSE,
    NOTHING,
    class_of,
    cut,
    drop,
    drop_head,
    mark,
    pause,
    pauses,
    peek,
    push,
    remove,
    resume,
    take_last,
    wait_until,
    waiting,
)
from netsim.model.arithmetic import PURPOSE_TRIM, below, mix, rand32, serialisation_ps

__all__ = [
    "ACCEPT",
    "ACK",
    "CNP",
    "COUNTS",
    "DATA",
    "DROP",
    "ECN_CE",
    "ECN_ECHO",
    "INF",
    "MAY_DROP",
    "MAY_PAUSE",
    "NACK",
    "NOTHING",
    "PULL",
    "PURPOSE_TRIM",
    "TRIMMED",
    "below",
    "class_of",
    "cut",
    "drop",
    "drop_head",
    "mark",
    "mix",
    "pause",
    "pauses",
    "peek",
    "push",
    "rand32",
    "remove",
    "resume",
    "serialisation_ps",
    "take_last",
    "wait_until",
    "waiting",
]
