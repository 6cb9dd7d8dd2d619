"""Specialization constants: names in the kernels with a value only in a specialized copy.

Kernels import them like anything else. Specialization binds them to numbers and to the plugins'
functions (`bindings.py`): handlers are inlined, and code of a disabled feature is not compiled.

A feature is declared here with its value in a run: ``run`` is a `Run` (state.py), with ``needs``
from its network, workload and outputs.
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

    def __init__(self, value: Callable[[Any], Any]) -> None:
        self.value, self.name = value, ""

    def _refuse(self, *_: object) -> NoReturn:
        raise UnboundConstantError(self.name)

    __bool__ = __int__ = __index__ = __float__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
    __and__ = __rand__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _refuse

    def __eq__(self, other: object) -> bool:
        self._refuse()

    __hash__ = object.__hash__


def _feature(value: Callable[[Any], Any]) -> Any:
    """Declare a constant; `value` returns what it is bound to in a run."""
    return _Feature(value)


def unbound(name: str) -> Callable[..., Any]:
    """Declare a constant that is a function."""

    def refuse(*_: object) -> NoReturn:
        raise UnboundConstantError(name)

    _constants[name] = refuse
    return refuse


# --- fabric and network ---------------------------------------------------------------------------

# Classes of each port: traffic classes times levels; levels of each traffic class.
N_CLASSES: int = _feature(lambda run: run.fabric.n_link_classes)
N_LEVELS: int = _feature(lambda run: run.fabric.n_levels)
ECN_ENQUEUE: bool = _feature(lambda run: run.ecn_at == "enqueue")
ECN_DEQUEUE: bool = _feature(lambda run: run.ecn_at == "dequeue")
# Ports of a switch influence each other; else, or if routes do not depend on earlier events, an
# output is chosen ahead of time.
COUPLED: bool = _feature(lambda run: run.coupled)
ROUTES_AHEAD: bool = _feature(lambda run: run.routes_ahead)
PLANE_BALANCING: int = _feature(lambda run: run.plane_balancing)  # use of a host's ports
CARRIER: bool = _feature(lambda run: run.needs.carrier)  # hosts detect loss of carrier
POLICY_ROUTING: bool = _feature(lambda run: run.needs.policy)  # there are several routing tables
HOST_JITTER: bool = _feature(lambda run: run.fabric.host_jitter_ps > 0)  # packets late by chance
# Switches forward packets once they have the header.
CUT_THROUGH: bool = _feature(lambda run: run.needs.cut_through)
NIC: bool = _feature(lambda run: run.needs.nic)  # hosts take time to process packets
LINK_RETRY: bool = _feature(lambda run: run.fabric.llr is not None)  # links send lost packets again
FAULTS: bool = _feature(lambda run: run.needs.faults)  # links can lose packets or go down
MAY_BE_UNROUTABLE: bool = _feature(lambda run: run.may_be_unroutable)  # switches may lack a route
TIME_SLOT_ROUTING: bool = _feature(lambda run: run.needs.time_slots)  # routes change with the slot
CIRCUITS: bool = _feature(lambda run: run.needs.circuits)  # some circuits are not always up
PHASE_DRIVEN: bool = _feature(lambda run: run.needs.phase_driven)  # some follow flows' phases
INDIRECT: int = _feature(lambda run: run.indirect)  # use of intermediate switches
PER_PORT_SIZES: bool = _feature(lambda run: run.needs.sized)  # queue sizes differ between ports
# Classes of ports are served by weight.
WEIGHTED: bool = _feature(lambda run: run.fabric.class_weights is not None)
# Ports with packets may wait for a time.
PORT_WAKEUPS: bool = _feature(
    lambda run: run.discipline.is_shaped or run.needs.circuits or run.fabric.llr is not None
)

# --- the queue discipline -------------------------------------------------------------------------

HAS_ON_ARRIVAL: bool = _feature(lambda run: run.discipline.has("on_arrival"))
HAS_CHOOSE_CLASS: bool = _feature(lambda run: run.discipline.has("choose_class"))
HAS_CHOOSE_PACKET: bool = _feature(lambda run: run.discipline.has("choose_packet"))
HAS_ON_SEND: bool = _feature(lambda run: run.discipline.has("on_send"))
HAS_ON_DEPARTURE: bool = _feature(lambda run: run.discipline.has("on_departure"))
MOVES_PACKETS: bool = _feature(lambda run: run.discipline.moves_packets)  # between queues
IS_SHAPED: bool = _feature(lambda run: run.discipline.is_shaped)  # it can hold back a port
HAS_PFC: bool = _feature(lambda run: run.discipline.pauses)  # it pauses neighbors with PFC
HAS_ON_PAUSE: bool = _feature(lambda run: run.discipline.has("on_pause"))
HAS_ON_DROP: bool = _feature(lambda run: run.discipline.has("on_drop"))
N_PORT_TIMERS: int = _feature(lambda run: run.discipline.n_timers)  # timers of each port
LATE_PAUSES: bool = _feature(lambda run: run.discipline.has_field("response_ps"))
PAUSES_END: bool = _feature(lambda run: run.discipline.has_field("pause_ps"))
HAS_CREDIT: bool = _feature(lambda run: run.discipline.has("has_credit"))  # classes may lack credit
HAS_ON_MESSAGE: bool = _feature(lambda run: run.discipline.has("on_message"))
MAKES_PACKETS: bool = _feature(lambda run: run.discipline.makes_packets)  # and returns some
# Packets may arrive in another order than sent.
REORDERS: bool = _feature(lambda run: run.discipline.reorders or run.needs.nic)

# --- the routing algorithm ------------------------------------------------------------------------

HAS_AT_SOURCE: bool = _feature(lambda run: run.routing.has("at_source"))
HAS_AT_SWITCH: bool = _feature(lambda run: run.routing.has("at_switch"))
HAS_ON_ROUTE: bool = _feature(lambda run: run.routing.has("on_route"))
HAS_ON_DEPART: bool = _feature(lambda run: run.routing.has("on_depart"))
HAS_ON_TICK: bool = _feature(lambda run: run.routing.has("on_tick"))
N_PUBLISHED: int = _feature(lambda run: run.routing.n_published)  # values that a switch publishes
VIA: bool = _feature(lambda run: run.routing.via)  # packets may go via another group
FLOW_ROWS: int = _feature(lambda run: run.routing.n_rows)  # rows of a flow table, or 0
ONE_FLOW_TABLE: bool = _feature(lambda run: run.routing.coupled)  # per switch, not per port

# --- transports, tasks and programs ---------------------------------------------------------------

HAS_RANK: bool = _feature(lambda run: run.protocol.has("rank"))  # hosts serve flows by rank
TELEMETRY: bool = _feature(lambda run: run.protocol.has("on_forward"))  # switches write to packets
TASKS: bool = _feature(lambda run: run.needs.tasks)  # hosts have tasks
PROGRAM: bool = _feature(lambda run: bool(run.program.modules))  # a program starts some tasks
N_PROGRAM_TIMERS: int = _feature(lambda run: run.program.timers)  # program timers per host
SETS_FLOW_SIZE: bool = _feature(lambda run: run.program.resizes)  # the program sets flow sizes

HAS_WORDS: bool = _feature(lambda run: run.program.has_words)  # the program has flows carry some

# --- what a run records ---------------------------------------------------------------------------

TRACE: bool = _feature(lambda run: run.traces)  # events of chosen flows are traced
PROFILE: bool = _feature(lambda run: run.profile)  # wall-clock time per stage is measured
HAS_SERIES: bool = _feature(lambda run: run.needs.sampled)  # time series are recorded
HISTOGRAM: bool = _feature(lambda run: run.needs.histogram)  # ... with the time at each level

FEATURES = {name: one for name, one in globals().items() if isinstance(one, _Feature)}

for _name, _one in FEATURES.items():
    _one.name = _name
    _constants[_name] = _one

switch_step = unbound("switch_step")  # in switch.py, or coupled_switch.py if COUPLED
