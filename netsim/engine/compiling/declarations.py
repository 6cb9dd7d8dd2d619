"""Check the declarations and handlers in a plugin's file: a transport, queue discipline, program or
routing algorithm.
"""

from __future__ import annotations

import dis
import inspect
import keyword
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from netsim.common.inputs import at_line
from netsim.engine.compiling.bindings import Bindings, contents
from netsim.engine.kernels import fields, layout, made_packets, ports, routing, tasks
from netsim.engine.kernels.fields import CommonParameters, Declared
from netsim.engine.kernels.handlers import (
    BUILT,
    COMING,
    HANDLERS,
    LEAVING,
    PROGRAM_HANDLERS,
    QUEUE_HANDLERS,
    ROUTING_HANDLERS,
    SENT,
    Handler,
)
from netsim.errors import InputError
from netsim.plugins.declarations import Declarations
from netsim.plugins.registry import Plugin, PluginSpec
from netsim.units import Bdp

MAX_STATE_BYTES = 1 << 16
MAX_BYTES = {"PACKET_FIELDS": 1 << 10, "LOG": 8 * 64}
"""Limits, in bytes, on the fields that a file declares: state fields, and others."""

NOT_PLAIN = (
    inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR | inspect.CO_COROUTINE
)
"""Flags of functions that cannot be handlers."""


class PluginFile(Declarations):
    """File of a plugin whose handlers the engine compiles."""

    def __init__(self, module: ModuleType, name: str) -> None:
        super().__init__(module, str(getattr(module, "__file__", None) or name))

    def parameters(
        self, params: Mapping[str, Any], base: type[Declared] = CommonParameters
    ) -> np.dtype:
        """Return the record of the parameters, whose names must differ from the engine's."""
        for name in (name for name in params if name in layout.fields_of(base)):
            raise self.wrong("PARAMS", f"name {name} is reserved by the engine")
        own = [(name, float) if isinstance(v, float) else name for name, v in params.items()]
        return layout.record_of(base, *own)

    def record(self, what: str, base: type[Declared], *, padded: bool = False) -> np.dtype:
        """Return the record with the declared fields after the engine's."""
        own = self.fields(what, layout.fields_of(base))
        return layout.padded_record_of(base, *own) if padded else layout.record_of(base, *own)

    def count(self, what: str, most: int, params: Mapping[str, Any] | None = None) -> int:
        """Return the declared number of timers or bitmaps. In a dict, only set parameters count."""
        value = getattr(self.module, what, 0)
        if params is not None and isinstance(value, dict):
            value = counted(value, params)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            raise self.wrong(what, f"{value!r} is not a whole number from 0 to {most}")
        return value

    def fields(self, what: str, base: Sequence[str] = ()) -> tuple[layout.Field, ...]:
        """Return the declared fields of a record, which must not be the engine's (``base``)."""
        most_bytes = MAX_BYTES.get(what, MAX_STATE_BYTES)
        own = getattr(self.module, what, ())
        if not isinstance(own, (tuple, list)):
            example = f'{what} = ("{own}",)' if isinstance(own, str) else f'{what} = ("rate",)'
            raise self.wrong(what, f"{own!r} is not a tuple of fields", f"such as {example}")
        names = [self._field_name(field, what) for field in own]
        for name in names:
            if name in base:
                raise self.wrong(what, f"field {name} is reserved by the engine")
            if names.count(name) > 1:
                raise self.wrong(what, f"duplicate field {name}")
        n_bytes = sum(8 * field[1] if _is_array(field) else 8 for field in own)
        if n_bytes > most_bytes:
            raise self.wrong(what, f"the fields take {n_bytes} bytes", f"at most {most_bytes}")
        return tuple(own)

    def names(self, what: str, base: Sequence[str]) -> tuple[str, ...]:
        """Return declared names of integers, which must not be the engine's (``base``)."""
        named = self.fields(what, base)
        for field in named:
            if not isinstance(field, str):
                message = f"holds {field!r}, and a log has whole numbers only"
                raise self.wrong(what, message, f'"{field[0]}"')
        return tuple(str(field) for field in named)

    def _field_name(self, field: Any, what: str) -> str:
        """Return the name of a declared field. Raises InputError if it is invalid."""
        name, kind = field if isinstance(field, tuple) and len(field) == 2 else (field, int)
        good = isinstance(name, str) and name.isidentifier() and not name.startswith("_")
        if (
            not good
            or keyword.iskeyword(name)
            or not (kind is float or kind is int or _is_count(kind))
        ):
            raise self.wrong(
                what,
                f"{field!r} is not a field",
                '"name" for a whole number, ("name", float), or ("name", 8) for eight numbers',
            )
        return str(name)

    def handler(self, handler: Handler) -> FunctionType:
        """Return the file's function for a handler, with checked arguments."""
        name, form = handler.name, f"def {handler.form}"
        function: Any = getattr(self.module, name, None)
        if function is None and not hasattr(self.module, name):
            if handler.required:
                raise InputError(f"has no function {name}", file=self.file, hint=form)
            function = handler.default
        if not isinstance(function, FunctionType):
            raise self.wrong(name, "is not a plain function", form)
        code = function.__code__
        wanted = len(handler.arguments)
        problem = ""
        if code.co_flags & NOT_PLAIN:
            problem = f"{name} is not a plain function"
        elif code.co_argcount != wanted or code.co_kwonlyargcount:
            n = code.co_argcount + code.co_kwonlyargcount
            problem = f"{name} takes {n} arguments, the engine gives {wanted}"
        if problem:
            raise at_line(Path(code.co_filename), code.co_firstlineno, problem, form)
        return function


