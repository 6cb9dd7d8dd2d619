"""Specialization constants: names in the kernels with a value only in a specialized copy.

Kernels import them like anything else. Specialization binds them to numbers and to the plugins'
functions (`bindings.py`): handlers are inlined, and code of a disabled feature is not compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

from netsim.engine.kernels import handlers, queue_handlers, routing_handlers


class UnboundConstantError(RuntimeError):
    """A kernel ran, or was compiled, without being specialized."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is unbound: kernels run only as specialized copies")


_constants: dict[str, Any] = {}

CONSTANTS: Mapping[str, Any] = MappingProxyType(_constants)  # every constant by name


class _Feature:
    """An unbound constant; every operation on it raises UnboundConstantError."""

    def __init__(self, name: str) -> None:
        self._name = name

    def _refuse(self, *_: object) -> NoReturn:
        raise UnboundConstantError(self._name)

    __bool__ = __int__ = __index__ = __float__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
    __and__ = __rand__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _refuse

    def __eq__(self, other: object) -> bool:
        self._refuse()

    __hash__ = object.__hash__


def _feature(name: str) -> Any:
    return _constants.setdefault(name, _Feature(name))


def _function(name: str) -> Callable[..., Any]:
    def unbound(*_: object) -> NoReturn:
        raise UnboundConstantError(name)

    _constants[name] = unbound
    return unbound


def _handler(default: Callable[..., Any]) -> Callable[..., Any]:
    """Declare a handler; the handler table says what it is for."""
    return _function(default.__name__)


# --- features of fabric and network (`features` in state.py) --------------------------------------

N_CLASSES: int = _feature("N_CLASSES")  # classes of each port: traffic classes times levels
N_LEVELS: int = _feature("N_LEVELS")  # levels of each traffic class
ECN_ENQUEUE: bool = _feature("ECN_ENQUEUE")
ECN_DEQUEUE: bool = _feature("ECN_DEQUEUE")
COUPLED: bool = _feature("COUPLED")  # ports of a switch influence each other
ROUTES_AHEAD: bool = _feature("ROUTES_AHEAD")  # an output does not depend on earlier events
PLANE_BALANCING: int = _feature("PLANE_BALANCING")  # use of a host's ports (port_pairs.py)
CARRIER: bool = _feature("CARRIER")  # hosts detect loss of carrier on their ports
POLICY_ROUTING: bool = _feature("POLICY_ROUTING")  # there are several routing tables
HOST_JITTER: bool = _feature("HOST_JITTER")  # packets are late by chance on hosts' links
FAULTS: bool = _feature("FAULTS")  # links can lose packets or go down
MAY_BE_UNROUTABLE: bool = _feature("MAY_BE_UNROUTABLE")  # switches may lack a route
TIME_SLOT_ROUTING: bool = _feature("TIME_SLOT_ROUTING")  # routes change with the time slot
CIRCUITS: bool = _feature("CIRCUITS")  # some circuits are not always up (links.py)
PHASE_DRIVEN: bool = _feature("PHASE_DRIVEN")  # some circuits follow flows' phases (windows.py)
INDIRECT: int = _feature("INDIRECT")  # use of intermediate switches (two_hops.py)
PER_PORT_SIZES: bool = _feature("PER_PORT_SIZES")  # queue sizes differ between ports
PORT_WAKEUPS: bool = _feature("PORT_WAKEUPS")  # ports with packets may wait for a time

# --- what the queue discipline uses (`features` in declarations.py) -------------------------------

HAS_ON_ARRIVAL: bool = _feature("HAS_ON_ARRIVAL")
HAS_CHOOSE_CLASS: bool = _feature("HAS_CHOOSE_CLASS")
HAS_CHOOSE_PACKET: bool = _feature("HAS_CHOOSE_PACKET")
HAS_ON_SEND: bool = _feature("HAS_ON_SEND")
HAS_ON_DEPARTURE: bool = _feature("HAS_ON_DEPARTURE")
MOVES_PACKETS: bool = _feature("MOVES_PACKETS")  # the discipline moves packets between queues
IS_SHAPED: bool = _feature("IS_SHAPED")  # the discipline can hold back a port that has packets
HAS_PFC: bool = _feature("HAS_PFC")  # the discipline pauses neighbors with PFC

