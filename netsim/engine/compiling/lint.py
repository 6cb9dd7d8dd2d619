"""Check transports, queue disciplines, routing algorithms and programs before each use, without
running them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from types import ModuleType
from typing import Any

from netsim.engine.compiling.declarations import (
    DECLARATIONS,
    PROGRAM_DECLARATIONS,
    QUEUE_DECLARATIONS,
    program_parameters,
    read_discipline,
    read_program,
    read_protocol,
)
from netsim.engine.compiling.lint_handlers import mistakes
from netsim.engine.compiling.lint_names import lookalikes
from netsim.engine.compiling.lint_records import (
    Records,
    program_records,
    queue_records,
    routing_records,
    transport_records,
)
from netsim.engine.compiling.plugin_file import plugin_parameters
from netsim.engine.compiling.routing_declarations import ROUTING_DECLARATIONS, read_routing
from netsim.engine.kernels.handlers import (
    HANDLERS,
    PROGRAM_HANDLERS,
    QUEUE_HANDLERS,
    ROUTING_HANDLERS,
    HandlerTable,
)
from netsim.errors import InputError, raise_all
from netsim.model.programs import is_program
from netsim.plugins.registry import Plugin

__all__ = ["check"]

Types = tuple[tuple[str, type], ...]
"""Names and types of a plugin's parameters: mostly the same at all points of a sweep."""


def check(plugin: Plugin, params: Mapping[str, Any]) -> None:
    """Check a plugin's declarations and handlers, if it has any; `params` are resolved.

    Raises InputError with the file and line of each mistake.
    """
    numbers: Mapping[str, Any]
    if plugin.kind not in _KINDS or getattr(plugin.module, "CLOSED_FORM", False):
        return
    if plugin.kind != "traffic":
        numbers = plugin_parameters(plugin, params)
    elif is_program(plugin.module):
        numbers = program_parameters(plugin, params)
    else:
        return
    types = tuple((name, type(value)) for name, value in numbers.items())
    raise_all(_errors(plugin.kind, plugin.module, plugin.name, types))


_KINDS: dict[
    str, tuple[Callable[..., Any], HandlerTable, Callable[[Any], Records], Collection[str]]
] = {
    "transport": (read_protocol, HANDLERS, transport_records, DECLARATIONS),
    "queue": (read_discipline, QUEUE_HANDLERS, queue_records, QUEUE_DECLARATIONS),
    "routing": (read_routing, ROUTING_HANDLERS, routing_records, ROUTING_DECLARATIONS),
    "traffic": (read_program, PROGRAM_HANDLERS, program_records, PROGRAM_DECLARATIONS),
}
"""Kind -> (reader of its file, its handlers, its records, its declarations)."""


@lru_cache(maxsize=192)
def _errors(kind: str, module: ModuleType, name: str, types: Types) -> tuple[InputError, ...]:
    read, handlers, records, declarations = _KINDS[kind]
    known = (*handlers, "flows") if kind == "traffic" else handlers
    found = lookalikes(module, known, declarations)
    try:
        plugin = read(module, {param: number() for param, number in types}, name)
        return (*found, *mistakes(plugin.handlers, handlers, records(plugin)))
    except InputError as error:
        return (*found, *error.errors)
    except RecursionError:
        hint = "split the statement"
        return (*found, InputError("is nested too deeply", file=module.__file__, hint=hint))
