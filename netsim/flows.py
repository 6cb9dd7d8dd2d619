"""What a traffic pattern is made of: the names that a pattern's file imports."""

from __future__ import annotations

from netsim.model.flows import FlowTable, TrafficContext

__all__ = ["FlowTable", "TrafficContext"]
