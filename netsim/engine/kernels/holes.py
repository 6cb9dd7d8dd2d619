"""The holes of the engine's kernels: names that have a value only in a specialized copy.

Kernels import these as they import anything else. When the engine is specialized for its
transports and its fabric, the copies of the kernels see constants and the transport's own
functions in their place (`bindings.py`): a handler is inlined into the kernel that calls it,
and what stands behind a feature that is off is not compiled. Who uses a hole that is not
filled gets an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

from netsim.engine.kernels import handlers, queue_handlers


class UnfilledError(RuntimeError):
    """A kernel of the engine ran, or was compiled, without being specialized."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} has no value here: kernels run as specialized copies (holes.py)")


_holes: dict[str, Any] = {}

HOLES: Mapping[str, Any] = MappingProxyType(_holes)
"""Every hole by its name."""


class _Feature:
    """In the place of a constant: whatever is done with it is an error."""

    def __init__(self, name: str) -> None:
        self._name = name

    def _refuse(self, *_: object) -> NoReturn:
        raise UnfilledError(self._name)

    __bool__ = __int__ = __index__ = __float__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
    __and__ = __rand__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _refuse

    def __eq__(self, other: object) -> bool:
        self._refuse()

    __hash__ = object.__hash__


def _feature(name: str) -> Any:
    return _holes.setdefault(name, _Feature(name))


def _function(name: str) -> Callable[..., Any]:
    def unfilled(*_: object) -> NoReturn:
        raise UnfilledError(name)

    _holes[name] = unfilled
    return unfilled


def _handler(default: Callable[..., Any]) -> Callable[..., Any]:
    """The hole for a handler, whose arguments and meaning stand in the table."""
    return _function(default.__name__)


# --- features of fabric and network (`features` in state.py) --------------------------------------

N_CLASSES: int = _feature("N_CLASSES")
"""Traffic classes of every port."""
ECN_ENQUEUE: bool = _feature("ECN_ENQUEUE")
ECN_DEQUEUE: bool = _feature("ECN_DEQUEUE")
"""Where packets are marked, if anywhere."""
COUPLED: bool = _feature("COUPLED")
"""Do the ports of a switch influence each other?"""
BALANCING: int = _feature("BALANCING")
"""How one of several paths is chosen (balance.py)."""
PLANES: int = _feature("PLANES")
"""Has every host one port, or how do flows go by several (lanes.py)?"""
CARRIER: bool = _feature("CARRIER")
"""Do hosts notice which of several ports have lost carrier?"""
WAYS: bool = _feature("WAYS")
"""Are there several routing tables, so that packets are addressed by one of them?"""
FAULTS: bool = _feature("FAULTS")
"""Do links lose packets, or go down?"""
STRAYS: bool = _feature("STRAYS")
"""May packets come where there is no way on for them?"""
TURNS: bool = _feature("TURNS")
"""Do routes take turns, slot by slot?"""
CIRCUITS: bool = _feature("CIRCUITS")
"""Are there cables that are there on some days only (circuits.py)?"""
STEERED: bool = _feature("STEERED")
"""Do some of them come as the flows of a phase are delivered (steering.py)?"""
INDIRECT: int = _feature("INDIRECT")
"""May packets go by way of a third switch (two_hops.py), and how?"""
SIZED: bool = _feature("SIZED")
"""Do sizes of queues differ from port to port?"""
LOOKS: bool = _feature("LOOKS")
"""May a port wait though it has something to send, for its circuit or as the discipline says?"""

# --- what the queue discipline makes use of (`features` in discipline.py) ------------------------

LETS_IN: bool = _feature("LETS_IN")
CHOOSES: bool = _feature("CHOOSES")
PICKS: bool = _feature("PICKS")
WRITES: bool = _feature("WRITES")
FOLLOWS: bool = _feature("FOLLOWS")
"""Has it `on_arrival`, `choose`, `pick`, `on_send`, `on_departure`?"""
FORESEES: bool = _feature("FORESEES")
"""Has it `predict_pause`, and is it heeded (loose_switch.py)?"""
MOVES: bool = _feature("MOVES")
"""Does it take packets out of a queue to put them into another?"""
SHAPES: bool = _feature("SHAPES")
"""May it have a port wait though that has something to send?"""
PAUSES: bool = _feature("PAUSES")
"""Are senders paused by PFC?"""

# --- what the transports make use of (`features` in protocol.py) ----------------------------------

RANKED: bool = _feature("RANKED")
"""Are a host's flows served by rank?"""
TELEMETRY: bool = _feature("TELEMETRY")
"""Do switches write into packets?"""

TASKS: bool = _feature("TASKS")
"""Have hosts tasks (tasks.py)?"""
PROGRAM: bool = _feature("PROGRAM")
"""Does a program start some of them (programs.py)?"""
N_PROGRAM_TIMERS: int = _feature("N_PROGRAM_TIMERS")
"""Timers that it has on each host."""
RESIZES: bool = _feature("RESIZES")
"""Does it say how long flows are?"""

# --- what is asked of a run -----------------------------------------------------------------------

TRACE: bool = _feature("TRACE")
"""Is it recorded what happens to chosen flows (trace.py)?"""
PROFILE: bool = _feature("PROFILE")
"""Is it measured where the time goes (profile.py)?"""
SAMPLED: bool = _feature("SAMPLED")
"""Is it kept what queues, hosts or flows are like over time (series.py)?"""
HISTOGRAM: bool = _feature("HISTOGRAM")
"""With it, for how long queues are at each level?"""

# --- functions ------------------------------------------------------------------------------------

host_step = _function("host_step")
"""That of host.py or, where a host has several ports, of several_ports.py."""
switch_step = _function("switch_step")
"""That of switch.py, with COUPLED of coupled_switch.py, and with FORESEES of loose_switch.py."""

setup = _handler(handlers.setup)
on_start = _handler(handlers.on_start)
ready = _handler(handlers.ready)
fill = _handler(handlers.fill)
on_data = _handler(handlers.on_data)
on_trimmed = _handler(handlers.on_trimmed)
on_request = _handler(handlers.on_request)
on_control = _handler(handlers.on_control)
on_timer = _handler(handlers.on_timer)
on_rx_timer = _handler(handlers.on_rx_timer)
on_host_timer = _handler(handlers.on_host_timer)
rank = _handler(handlers.rank)
on_forward = _handler(handlers.on_forward)
"""The transports' handlers."""

on_arrival = _handler(queue_handlers.on_arrival)
admit = _handler(queue_handlers.admit)
choose = _handler(queue_handlers.choose)
pick = _handler(queue_handlers.pick)
on_send = _handler(queue_handlers.on_send)
on_departure = _handler(queue_handlers.on_departure)
predict_pause = _handler(queue_handlers.predict_pause)
"""The queue discipline's."""

program_on_begin = _function("program_on_begin")
program_on_task = _function("program_on_task")
program_on_timer = _function("program_on_timer")
"""The program's, whose names begin with what others have, too."""
