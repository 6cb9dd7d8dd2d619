"""A slow and obvious packet-level simulator that the engine is compared with.

It follows ``netsim/engine/MODEL.md`` and shares no code with netsim. ``README.md`` lists its
interpretations of that text.
"""

from .model import Cable, Case, Counters, Departure, FlowResult, Outcome
from .simulator import simulate

__all__ = ["Cable", "Case", "Counters", "Departure", "FlowResult", "Outcome", "simulate"]
