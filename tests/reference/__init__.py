"""A slow and obvious packet-level simulator, to hold the engine against.

It follows ``netsim/engine/MODEL.md`` and shares no code with netsim. ``README.md`` here lists how
it reads the places where that text leaves room.
"""

from .model import Cable, Case, Counters, Departure, FlowResult, Outcome
from .simulator import simulate

__all__ = ["Cable", "Case", "Counters", "Departure", "FlowResult", "Outcome", "simulate"]
