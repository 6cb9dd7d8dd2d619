"""Checked declarations and handlers of a transport, a queue discipline and a program."""

from __future__ import annotations

import dis
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from netsim.common.inputs import at_line
from netsim.engine.compiling.plugin_file import (
    PluginFile,
    functions_of,
    parameter_value,
)
from netsim.engine.kernels import fields
from netsim.engine.kernels.handlers import (
    BUILT,
    COMING,
    HANDLERS,
    LEAVING,
    PROGRAM_HANDLERS,
    QUEUE_HANDLERS,
    SENT,
)
from netsim.engine.kernels.layout import MAX_TIMERS, PROGRAM_HOST, TASK, record_of
from netsim.engine.kernels.queue_services import pause, pop_tail, resume, wait_until
from netsim.engine.kernels.tasks import set_size
from netsim.plugins.registry import Plugin, PluginSpec

SETTABLE = {
    "tx": ("prio", "entropy", "retransmits"),
    "rx": ("prio", "entropy"),
    BUILT: ("seq", "aux", "prio", "entropy", "kind", "ecn"),
    SENT: ("seq", "aux", "prio", "entropy", "ecn", "size_bytes"),
}
"""Engine fields that a transport may set, besides its own."""

DECLARATIONS = (
    *("PARAMS", "PRESETS", "FABRIC", "PRESET_FABRIC"),
    *("TX_STATE", "RX_STATE", "HOST_STATE", "PACKET_FIELDS"),
    *("TX_TIMERS", "RX_TIMERS", "HOST_TIMERS", "TX_BITMAPS", "RX_BITMAPS"),
    *("CONTROL_PER_DATA", "RELIABLE", "CLOSED_FORM", "TRACE"),
)
"""Names that a transport may declare."""


@dataclass(frozen=True)
class Protocol:
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

    def has(self, handler: str) -> bool:
        """Return whether the transport defines this handler."""
        return self.handlers[handler] is not HANDLERS[handler].default

    @property
    def features(self) -> dict[str, bool]:
        """Specialization constants of a transport."""
        return {
            "HAS_RANK": self.has("rank"),
            "TELEMETRY": self.has("on_forward"),
        }


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
        tx_timers=declared.count("TX_TIMERS", MAX_TIMERS - 1),
        rx_timers=declared.count("RX_TIMERS", MAX_TIMERS),
        host_timers=declared.count("HOST_TIMERS", MAX_TIMERS),
        tx_bitmaps=declared.count("TX_BITMAPS", 16),
        rx_bitmaps=declared.count("RX_BITMAPS", 16),
        handlers={name: declared.handler(handler) for name, handler in HANDLERS.items()},
    )


QUEUE_SETTABLE = {
    COMING: ("aux", "prio", "entropy", "ecn"),
    LEAVING: ("aux", "prio", "entropy", "ecn"),
}
"""Engine fields that a discipline may set, besides its own."""

QUEUE_DECLARATIONS = (
    *("PARAMS", "PRESETS", "CLASSES", "COUPLED"),
    *("PORT_STATE", "CLASS_STATE", "SWITCH_STATE", "PACKET_FIELDS"),
)
"""Names that a queue discipline may declare."""

ONLY_COUPLED = ("on_arrival", "on_departure")


@dataclass(frozen=True)
class Discipline:
    """A queue discipline's state, parameters, handlers and features. ``packet`` has none of the
    transports' fields."""

    module: ModuleType
    port: np.dtype
    queue: np.dtype
    switch: np.dtype
    packet: np.dtype
    par: np.dtype
    coupled: bool
    handlers: Mapping[str, FunctionType]
    features: Mapping[str, bool]