# --- what the routing algorithm uses (`features` in routing_declarations.py) ----------------------

HAS_AT_SOURCE: bool = _feature("HAS_AT_SOURCE")
HAS_AT_SWITCH: bool = _feature("HAS_AT_SWITCH")
HAS_ON_ROUTE: bool = _feature("HAS_ON_ROUTE")
HAS_ON_DEPART: bool = _feature("HAS_ON_DEPART")
HAS_ON_TICK: bool = _feature("HAS_ON_TICK")
N_PUBLISHED: int = _feature("N_PUBLISHED")  # values that each switch publishes
VIA: bool = _feature("VIA")  # packets may go via another group
FLOW_ROWS: int = _feature("FLOW_ROWS")  # rows of a flow table, or 0
ONE_FLOW_TABLE: bool = _feature("ONE_FLOW_TABLE")  # a switch has one, not each of its ports

# --- what the transports use (`features` in declarations.py) --------------------------------------

HAS_RANK: bool = _feature("HAS_RANK")  # hosts serve flows by rank
TELEMETRY: bool = _feature("TELEMETRY")  # switches write into packets (`on_forward`)
TASKS: bool = _feature("TASKS")  # hosts have tasks (tasks.py)
PROGRAM: bool = _feature("PROGRAM")  # a program starts some tasks (tasks.py)
N_PROGRAM_TIMERS: int = _feature("N_PROGRAM_TIMERS")  # program timers per host
SETS_FLOW_SIZE: bool = _feature("SETS_FLOW_SIZE")  # the program sets flow sizes

# --- what a run records ---------------------------------------------------------------------------

TRACE: bool = _feature("TRACE")  # events of chosen flows are traced (trace.py)
PROFILE: bool = _feature("PROFILE")  # wall-clock time per stage is measured (loop.py)
HAS_SERIES: bool = _feature("HAS_SERIES")  # time series are recorded (series.py)
HISTOGRAM: bool = _feature("HISTOGRAM")  # series include the time that queues spend at each level

# --- functions ------------------------------------------------------------------------------------

switch_step = _function("switch_step")  # in switch.py, or coupled_switch.py if COUPLED

setup = _handler(handlers.setup)
on_start = _handler(handlers.on_start)
ready = _handler(handlers.ready)
build_packet = _handler(handlers.build_packet)
on_data = _handler(handlers.on_data)
on_trimmed = _handler(handlers.on_trimmed)
on_request = _handler(handlers.on_request)
on_control = _handler(handlers.on_control)
on_timer = _handler(handlers.on_timer)
on_rx_timer = _handler(handlers.on_rx_timer)
on_host_timer = _handler(handlers.on_host_timer)
rank = _handler(handlers.rank)
on_forward = _handler(handlers.on_forward)

on_arrival = _handler(queue_handlers.on_arrival)
admit = _handler(queue_handlers.admit)
choose_class = _handler(queue_handlers.choose_class)
choose_packet = _handler(queue_handlers.choose_packet)
on_send = _handler(queue_handlers.on_send)
on_departure = _handler(queue_handlers.on_departure)

at_source = _handler(routing_handlers.at_source)
at_switch = _handler(routing_handlers.at_switch)
choose = _handler(routing_handlers.choose)
on_route = _handler(routing_handlers.on_route)
on_depart = _handler(routing_handlers.on_depart)
on_tick = _handler(routing_handlers.on_tick)
choose_plane = _handler(routing_handlers.choose_plane)

program_on_begin = _function("program_on_begin")
program_on_task = _function("program_on_task")
program_on_timer = _function("program_on_timer")
