"""The handlers of plugins: their arguments, names, and when they are called; rules for them.

To add a handler, write it in its table with a unique number; its body is the default for plugins
without it. Call it in a kernel after ``host.handler = IN_...`` or ``switch.handler = IN_...``, so
that errors name it. Then describe it: a transport's handler in `transports/README.md`, a queue
discipline's in `netsim/queues/README.md`, a routing algorithm's in
`netsim/routing_algorithms/README.md`, a program's in `netsim/traffic/README.md` (also in
`netsim/model/workload.py`).

Kernels import handlers as specialization constants. Rules protect the engine's memory from
handlers. A transport or program that breaks a rule marks its host, whose step ends before the
packet or timer is used. A queue discipline or routing algorithm marks its switch, whose step uses a
harmless value instead. Checked engines also find writes out of bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any, NamedTuple

from netsim.engine.kernels.fields import (
    CommonParameters,
    FlowId,
    HostRecord,
    Numbers,
    ParameterRecord,
    PortRecord,
    ProgramHostRecord,
    QueueParameters,
    Records,
    RouterRecord,
    RxRecord,
    SwitchRecord,
    TxRecord,
)
from netsim.engine.kernels.layout import HostState, LinkState, Net
from netsim.engine.kernels.specialization_constants import unbound

# --- the argument `env` ---------------------------------------------------------------------------


class Env(NamedTuple):
    """A host's NIC, for the handlers of one transport."""

    host: HostRecord
    par: ParameterRecord  # parameters of the transport
    tx: Records[FlowId, TxRecord]  # all flows; other hosts' flows are off limits
    rx: Records[FlowId, RxRecord]
    bits: Numbers[int, int]  # bitmaps of the flows
    hosts: HostState  # the engine's own, with links
    links: LinkState


def env_of(host: HostRecord, par: ParameterRecord, hosts: HostState, links: LinkState) -> Env:
    """Return a host's `Env` for the transport with parameters ``par``. Compiled code cannot return
    a tuple of records, so this is inlined as source (``IN_PLACE`` in bindings.py)."""
    return Env(
        host=host, par=par, tx=hosts.tx, rx=hosts.rx, bits=hosts.bits, hosts=hosts, links=links
    )


class ProgramEnv(NamedTuple):
    """A host, for the handlers of a program."""

    par: CommonParameters  # with the program's own
    host: ProgramHostRecord
    engine: Env


def program_env_of(env: Env) -> ProgramEnv:
    """Return a host's `ProgramEnv`; inlined like `env_of`."""
    hosts = env.hosts
    return ProgramEnv(par=hosts.program[0], host=hosts.program_hosts[env.host.host], engine=env)


class QueueEnv(NamedTuple):
    """A switch, for the handlers of its queue discipline."""

    par: QueueParameters  # with the discipline's own
    switch: SwitchRecord
    links: LinkState  # all ports and queues; other switches' are off limits
    net: Net


def queue_env_of(switch: SwitchRecord, links: LinkState, net: Net) -> QueueEnv:
    """Return a switch's `QueueEnv`; inlined like `env_of`."""
    return QueueEnv(par=links.discipline[0], switch=switch, links=links, net=net)


def queue_env_at(env: QueueEnv, port: PortRecord) -> QueueEnv:
    """Return a switch's `QueueEnv` with the sizes of one port; inlined like `env_of`."""
    par = env.links.discipline[env.links.size_kind[port.number]]
    return QueueEnv(par=par, switch=env.switch, links=env.links, net=env.net)


class PlaneEnv(NamedTuple):
    """A host, for the routing algorithm's choice of a port."""

    par: CommonParameters  # with the algorithm's own
    is_data: int  # 1 for a data packet, 0 for a control packet
    engine: Env


def plane_env_of(env: Env, is_data: int) -> PlaneEnv:
    """Return a host's `PlaneEnv`; inlined like `env_of`."""
    return PlaneEnv(par=env.links.routing[0], is_data=is_data, engine=env)