def read_discipline(module: ModuleType, params: Mapping[str, Any], name: str) -> Discipline:
    """Check a queue discipline's declarations. Raises InputError."""
    declared = PluginFile(module, name)
    coupled = declared.flag("COUPLED")
    switch = declared.record("SWITCH_STATE", fields.SwitchRecord, padded=True)
    if getattr(module, "SWITCH_STATE", ()) and not coupled:
        hint = "COUPLED = True has the ports of a switch simulated in the order of time"
        raise declared.wrong("SWITCH_STATE", "requires coupled ports", hint)
    handlers = {name: declared.handler(row) for name, row in QUEUE_HANDLERS.items()}
    has = {name: handlers[name] is not row.default for name, row in QUEUE_HANDLERS.items()}
    for handler in ONLY_COUPLED:
        if has[handler] and not coupled:
            raise declared.wrong(handler, "requires coupled ports", "COUPLED = True")
    used = functions_of(module, [handlers[name] for name in handlers if has[name]])
    return Discipline(
        module=module,
        port=declared.record("PORT_STATE", fields.PortRecord, padded=True),
        queue=declared.record("CLASS_STATE", fields.QueueRecord, padded=True),
        switch=switch,
        packet=declared.record("PACKET_FIELDS", fields.PacketRecord),
        par=declared.parameters(params),
        coupled=coupled,
        handlers=handlers,
        features={
            "HAS_ON_ARRIVAL": has["on_arrival"],
            "HAS_CHOOSE_CLASS": has["choose_class"],
            "HAS_CHOOSE_PACKET": has["choose_packet"],
            "HAS_ON_SEND": has["on_send"],
            "HAS_ON_DEPARTURE": has["on_departure"],
            "MOVES_PACKETS": pop_tail in used,
            "IS_SHAPED": has["choose_class"] and wait_until in used,
            "HAS_PFC": pause in used or resume in used,
        },
    )


PROGRAM_SETTABLE: Mapping[str, tuple[str, ...]] = {}
"""A program sets no engine fields; services change them."""

PROGRAM_DECLARATIONS = ("PARAMS", "PRESETS", "HOST_STATE", "TASK_STATE", "TIMERS", "LOG")
"""Names that a program may declare."""


@dataclass(frozen=True)
class Program:
    """A program's state, timers per host, log, parameters and handlers. ``resizes``: it may set
    flow sizes. ``modules``: that of its file, or none without a program."""

    modules: tuple[ModuleType, ...]
    host: np.dtype
    task: np.dtype
    par: np.dtype
    timers: int
    log: tuple[str, ...]
    resizes: bool
    handlers: Mapping[str, FunctionType]

    @property
    def features(self) -> dict[str, int]:
        """Specialization constants of a program."""
        return {
            "PROGRAM": bool(self.modules),
            "N_PROGRAM_TIMERS": self.timers,
            "SETS_FLOW_SIZE": self.resizes,
        }


NO_NUMBERS = ("text", "file", "sizes", "topology", "job")
BROKEN_NUMBERS = ("fraction", "ratio")
"""Units of parameters that handlers do not see, and of those that are float64."""

SIZES = ("size_bytes", "n_packets", "last_bytes")
"""Fields of a flow that are fixed at its start if a program sets sizes."""

LOG_OF_THE_ENGINE = ("host", "time_ps")  # columns of every log, before the program's own

NO_PROGRAM = Program(
    modules=(),
    host=PROGRAM_HOST,
    task=TASK,
    par=record_of(fields.CommonParameters),
    timers=0,
    log=(),
    resizes=False,
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
    return Program(
        modules=(module,),
        host=declared.record("HOST_STATE", fields.ProgramHostRecord),
        task=declared.record("TASK_STATE", fields.ProgramTaskRecord),
        par=declared.parameters(params),
        timers=declared.count("TIMERS", MAX_TIMERS),
        log=declared.names("LOG", LOG_OF_THE_ENGINE),
        resizes=set_size in functions_of(module, handlers.values()),
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
    """Return the program of a run, or `NO_PROGRAM`. Raises InputError as `read_program` does."""
    if use is None:
        return NO_PROGRAM
    return read_program(use.module, program_parameters(use.plugin, use.params), use.plugin.name)
