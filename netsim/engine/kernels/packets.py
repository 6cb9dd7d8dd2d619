"""Packet kinds, limits and results of handlers that plugins and the engine share."""

from __future__ import annotations

DATA, TRIMMED = 0, 1
ACK, NACK, PULL, CNP = 8, 9, 10, 11
FIRST_CONTROL = 8  # kinds below go to the flow's receiver, the others to its sender
PFC, PAUSE_END, MESSAGE = (
    15,
    16,
    17,
)  # of one link only: a PFC frame, the end of its pauses, a message
MESSAGE_BYTES = 8

ECN_CE = 1
ECN_ECHO = 2
TRIMMED_AT_LAST_HOP = 4
RETURNED = 8

CONTROL_BURST = 8  # most control packets that one handler call may send

ACCEPT, DROP, NO_CLASS = 0, -1, -1
"""Return values of queue disciplines' handlers: accept the packet, drop it, or send nothing now."""