class RoutingEnv(NamedTuple):
    """A switch, for the handlers of the routing algorithm."""

    par: CommonParameters  # with the algorithm's own
    switch: RouterRecord
    home: SwitchRecord  # the engine's own, like what follows
    links: LinkState
    net: Net


def routing_env_of(env: QueueEnv) -> RoutingEnv:
    """Return a switch's `RoutingEnv`; inlined like `env_of`."""
    return RoutingEnv(
        par=env.links.routing[0],
        switch=env.links.routers[env.switch.number],
        home=env.switch,
        links=env.links,
        net=env.net,
    )


# --- tables ---------------------------------------------------------------------------------------

OF_PROGRAMS = "program_"  # before the names of programs' handlers; transports have some, too


@dataclass(frozen=True)  # mypy would take `default` of a `frozen` class for a method
class Handler:
    """One handler of a table.

    ``called`` says when it is called, for the pages; ``returns`` what it returns, if anything;
    ``packet`` what ``pkt`` is, if it is an argument; ``default`` replaces a missing one.
    """

    number: int
    runs_on: str
    called: str
    default: FunctionType
    required: bool
    returns: str
    packet: str

    @property
    def name(self) -> str:
        """Name in a plugin's file."""
        return self.default.__name__.removeprefix(OF_PROGRAMS)

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of the arguments."""
        code = self.default.__code__
        return code.co_varnames[: code.co_argcount]

    @property
    def form(self) -> str:
        """Signature, such as ``on_data(env, now, rx, pkt)``."""
        return f"{self.name}({', '.join(self.arguments)})"

    @property
    def side(self) -> str:
        """The flow record that it receives, "tx" or "rx"; "" if it does not run for a flow."""
        return next((name for name in ("tx", "rx") if name in self.arguments), "")


class HandlerTable(Mapping[str, Handler]):
    """Handlers of one kind of plugin by name, in the order of their numbers from ``first`` on."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._rows: dict[str, Handler] = {}

    def __getitem__(self, name: str) -> Handler:
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def name_of(self, number: int) -> str:
        """Return the handler with this number, or ""."""
        return next((row.name for row in self._rows.values() if row.number == number), "")

    def row(
        self,
        number: int,
        runs_on: str,
        called: str,
        *,
        required: bool = False,
        returns: str = "",
        packet: str = "",
    ) -> Callable[[Any], Callable[..., Any]]:
        """Add the decorated function to the table; return the constant that kernels call."""

        def add(default: Any) -> Callable[..., Any]:
            row = Handler(number, runs_on, called, default, required, returns, packet)
            expected = self._first + len(self._rows)
            assert number == expected, f"{row.name} is not in the order of the numbers"
            self._rows[row.name] = row
            return unbound(default.__name__)

        return add


# --- transports -----------------------------------------------------------------------------------

(
    NOTHING,
    IN_SETUP,
    IN_ON_START,
    IN_READY,
    IN_BUILD_PACKET,
    IN_ON_DATA,
    IN_ON_TRIMMED,
    IN_ON_REQUEST,
    IN_ON_CONTROL,
    IN_ON_TIMER,
    IN_ON_RX_TIMER,
    IN_ON_HOST_TIMER,
    IN_RANK,
    IN_ON_FORWARD,
    IN_ON_RETURNED,
) = range(15)
"""Values of ``host.handler``: the current or last handler of this step."""

BEFORE, SOURCE, DESTINATION = "before the run", "source", "destination"
ANY_HOST, SWITCH = "any host", "switch"  # where handlers run

BUILT, SENT, ARRIVED, FORWARDED = "pkt built", "pkt sent", "pkt arrived", "pkt forwarded"
"""State of the packet: built by `build_packet`, returned by `send`, received, or forwarded."""

HANDLERS = HandlerTable(IN_SETUP)  # handlers by name, in the order of their numbers


@HANDLERS.row(IN_SETUP, BEFORE, "once per flow; the only handler that sees both sides")
def setup(env, tx, rx):
    """No state to initialize."""