def functions_of(
    module: ModuleType, handlers: Iterable[FunctionType], *, within: bool = False
) -> set[Callable[..., Any]]:
    """Return the functions that handlers refer to, at any depth within the plugin's files. With
    ``within``, also functions that the engine's functions refer to."""
    bindings = Bindings({}, (module,))
    found: set[Callable[..., Any]] = set()
    under_way: list[Any] = list(handlers)
    while under_way:
        function = under_way.pop()
        if function in found or not bindings.compiles(function):
            continue
        found.add(function)
        if function.__module__.startswith("netsim.engine.") and not within:
            continue
        for value in (*bindings.of(function).values(), *contents(function)):
            members = bindings.members(value, function)
            of_value = [value] if members is None else members.values()
            under_way += [one for one in of_value if isinstance(one, FunctionType)]
    return found


def _is_array(field: Any) -> bool:
    return isinstance(field, tuple) and _is_count(field[1])


def _is_count(kind: Any) -> bool:
    return isinstance(kind, int) and not isinstance(kind, bool) and kind > 0


def plugin_parameters(plugin: Any, params: Mapping[str, Any]) -> dict[str, int | float]:
    """Return a plugin's resolved parameters as handlers see them."""
    choices = {p.name: p.choices for p in plugin.params}
    return {name: parameter_value(v, choices.get(name, ())) for name, v in params.items()}


def parameter_value(value: Any, choices: tuple[str, ...]) -> int | float:
    """Return a parameter as handlers see it: -1 for None or a list, a choice's index, 0 or 1 for a
    bool."""
    if value is None or isinstance(value, tuple):
        return -1
    if isinstance(value, str):
        return choices.index(value) if value in choices else -1
    if isinstance(value, Bdp):
        return 0  # a different number at each port (`PortSizes`)
    return value if isinstance(value, float) else int(value)


class Handled:
    """Declarations of a plugin's file with handlers."""

    handlers: Mapping[str, FunctionType]

    def has(self, handler: str) -> bool:
        """Return whether the file defines this handler."""
        return self.handlers[handler] is not DEFAULTS[handler]


TABLES = (HANDLERS, QUEUE_HANDLERS, ROUTING_HANDLERS)
DEFAULTS = {name: row.default for table in TABLES for name, row in table.items()}
"""The defaults for handlers that a file does not define."""


# --- transports -----------------------------------------------------------------------------------

SETTABLE = {
    "tx": ("prio", "entropy", "retransmits"),
    "rx": ("prio", "entropy"),
    BUILT: ("seq", "aux", "prio", "entropy", "kind", "ecn"),
    SENT: ("seq", "aux", "prio", "entropy", "ecn", "size_bytes"),
}
"""Engine fields that a transport may set, in addition to its own fields."""

DECLARATIONS = (
    *("PARAMS", "PRESETS", "FABRIC", "PRESET_FABRIC"),
    *("TX_STATE", "RX_STATE", "HOST_STATE", "PACKET_FIELDS"),
    *("TX_TIMERS", "RX_TIMERS", "HOST_TIMERS", "TX_BITMAPS", "RX_BITMAPS"),
    *("CONTROL_PER_DATA", "RELIABLE", "CLOSED_FORM", "TRACE"),
)
"""Names that a transport may declare."""


