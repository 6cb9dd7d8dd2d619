"""Names that a queue discipline imports; see netsim/queues/README.md. Times are in picoseconds."""

from __future__ import annotations

from netsim.engine.kernels.layout import INF
from netsim.engine.kernels.made_packets import bounce, emit, source_of
from netsim.engine.kernels.packets import (
    ACCEPT,
    ACK,
    CNP,
    DATA,
    DROP,
    ECN_CE,
    ECN_ECHO,
    NACK,
    NO_CLASS,
    PULL,
    TRIMMED,
)
from netsim.engine.kernels.ports import (
    class_of,
    drop,
    drop_head,
    enqueue,
    is_pausing,
    mark,
    n_ports,
    pause,
    peek,
    pop_tail,
    port_at,
    queue_length,
    remove,
    repeat_pauses,
    resume,
    send_message,
    set_paused,
    set_timer,
    timer_of,
    trim,
    trim_to,
    wait_until,
)
from netsim.model.arithmetic import PURPOSE_TRIM, below, mix, rand32, serialization_ps

__all__ = [
    "ACCEPT", "ACK", "CNP", "DATA", "DROP", "ECN_CE", "ECN_ECHO", "INF",
    "NACK", "NO_CLASS", "PULL", "PURPOSE_TRIM", "TRIMMED", "below", "bounce", "class_of", "drop",
    "drop_head", "emit", "enqueue", "is_pausing", "mark", "mix", "n_ports", "pause", "peek",
    "pop_tail", "port_at", "queue_length", "rand32", "remove", "repeat_pauses", "resume",
    "send_message", "serialization_ps", "set_paused", "set_timer", "source_of", "timer_of", "trim",
    "trim_to", "wait_until",
]  # fmt: skip