@HANDLERS.row(IN_ON_START, SOURCE, "the flow starts")
def on_start(env, now, tx):
    """The flow only joins the ready list."""


@HANDLERS.row(
    IN_READY,
    SOURCE,
    "the NIC is free: returns `now`, a later time or `BLOCKED`",
    required=True,
    returns="a time in ps, or BLOCKED",
)
def ready(env, now, tx):
    """Required."""
    raise NotImplementedError


@HANDLERS.row(
    IN_BUILD_PACKET,
    SOURCE,
    "a packet is built: sets `pkt.seq`, optionally other fields",
    required=True,
    packet=BUILT,
)
def build_packet(env, now, tx, pkt):
    """Required."""
    raise NotImplementedError


@HANDLERS.row(IN_ON_DATA, DESTINATION, "a data packet arrives", packet=ARRIVED)
def on_data(env, now, rx, pkt):
    """Data is ignored."""


@HANDLERS.row(IN_ON_TRIMMED, DESTINATION, "a trimmed data packet arrives", packet=ARRIVED)
def on_trimmed(env, now, rx, pkt):
    """A trimmed packet counts as lost."""


@HANDLERS.row(
    IN_ON_REQUEST,
    DESTINATION,
    "another packet for the receiver arrives (kinds 2 to 7)",
    packet=ARRIVED,
)
def on_request(env, now, rx, pkt):
    """The packet is ignored."""


@HANDLERS.row(
    IN_ON_CONTROL, SOURCE, "a control packet for the sender arrives (kinds 8 to 14)", packet=ARRIVED
)
def on_control(env, now, tx, pkt):
    """The packet is ignored."""


@HANDLERS.row(IN_ON_TIMER, SOURCE, "the sender's timer `k` fires")
def on_timer(env, now, tx, k):
    """No timers."""


@HANDLERS.row(IN_ON_RX_TIMER, DESTINATION, "the receiver's timer `k` fires")
def on_rx_timer(env, now, rx, k):
    """No timers."""


@HANDLERS.row(IN_ON_HOST_TIMER, ANY_HOST, "the host's timer `k` fires")
def on_host_timer(env, now, k):
    """No timers."""


@HANDLERS.row(
    IN_RANK,
    SOURCE,
    "the flow joins the send list: the smallest rank goes first",
    returns="a whole number",
)
def rank(env, tx):
    """All flows have the same rank."""
    return 0


@HANDLERS.row(
    IN_ON_FORWARD, SWITCH, "a data packet's transmission starts (telemetry)", packet=FORWARDED
)
def on_forward(now, pkt, port, queue):
    """No telemetry."""


@HANDLERS.row(
    IN_ON_RETURNED, SOURCE, "a switch has returned a data packet, cut to its header", packet=ARRIVED
)
def on_returned(env, now, tx, pkt):
    """The packet is ignored: a timeout may find that it is lost."""


# --- queue disciplines ----------------------------------------------------------------------------

FIRST_OF_QUEUES = 32  # numbers below are those of transports

(
    IN_ON_ARRIVAL,
    IN_ADMIT,
    IN_CHOOSE_CLASS,
    IN_CHOOSE_PACKET,
    IN_ON_SEND,
    IN_ON_DEPARTURE,
    IN_ON_DROP,
    IN_ON_PAUSE,
    IN_ON_PORT_TIMER,
    IN_HAS_CREDIT,
    IN_USE_CREDIT,
    IN_ON_MESSAGE,
    IN_RETURN_CREDIT,
) = range(FIRST_OF_QUEUES, FIRST_OF_QUEUES + 13)
"""Values of ``switch.handler``: the current or last handler of this step."""

COMING, LEAVING = "pkt coming", "pkt leaving"
"""State of the packet: arriving at a queue, or starting its transmission."""

QUEUE_HANDLERS = HandlerTable(FIRST_OF_QUEUES)  # handlers by name, in the order of their numbers


