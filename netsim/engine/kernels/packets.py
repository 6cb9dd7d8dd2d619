"""Packet kinds and limits that transports and the engine share."""

from __future__ import annotations

DATA, TRIMMED = 0, 1
ACK, NACK, PULL, CNP = 8, 9, 10, 11
FIRST_CONTROL = 8  # kinds below go to the flow's receiver, the others to its sender
PFC = 15

ECN_CE = 1
ECN_ECHO = 2
TRIMMED_AT_LAST_HOP = 4

CONTROL_BURST = 8  # most control packets that one handler call may send
