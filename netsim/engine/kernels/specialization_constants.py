"""Specialization constants: names in the kernels with a value only in a specialized copy.

Kernels import them like anything else. Specialization binds them to numbers and to the plugins'
functions (`bindings.py`): handlers are inlined, and code of a disabled feature is not compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NoReturn


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


def unbound(name: str) -> Callable[..., Any]:
    """Declare a constant that is a function."""

    def refuse(*_: object) -> NoReturn:
        raise UnboundConstantError(name)

    _constants[name] = refuse
    return refuse


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
PHASE_DRIVEN: bool = _feature("PHASE_DRIVEN")  # some circuits follow flows' phases (loop.py)
INDIRECT: int = _feature("INDIRECT")  # use of intermediate switches (coupled_switch.py)
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

# --- what the routing algorithm uses (`features` in declarations.py) ----------------------

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


switch_step = unbound("switch_step")  # in switch.py, or coupled_switch.py if COUPLED