@QUEUE_HANDLERS.row(
    IN_ON_ARRIVAL,
    SWITCH,
    "a packet came in: returns `ACCEPT` or `DROP`",
    returns="ACCEPT or DROP",
    packet=COMING,
)
def on_arrival(env, now, port, pkt):
    """Every packet is accepted."""


@QUEUE_HANDLERS.row(
    IN_ADMIT,
    SWITCH,
    "it will leave by `port`: returns a class, or `DROP`",
    required=True,
    returns="a class, or DROP",
    packet=COMING,
)
def admit(env, now, port, pkt):
    """Required."""
    raise NotImplementedError


@QUEUE_HANDLERS.row(
    IN_CHOOSE_CLASS,
    SWITCH,
    "the port is free: returns a class, or `NO_CLASS`",
    returns="a class, or NO_CLASS",
)
def choose_class(env, now, port):
    """The lowest open class."""


@QUEUE_HANDLERS.row(
    IN_CHOOSE_PACKET,
    SWITCH,
    "`queue` is served: returns the index of a packet",
    returns="the index of a waiting packet",
)
def choose_packet(env, now, port, queue):
    """The head."""


@QUEUE_HANDLERS.row(IN_ON_SEND, SWITCH, "a packet of `queue` begins to be sent", packet=LEAVING)
def on_send(env, now, port, queue, pkt):
    """The packet is unchanged."""


@QUEUE_HANDLERS.row(IN_ON_DEPARTURE, SWITCH, "a packet that came in by `port` has been sent")
def on_departure(env, now, port, cls, size):
    """Nothing is counted."""


@QUEUE_HANDLERS.row(IN_ON_DROP, SWITCH, "a packet that `port` had accepted has been dropped")
def on_drop(env, now, port, cls, size):
    """Nothing is counted."""


@QUEUE_HANDLERS.row(
    IN_ON_PAUSE,
    SWITCH,
    "the neighbor pauses `classes`, a bit mask: returns the classes to pause",
    returns="a bit mask of classes",
)
def on_pause(env, now, port, classes):
    """All of them are paused."""
    return classes


@QUEUE_HANDLERS.row(IN_ON_PORT_TIMER, SWITCH, "timer `k` of the port is due")
def on_port_timer(env, now, port, k):
    """No timers."""


BOTH_ENDS = "hosts and switches"


@QUEUE_HANDLERS.row(
    IN_HAS_CREDIT,
    BOTH_ENDS,
    "returns whether a packet of `size` may be sent in this class",
    returns="True or False",
)
def has_credit(par, queue, size):
    """Every packet may be sent."""
    return True


@QUEUE_HANDLERS.row(IN_USE_CREDIT, BOTH_ENDS, "a packet of this class begins to be sent")
def use_credit(par, queue, size):
    """Nothing is charged."""


@QUEUE_HANDLERS.row(IN_ON_MESSAGE, BOTH_ENDS, "a message of this class came from the neighbor")
def on_message(par, queue, value):
    """The message is ignored."""


@QUEUE_HANDLERS.row(IN_RETURN_CREDIT, BOTH_ENDS, "a packet that was sent never comes (LLR)")
def return_credit(par, queue, size):
    """Nothing is returned."""


# --- routing algorithms ---------------------------------------------------------------------------

FIRST_OF_ROUTING = 48  # numbers below are those of transports and queue disciplines

(
    IN_AT_SOURCE,
    IN_AT_SWITCH,
    IN_CHOOSE,
    IN_ON_ROUTE,
    IN_ON_DEPART,
    IN_ON_TICK,
    IN_CHOOSE_PLANE,
) = range(FIRST_OF_ROUTING, FIRST_OF_ROUTING + 7)
"""Values of ``switch.handler`` or ``host.handler``: the current or last handler of this step."""

ROUTED, DEPARTS = "pkt routed", "pkt departs"
"""State of the packet: on its way to an output port, or starting its transmission."""

ROUTING_HANDLERS = HandlerTable(FIRST_OF_ROUTING)  # handlers by name, in the order of their numbers


