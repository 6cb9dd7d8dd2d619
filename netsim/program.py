"""Names that a traffic pattern with handlers (a program) imports.

netsim/traffic/README.md is the guide: handlers, state, the log. All times are in picoseconds.
"""

from __future__ import annotations

from netsim.engine.kernels.layout import INF
from netsim.engine.kernels.program_services import (
    armed,
    cancel_timer,
    note,
    peer_of,
    set_duration,
    set_size,
    set_timer,
    size_of,
    start,
    task_of,
)
from netsim.model.arithmetic import below, mix, rand32, serialization_ps
from netsim.model.tasks import COMPUTE, JOIN, RECEIVE, SEND
from netsim.renames import former

__all__ = [
    "COMPUTE",
    "INF",
    "JOIN",
    "RECEIVE",
    "SEND",
    "armed",
    "below",
    "cancel_timer",
    "mix",
    "note",
    "peer_of",
    "rand32",
    "serialization_ps",
    "set_duration",
    "set_size",
    "set_timer",
    "size_of",
    "start",
    "task_of",
]

__getattr__ = former(__name__)
