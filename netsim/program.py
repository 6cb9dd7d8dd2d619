"""Names that a program (a traffic pattern with handlers) imports; see netsim/traffic/README.md.

All times are in picoseconds.
"""

from __future__ import annotations

from netsim.engine.kernels.layout import INF
from netsim.engine.kernels.tasks import (
    armed,
    cancel_timer,
    flow_bytes,
    log_row,
    peer_host,
    set_duration,
    set_size,
    set_timer,
    set_words,
    start,
    task_at,
    word_of,
)
from netsim.model.arithmetic import below, mix, rand32, serialization_ps
from netsim.model.workload import COMPUTE, JOIN, RECEIVE, SEND

__all__ = [
    "COMPUTE", "INF", "JOIN", "RECEIVE", "SEND", "armed", "below", "cancel_timer", "flow_bytes",
    "log_row", "mix", "peer_host", "rand32", "serialization_ps", "set_duration", "set_size",
    "set_timer", "set_words", "start", "task_at", "word_of",
]  # fmt: skip