@dataclass(frozen=True)
class Protocol(Handled):
    """A transport's state fields, timers, bitmaps, parameters and handlers."""

    modules: tuple[ModuleType, ...]
    tx: np.dtype
    rx: np.dtype
    host: np.dtype
    packet: np.dtype
    pars: tuple[np.dtype, ...]
    tx_timers: int
    rx_timers: int
    host_timers: int
    tx_bitmaps: int
    rx_bitmaps: int
    handlers: Mapping[str, FunctionType]
    own_names: tuple[Mapping[str, str], ...] = ({},)
    """For each transport: record names of fields that its file names differently."""


def counted(declared: int | Mapping[str, int], params: Mapping[str, Any]) -> int:
    """Return the number of bitmaps: as declared, or summed over the parameters that are set."""
    if isinstance(declared, int):
        return declared
    return sum(n for name, n in declared.items() if params.get(name))


def read_protocol(module: ModuleType, params: Mapping[str, Any], name: str) -> Protocol:
    """Check a transport's declarations. Raises InputError."""
    declared = PluginFile(module, name)
    return Protocol(
        modules=(module,),
        tx=declared.record("TX_STATE", fields.TxRecord, padded=True),
        rx=declared.record("RX_STATE", fields.RxRecord, padded=True),
        host=declared.record("HOST_STATE", fields.HostRecord),
        packet=declared.record("PACKET_FIELDS", fields.PacketRecord),
        pars=(declared.parameters(params, fields.ParameterRecord),),
        tx_timers=declared.count("TX_TIMERS", layout.MAX_TIMERS - 1),
        rx_timers=declared.count("RX_TIMERS", layout.MAX_TIMERS),
        host_timers=declared.count("HOST_TIMERS", layout.MAX_TIMERS),
        tx_bitmaps=declared.count("TX_BITMAPS", 16, params),
        rx_bitmaps=declared.count("RX_BITMAPS", 16, params),
        handlers={name: declared.handler(handler) for name, handler in HANDLERS.items()},
    )


# --- queue disciplines ----------------------------------------------------------------------------

QUEUE_SETTABLE = {
    COMING: ("aux", "prio", "entropy", "ecn"),
    LEAVING: ("aux", "prio", "entropy", "ecn"),
}
"""Engine fields that a discipline may set, in addition to its own fields."""

QUEUE_DECLARATIONS = (
    *("PARAMS", "PRESETS", "CLASSES", "COUPLED", "PORT_TIMERS"),
    *("PORT_STATE", "CLASS_STATE", "SWITCH_STATE", "PACKET_FIELDS"),
)
"""Names that a queue discipline may declare."""

ONLY_COUPLED = (
    *("on_arrival", "on_departure", "on_drop", "on_pause", "on_port_timer"),
    *("has_credit", "use_credit", "return_credit", "on_message"),
)
MAX_PORT_TIMERS = 4


@dataclass(frozen=True)
class Discipline(Handled):
    """A queue discipline's state, parameters, handlers and the services that these call. ``packet``
    has none of the transports' fields."""

    module: ModuleType
    port: np.dtype
    queue: np.dtype
    switch: np.dtype
    packet: np.dtype
    par: np.dtype
    coupled: bool
    n_timers: int
    handlers: Mapping[str, FunctionType]
    services: frozenset[Callable[..., Any]]

    def has_field(self, name: str) -> bool:
        """Return whether its ports have this field."""
        return name in (self.port.names or ())

    @property
    def reorders(self) -> bool:
        """Whether packets may arrive at the end of a link in a different order than sent."""
        late = self.has_field("response_ps") or self.has_field("pause_ps")
        return late or self.has("on_message")

    @property
    def moves_packets(self) -> bool:
        """Whether it moves packets between queues."""
        return ports.pop_tail in self.services

    @property
    def makes_packets(self) -> bool:
        """Whether its switches make or return packets."""
        return not self.services.isdisjoint((made_packets.bounce, made_packets.emit))

    @property
    def knows_sources(self) -> bool:
        """Whether its handlers ask where packets come from."""
        return self.makes_packets or made_packets.source_of in self.services

    @property
    def is_shaped(self) -> bool:
        """Whether it can hold back a port that has packets."""
        return self.has("choose_class") and ports.wait_until in self.services

    @property
    def pauses(self) -> bool:
        """Whether it pauses neighbors with PFC."""
        return ports.pause in self.services or ports.resume in self.services


