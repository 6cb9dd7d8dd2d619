"""Packet kinds and limits that transports and the engine share."""

from __future__ import annotations

DATA, TRIMMED = 0, 1
ACK, NACK, PULL, CNP = 8, 9, 10, 11
FIRST_CONTROL = 8
"""Kinds below go to the flow's receiver, the others to its sender."""
PFC = 15

ECN_CE = 1
ECN_ECHO = 2

CONTROL_BURST = 8
"""Most control packets that one handler call may send."""
