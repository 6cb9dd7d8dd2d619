"""A run that Python advances: read counters, set values, go on. For controllers and learning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from netsim.errors import InputError
from netsim.experiment.place_faults import ports_named
from netsim.running.drive import TIME_LIMIT
from netsim.units import parse_time_ps

if TYPE_CHECKING:
    from netsim.engine.engine import Engine
    from netsim.engine.state_views import FlowStates, LinkCounters
    from netsim.experiment import Point
    from netsim.model.columns import Ints
    from netsim.results.run_result import RunResult


class Simulated(Protocol):
    """A simulation of a point (`point.py`)."""

    point: Point
    engine: Engine

    def drive(self, to_ps: int | None = None) -> str:
        """Simulate up to a time, by default to the end; return the reason to stop."""

    def result(self, reason: str) -> RunResult:
        """Return the result of a run that ended for a reason."""


class Stepping:
    """A run that goes on when asked to.

    At a time t all events before t are over and none at t. So reading is exact, and what is set
    applies from t on. Steps alone do not change the results. A controller that reads and sets with
    delays keeps its values until then.

    Attributes:
        reason: why the run is over, such as "finished"; "" before.
    """

    def __init__(self, simulated: Simulated) -> None:
        self._simulated = simulated
        self._engine = simulated.engine
        self.reason = ""

    @property
    def now_ps(self) -> int:
        """The simulated time."""
        return self._engine.now_ps

    def step(self, until: int | str) -> bool:
        """Simulate up to a time, in ps or such as "50us"; return whether the run goes on."""
        until_ps = parse_time_ps(until) if isinstance(until, str) else until
        end_ps = self._simulated.point.end_ps
        if not self.reason and until_ps > self.now_ps:
            is_last = end_ps is not None and until_ps >= end_ps
            reason = self._simulated.drive(None if is_last else until_ps)
            self.reason = "" if reason == TIME_LIMIT and not is_last else reason
        return not self.reason

    def links(self, pattern: str) -> Ints:
        """Return the numbers of the links that a pattern such as "leaf0 -> h3" or "spine* -> *"
        matches, as in [faults]; `counters` has their values."""
        return ports_named(pattern, self._engine.network)

    def counters(self) -> LinkCounters:
        """Return the counters of all links until now, such as `queue_bytes` and `sent_bytes`: of a
        class of a link at link * classes + class."""
        return self._engine.link_counters()

    @property
    def flows(self) -> FlowStates:
        """The flows, as arrays that follow the run."""
        return self._engine.flow_states()

    def field(self, name: str) -> Ints:
        """Return a copy of a field of the transport's `TX_STATE`, for all flows."""
        column: Ints = self._engine.sender_field(name).copy()
        return column

    def set(self, name: str, value: Any, flows: Any = None) -> None:
        """Set a field of the transport's `TX_STATE`, for all flows or those given, or else a
        parameter of the transport, in the units of handlers: ps, bytes, bit/s.

        A flow that is blocked or waits for a time asks again when it would have done so anyway.
        """
        if flows is None and self._engine.set_parameter(name, value):
            return
        try:
            column = self._engine.sender_field(name)
        except KeyError:
            hint = "a field of TX_STATE or a parameter of the transport"
            raise InputError(f"unknown field {name}", hint=hint) from None
        column[np.arange(column.size) if flows is None else flows] = value

    def finish(self) -> RunResult:
        """Simulate to the end; return the result."""
        self.reason = self.reason or self._simulated.drive(None)
        return self._simulated.result(self.reason)