def read_discipline(module: ModuleType, params: Mapping[str, Any], name: str) -> Discipline:
    """Check a queue discipline's declarations. Raises InputError."""
    declared = PluginFile(module, name)
    coupled = declared.flag("COUPLED")
    switch = declared.record("SWITCH_STATE", fields.SwitchRecord, padded=True)
    if getattr(module, "SWITCH_STATE", ()) and not coupled:
        hint = "COUPLED = True has the ports of a switch simulated in the order of time"
        raise declared.wrong("SWITCH_STATE", "requires coupled ports", hint)
    handlers = {name: declared.handler(row) for name, row in QUEUE_HANDLERS.items()}
    has = {name: handlers[name] is not DEFAULTS[name] for name in handlers}
    for handler in ONLY_COUPLED:
        if has[handler] and not coupled:
            raise declared.wrong(handler, "requires coupled ports", "COUPLED = True")
    used = functions_of(module, [handlers[name] for name in handlers if has[name]])
    for service in (ports.port_at, made_packets.bounce, made_packets.emit):
        if service in used and not coupled:
            raise declared.wrong(
                f"{service.__name__}()", "requires coupled ports", "COUPLED = True"
            )
    if has["has_credit"] and has["choose_packet"]:
        raise declared.wrong(
            "has_credit", "is asked about the head, and choose_packet takes others"
        )
    if has["on_drop"] and not has["on_departure"]:
        raise declared.wrong("on_drop", "requires on_departure")
    n_timers = declared.count("PORT_TIMERS", MAX_PORT_TIMERS)
    if (has["on_port_timer"] or ports.set_timer in used or ports.timer_of in used) and not n_timers:
        raise declared.wrong("PORT_TIMERS", "on_port_timer and set_timer() require it", "1")
    if n_timers and not coupled:
        raise declared.wrong("PORT_TIMERS", "requires coupled ports", "COUPLED = True")
    if ports.send_message in used and not has["on_message"]:
        raise declared.wrong("on_message", "send_message() requires it")
    own = declared.fields("PORT_STATE", layout.fields_of(fields.PortRecord))
    own += (("timers_ps", n_timers),) if n_timers else ()
    own += ("frames_sent", "frame_heard") if "pause_ps" in own else ()
    return Discipline(
        module=module,
        port=layout.padded_record_of(fields.PortRecord, *own),
        queue=declared.record("CLASS_STATE", fields.QueueRecord, padded=True),
        switch=switch,
        packet=declared.record("PACKET_FIELDS", fields.PacketRecord),
        par=declared.parameters(params, fields.QueueParameters),
        coupled=coupled,
        n_timers=n_timers,
        handlers=handlers,
        services=frozenset(used),
    )


# --- programs -------------------------------------------------------------------------------------

PROGRAM_SETTABLE: Mapping[str, tuple[str, ...]] = {}
"""A program sets no engine fields; services change them."""

PROGRAM_DECLARATIONS = ("PARAMS", "PRESETS", "HOST_STATE", "TASK_STATE", "TIMERS", "LOG")
"""Names that a program may declare."""


@dataclass(frozen=True)
class Program:
    """A program's state, timers per host, log, parameters and handlers. ``resizes``: it may set
    flow sizes. ``has_words``: it may set numbers that flows carry. ``modules``: its file's module,
    or none without a program."""

    modules: tuple[ModuleType, ...]
    host: np.dtype
    task: np.dtype
    par: np.dtype
    timers: int
    log: tuple[str, ...]
    resizes: bool
    has_words: bool
    handlers: Mapping[str, FunctionType]

    @property
    def sets_flows(self) -> bool:
        """Return whether it may set sizes or words of flows."""
        return self.resizes or self.has_words


NO_NUMBERS = ("text", "file", "sizes", "topology", "job", "jobs")
BROKEN_NUMBERS = ("fraction", "ratio")
"""Units of parameters that handlers do not see, and of float64 parameters."""

SIZES = ("size_bytes", "n_packets", "last_bytes")
"""Fields of a flow that are fixed at its start if a program sets sizes."""

LOG_OF_THE_ENGINE = ("host", "time_ps")  # columns of every log, before the program's own

NO_PROGRAM = Program(
    modules=(),
    host=layout.PROGRAM_HOST,
    task=layout.TASK,
    par=layout.record_of(CommonParameters),
    timers=0,
    log=(),
    resizes=False,
    has_words=False,
    handlers={name: row.default for name, row in PROGRAM_HANDLERS.items()},
)
"""No program."""