@ROUTING_HANDLERS.row(IN_AT_SOURCE, SWITCH, "a packet came in from a host", packet=ROUTED)
def at_source(env, now, port, pkt):
    """Nothing is decided at the first switch."""


@ROUTING_HANDLERS.row(IN_AT_SWITCH, SWITCH, "a packet came in from another switch", packet=ROUTED)
def at_switch(env, now, port, pkt):
    """Nothing is decided at other switches."""


@ROUTING_HANDLERS.row(
    IN_CHOOSE,
    SWITCH,
    "there are `n` > 1 candidates: returns the index of one",
    required=True,
    returns="the index of a candidate, 0 to n - 1",
    packet=ROUTED,
)
def choose(env, now, port, pkt, first, n):
    """Required."""
    raise NotImplementedError


@ROUTING_HANDLERS.row(IN_ON_ROUTE, SWITCH, "the packet will leave by port `out`", packet=ROUTED)
def on_route(env, now, port, out, pkt):
    """Nothing is noted."""


@ROUTING_HANDLERS.row(IN_ON_DEPART, SWITCH, "a packet begins to be sent by `port`", packet=DEPARTS)
def on_depart(env, now, port, pkt):
    """Nothing is noted."""


@ROUTING_HANDLERS.row(
    IN_ON_TICK, SWITCH, "`n_ticks` periods of `tick` have ended, the last one now"
)
def on_tick(env, now, n_ticks):
    """There are no periods."""


@ROUTING_HANDLERS.row(
    IN_CHOOSE_PLANE,
    ANY_HOST,
    "`plane_balancing` is `routing`: returns the index of one of `n` port pairs",
    returns="the index of a port pair, 0 to n - 1",
)
def choose_plane(env, now, side, n):
    """Required for that `plane_balancing`."""
    raise NotImplementedError


# --- programs -------------------------------------------------------------------------------------

FIRST_OF_PROGRAMS = 64  # numbers below are those of transports and queue disciplines

IN_PROGRAM_ON_BEGIN, IN_PROGRAM_ON_TASK, IN_PROGRAM_ON_TIMER = range(
    FIRST_OF_PROGRAMS, FIRST_OF_PROGRAMS + 3
)
"""Values of ``host.handler``: the current or last handler of this step."""

PROGRAM_HANDLERS = HandlerTable(
    FIRST_OF_PROGRAMS
)  # handlers by name, in the order of their numbers


@PROGRAM_HANDLERS.row(
    IN_PROGRAM_ON_BEGIN, ANY_HOST, "the run begins, at each host that has tasks of the program"
)
def program_on_begin(env, now):
    """Nothing is started."""


@PROGRAM_HANDLERS.row(IN_PROGRAM_ON_TASK, ANY_HOST, "`task`, of this host, is done")
def program_on_task(env, now, task):
    """Only other tasks wait for it."""


@PROGRAM_HANDLERS.row(IN_PROGRAM_ON_TIMER, ANY_HOST, "timer `k` of the program on this host fires")
def program_on_timer(env, now, k):
    """No timers."""


# --- rules ----------------------------------------------------------------------------------------

TEXTS: dict[int, str] = {}  # what a handler did that broke each rule, by its number


def _rule(text: str) -> int:
    """Declare a rule; return its number."""
    TEXTS[len(TEXTS) + 1] = text
    return len(TEXTS)


