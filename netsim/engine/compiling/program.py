"""A program's file: its checked declarations and its handlers."""

from __future__ import annotations

import dis
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from netsim.engine.compiling.plugin_file import (
    MAX_STATE_BYTES,
    PluginFile,
    functions_of,
    parameter_value,
)
from netsim.engine.kernels.fields import CommonParameters
from netsim.engine.kernels.layout import (
    COMMON_PARAMETERS,
    MAX_TIMERS,
    PROGRAM_HOST,
    PROGRAM_HOST_FIELDS,
    PROGRAM_TASK_FIELDS,
    TASK,
    record_of,
)
from netsim.engine.kernels.program_handlers import PROGRAM_HANDLERS
from netsim.engine.kernels.program_services import set_size
from netsim.engine.kernels.task_fields import ProgramHostRecord, ProgramTaskRecord
from netsim.inputs import at_line
from netsim.plugins.registry import Plugin, PluginSpec

PROGRAM_SETTABLE: Mapping[str, tuple[str, ...]] = {}
"""A program sets no engine fields; services change them."""

PROGRAM_DECLARATIONS = ("PARAMS", "PRESETS", "HOST_STATE", "TASK_STATE", "TIMERS", "LOG")
"""Names that a program may declare."""


@dataclass(frozen=True)
class Program:
    """A program's state, timers per host, log, parameters and handlers.

    ``resizes``: it may set flow sizes. ``modules``: that of its file, or none without a program.
    """

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

LOG_OF_THE_ENGINE = ("host", "time_ps")
"""Columns of every log, before the program's own."""

MAX_LOG_COLUMNS = 64

NO_PROGRAM = Program(
    modules=(),
    host=PROGRAM_HOST,
    task=TASK,
    par=record_of(CommonParameters),
    timers=0,
    log=(),
    resizes=False,
    handlers={name: row.default for name, row in PROGRAM_HANDLERS.items()},
)
"""No program."""


def program_parameters(plugin: Plugin, params: Mapping[str, Any]) -> dict[str, int | float]:
    """Return the parameters of a traffic pattern that handlers see: numbers and choices.

    Names and types do not depend on the values, so all experiments share compiled code.
    """
    found = {}
    for param in plugin.params:
        if param.name in params and param.unit not in NO_NUMBERS and not param.each:
            value = parameter_value(params[param.name], param.choices)
            found[param.name] = float(value) if param.unit in BROKEN_NUMBERS else value
    return found


def read_program(module: ModuleType, params: Mapping[str, Any], name: str) -> Program:
    """Check a program's declarations. Raises InputError."""
    declared = PluginFile(module, name)
    host = declared.fields("HOST_STATE", PROGRAM_HOST_FIELDS, MAX_STATE_BYTES)
    task = declared.fields("TASK_STATE", PROGRAM_TASK_FIELDS, MAX_STATE_BYTES)
    handlers = {name: declared.handler(row) for name, row in PROGRAM_HANDLERS.items()}
    return Program(
        modules=(module,),
        host=record_of(ProgramHostRecord, *host),
        task=record_of(ProgramTaskRecord, *task),
        par=record_of(CommonParameters, *declared.parameters(params, COMMON_PARAMETERS)),
        timers=declared.count("TIMERS", MAX_TIMERS),
        log=declared.names("LOG", LOG_OF_THE_ENGINE, MAX_LOG_COLUMNS),
        resizes=set_size in functions_of(module, handlers.values()),
        handlers=handlers,
    )


def check_setups(program: Program, uses: Iterable[PluginSpec]) -> None:
    """Refuse transports whose `setup` reads flow sizes, if the program sets some later.

    Raises InputError with the file and the line.
    """
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