def program_parameters(plugin: Plugin, params: Mapping[str, Any]) -> dict[str, int | float]:
    """Return the parameters of a traffic pattern that handlers see: numbers and choices. Names and
    types do not depend on the values, so all experiments share compiled code."""
    found = {}
    for param in plugin.params:
        if param.name in params and param.unit not in NO_NUMBERS and not param.each:
            value = parameter_value(params[param.name], param.choices)
            found[param.name] = float(value) if param.unit in BROKEN_NUMBERS else value
    return found


def read_program(module: ModuleType, params: Mapping[str, Any], name: str) -> Program:
    """Check a program's declarations. Raises InputError."""
    declared = PluginFile(module, name)
    handlers = {name: declared.handler(row) for name, row in PROGRAM_HANDLERS.items()}
    used = functions_of(module, handlers.values())
    return Program(
        modules=(module,),
        host=declared.record("HOST_STATE", fields.ProgramHostRecord),
        task=declared.record("TASK_STATE", fields.ProgramTaskRecord),
        par=declared.parameters(params),
        timers=declared.count("TIMERS", layout.MAX_TIMERS),
        log=declared.names("LOG", LOG_OF_THE_ENGINE),
        resizes=tasks.set_size in used,
        has_words=tasks.set_words in used,
        handlers=handlers,
    )


def check_setups(program: Program, uses: Iterable[PluginSpec]) -> None:
    """Refuse transports whose `setup` reads flow sizes, if the program sets some later. Raises
    InputError with the file and the line."""
    if not program.resizes:
        return
    file = Path(str(program.modules[0].__file__)).name
    for use in uses:
        setup = getattr(use.module, "setup", None)
        if setup is None:
            continue
        used = functions_of(use.module, [setup], within=True)
        read = set().union(*map(_loaded, used))
        for name in (name for name in SIZES if name in read):
            code = setup.__code__
            message = f"setup looks at {name}, and {file} sets it later"
            hint = "on_start is called when it is known"
            raise at_line(Path(code.co_filename), code.co_firstlineno, message, hint)


def _loaded(function: Any) -> set[str]:
    """Return the names of the fields that a function reads."""
    steps = dis.get_instructions(function.__code__)
    return {str(step.argval) for step in steps if step.opname in ("LOAD_ATTR", "LOAD_METHOD")}


def program_of(use: PluginSpec | None) -> Program:
    """Return the program of a run, or `NO_PROGRAM`. Raises InputErrors like `read_program`."""
    if use is None:
        return NO_PROGRAM
    return read_program(use.module, program_parameters(use.plugin, use.params), use.plugin.name)


# --- routing algorithms ---------------------------------------------------------------------------

ROUTING_SETTABLE = {"port": ("draws",)}
"""Engine fields that a routing algorithm may set, in addition to its own fields."""

ROUTING_DECLARATIONS = (
    *("PARAMS", "PRESETS", "COUPLED", "VIA", "LEVELS", "ONE_PATH", "SYMMETRIC", "WEIGHTED"),
    *("MAX_HOPS", "PORT_STATE", "PORT_SALTS", "SWITCH_STATE", "PLANE_STATE", "PACKET_FIELDS"),
    *("FLOW_TABLE", "FLOW_ROWS", "PUBLISHED"),
)
"""Names that a routing algorithm may declare."""

COUPLED_ROUTING = ("on_depart", "on_tick")
OTHERS = tuple(name for name in ROUTING_HANDLERS if name[:6] != "choose")
FLOW_ROWS, MAX_PUBLISHED = 1024, 1024
"""Default number of flow-table rows, and the maximum number of values that a switch publishes."""

VIA = "via"  # field of a packet: the group that it goes via, plus 1

Salt = tuple[str, int, int, int]
"""Port field that is filled with a hash: its name, purpose, and numbers a and b; port ``number``
draws as entity ``a * number + b``."""


@dataclass(frozen=True)
class RoutingAlgorithm(Handled):
    """A routing algorithm's state, parameters and handlers. ``packet`` has none of the transports'
    fields. ``ahead``: its choices do not depend on anything that changes during a run. ``via``:
    packets may go via another group. A flow table has ``n_rows``, or 0; a switch publishes
    ``n_published`` values. ``uses`` are the functions that handlers refer to."""

    module: ModuleType
    port: np.dtype
    switch: np.dtype
    packet: np.dtype
    row: np.dtype
    plane: np.dtype
    par: np.dtype
    coupled: bool
    ahead: bool
    via: bool
    n_rows: int
    n_published: int
    salts: tuple[Salt, ...]
    handlers: Mapping[str, FunctionType]
    uses: frozenset[Callable[..., Any]]