TOO_MANY_CONTROL = _rule("sent more control packets in one call than its host's FIFO has room for")
TOO_MANY_BYTES = _rule("delivered more bytes than the flow has: {value}")
UNKNOWN_CLASS = _rule(
    "used traffic class {value}; the fabric has {n_traffic_classes}, counted from 0"
)
NO_TIMER = _rule("used timer {value}, which is not declared or not of this host")
NO_BIT = _rule("used bit {value} of a bitmap: no such packet, or the bitmap is not declared")
NOT_CONTROL = _rule("sent a control packet of kind {value}; send() is for kinds 2 to 14")
NOT_DATA = _rule(
    "made a data packet of kind {value}; build_packet may choose DATA and kinds 2 to 7"
)
NO_PACKET = _rule("made data packet {value}, which the flow does not have")
ENDLESS = _rule("was called {value} times at one instant, by timers that are always set to now")
NO_SIZE = _rule("sent a control packet of {value} bytes: smaller than any other packet, or larger")
NOT_OPEN = _rule("chose class {value}, which has no packet to send")
NO_SUCH_INDEX = _rule("used index {value} of a queue, where no packet waits")
NOT_LATER = _rule("called wait_until with a time that is not in the future ({value} ps ago)")
IDLE_PORT = _rule("returned NO_CLASS without wait_until, although class {value} can be sent")
ONLY_IN_ADMIT = _rule("called pop_tail or bounce (only admit may)")
ONLY_IN_CHOOSE_CLASS = _rule("called wait_until (only choose_class may)")
IN_HAND = _rule("removed a packet from a queue and did not enqueue or drop it")
ENQUEUED_TWICE = _rule("enqueued two packets to class {value} for one arrival")
LOST_TRACK = _rule("enqueued or dropped a packet that it had not removed from a queue")
NO_TASK_THERE = _rule("used task {value}, but this host has fewer tasks")
UNDER_WAY = _rule(
    "started or changed task {value} of this host, which has started and is not yet reported as "
    "done"
)
NOT_AGAIN = _rule("repeated task {value} of this host, which sends or receives a flow")
NO_DURATION = _rule("set the duration of a task to {value} ps (0 to 20 h; not for a join)")
NO_ALARM = _rule("used timer {value}, which is not declared in TIMERS, or set it beyond 20 h")
OVER_AND_OVER = _rule("was called {value} times at one instant, and keeps starting tasks")
NO_PAYLOAD = _rule(
    "trimmed or returned a packet of kind {value}, which goes to a sender and has no payload"
)
NO_COLUMNS = _rule("logged a row of {value} numbers, but LOG has another number of columns")
LOG_FULL = _rule("logged more than {value} rows, the workload's log_rows for this host")
NO_SIZE_OF_ITS_OWN = _rule(
    "set the size or words of task {value}, which sends no flow or a relayed one"
)
TOO_LATE_FOR_SIZE = _rule(
    "set the size or words of the flow of task {value} of this host, which has started"
)
NO_SUCH_SIZE = _rule(
    "set a flow's size to {value} bytes (at least 1, at most its size in the table)"
)
NO_WORD = _rule(
    "asked for a word of task {value}: 0 or 1, of a send task or a receive task that has started"
)
NO_CANDIDATE = _rule("chose candidate {value}, which is not in the list")
NO_LOCAL_PORT = _rule("used port {value}, which its switch does not have")
NO_GROUP = _rule("used group {value}, which the network does not have")
NO_LEVEL = _rule("set level {value}, which LEVELS does not include")
NO_KEY = _rule("used key {value}, which PUBLISHED does not include")
ONLY_ON_TIMER = _rule("called set_paused (only on_port_timer may)")
NOT_WHILE_SENDING = _rule("called send_message (on_send and on_drop may not)")
NO_VALUE = _rule("sent a message with the value {value} (0 to 2**62 - 1)")
NO_PORT_TIMER = _rule("used timer {value} of a port, which PORT_TIMERS does not include")
MADE_TOO_MANY = _rule("made more than {value} packets at one event")
NOT_MADE = _rule("emitted a packet of kind {value} (8 to 14)")
NOT_HERE = _rule("sent for, delivered to or finished flow {value} at a host that is not its own")

MAX_FIRINGS, MAX_FIRINGS_OF_A_TIMER = 10_000, 100
"""Limit on a host's timer firings at one instant: this, plus this for each timer."""


def broken(node: HostRecord | SwitchRecord, rule: int, value: int) -> None:
    """Record the first rule that a handler on a host or a switch broke."""
    if node.rule_broken == 0:
        node.rule_broken = rule
        node.breaking_handler = node.handler
        node.breaking_value = value