def read_routing(module: ModuleType, params: Mapping[str, Any], name: str) -> RoutingAlgorithm:
    """Check a routing algorithm's declarations. Raises InputError."""
    declared = PluginFile(module, name)
    coupled, via = declared.flag("COUPLED"), declared.flag(VIA.upper())
    salts = _salts(declared)
    state = declared.fields("PORT_STATE", layout.fields_of(fields.RoutingPortRecord))
    row = declared.fields("FLOW_TABLE")
    packet = declared.names("PACKET_FIELDS", (*layout.fields_of(fields.PacketRecord), VIA))
    for one in (
        one for one, *_ in salts if one in (*state, *layout.fields_of(fields.RoutingPortRecord))
    ):
        raise declared.wrong("PORT_SALTS", f"duplicate or reserved field {one}")
    handlers = {name: declared.handler(row) for name, row in ROUTING_HANDLERS.items()}
    has = {name: handlers[name] is not DEFAULTS[name] for name in handlers}
    used = functions_of(module, [handlers[name] for name in handlers if has[name]])
    needs = [name for name in COUPLED_ROUTING if has[name]]
    needs += ["SWITCH_STATE"] if getattr(module, "SWITCH_STATE", ()) else []
    needs += [f"{one.__name__}()" for one in (routing.held, routing.publish) if one in used]
    if needs and not coupled:
        what = f"{needs[0]}, which it calls," if needs[0][-1] == ")" else ""
        message = f"{what} requires coupled ports".strip()
        hint = "COUPLED = True has the ports of a switch simulated in the order of time"
        raise declared.wrong("COUPLED" if what else needs[0], message, hint)
    if (routing.set_via in used or routing.via_of in used) and not via:
        raise declared.wrong("VIA", "set_via() and via_of() require it", "VIA = True")
    if routing.set_level in used and getattr(module, "LEVELS", 1) == 1:
        raise declared.wrong("LEVELS", "set_level() requires it", "LEVELS = 2")
    if routing.flow_row in used and not row:
        raise declared.wrong("FLOW_TABLE", "flow_row() requires it", 'FLOW_TABLE = ("last_ps",)')
    n_published = declared.count("PUBLISHED", MAX_PUBLISHED)
    if (routing.publish in used or routing.published in used) and not n_published:
        raise declared.wrong("PUBLISHED", "publish() and published() require it", "PUBLISHED = 1")
    if n_published and "publish_delay" not in params:
        hint = 'Param("publish_delay", "time", "2us", "age of published values")'
        raise declared.wrong("PUBLISHED", "requires a parameter publish_delay", hint)
    if has["on_tick"] and "tick" not in params:
        hint = 'Param("tick", "time", "10us", "period")'
        raise declared.wrong("on_tick", "requires a parameter tick", hint)
    own = (*state, *(one for one, *_ in salts))
    return RoutingAlgorithm(
        module=module,
        port=layout.record_of(fields.RoutingPortRecord, *own),
        switch=declared.record("SWITCH_STATE", fields.RouterRecord, padded=True),
        packet=layout.record_of(fields.PacketRecord, *packet, *([VIA] if via else [])),
        row=layout.record_of(Declared, *(row or ("unused",))),
        plane=declared.record("PLANE_STATE", fields.PortChoiceRecord),
        par=declared.parameters(params),
        coupled=coupled,
        ahead=declared.flag("ONE_PATH") and not (own or row) and not any(has[n] for n in OTHERS),
        via=via,
        n_rows=int(getattr(module, "FLOW_ROWS", FLOW_ROWS)) if row else 0,
        n_published=n_published,
        salts=salts,
        handlers=handlers,
        uses=frozenset(used),
    )


def _salts(declared: PluginFile) -> tuple[Salt, ...]:
    """Return PORT_SALTS. Raises InputError if it has another form."""
    salts = getattr(declared.module, "PORT_SALTS", ())
    for salt in salts if isinstance(salts, tuple) else [salts]:
        kinds = [type(one) for one in salt] if isinstance(salt, Sequence) else []
        if kinds != [str, int, int, int] or not str(salt[0]).isidentifier():
            hint = 'PORT_SALTS = (("salt", 128, 1, 0),): field, purpose, and entity 1 * number + 0'
            raise declared.wrong("PORT_SALTS", f"{salt!r} is not a salt", hint)
    return tuple(salts)
