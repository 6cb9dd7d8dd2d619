"""What can be said of transports, queue disciplines and programs without running them.

It is done whenever one is about to be used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import ModuleType
from typing import Any

from netsim.engine.compiling.discipline import QUEUE_DECLARATIONS, read_discipline
from netsim.engine.compiling.plugin_file import plugin_parameters
from netsim.engine.compiling.program import PROGRAM_DECLARATIONS, program_parameters, read_program
from netsim.engine.compiling.protocol import DECLARATIONS, read_protocol
from netsim.engine.kernels.handlers import HANDLERS
from netsim.engine.kernels.program_handlers import PROGRAM_HANDLERS
from netsim.engine.kernels.queue_handlers import QUEUE_HANDLERS
from netsim.errors import InputError, raise_all
from netsim.lint.handlers import mistakes
from netsim.lint.names import lookalikes
from netsim.lint.records import program_records, queue_records, transport_records
from netsim.model.programs import is_program
from netsim.plugins.registry import Plugin

__all__ = ["check_program", "check_queue", "check_transport"]

Types = tuple[tuple[str, type], ...]
"""The parameters of a plugin by name; the points of a sweep have the same types, most of them."""


def check_transport(plugin: Plugin, params: Mapping[str, Any]) -> None:
    """Check what a transport declares and what its handlers do; `params` are its resolved ones.

    Raises InputError with the file and the line of each mistake.
    """
    if not getattr(plugin.module, "CLOSED_FORM", False):
        raise_all(_in_transport(plugin.module, plugin.name, _types(plugin, params)))


def check_queue(plugin: Plugin, params: Mapping[str, Any]) -> None:
    """As `check_transport`, of a queue discipline."""
    raise_all(_in_queue(plugin.module, plugin.name, _types(plugin, params)))


def check_program(plugin: Plugin, params: Mapping[str, Any]) -> None:
    """As `check_transport`, of a traffic pattern, if its file has handlers."""
    if is_program(plugin.module):
        numbers = program_parameters(plugin, params)
        types = tuple((name, type(value)) for name, value in numbers.items())
        raise_all(_in_program(plugin.module, plugin.name, types))


def _types(plugin: Plugin, params: Mapping[str, Any]) -> Types:
    return tuple((name, type(value)) for name, value in plugin_parameters(plugin, params).items())


@lru_cache(maxsize=64)
def _in_transport(module: ModuleType, name: str, types: Types) -> tuple[InputError, ...]:
    def followed() -> list[InputError]:
        protocol = read_protocol(module, {name: kind() for name, kind in types}, name)
        return mistakes(protocol.handlers, HANDLERS, transport_records(protocol))

    return (*lookalikes(module, HANDLERS, DECLARATIONS), *_told(module, followed))


@lru_cache(maxsize=64)
def _in_queue(module: ModuleType, name: str, types: Types) -> tuple[InputError, ...]:
    def followed() -> list[InputError]:
        discipline = read_discipline(module, {name: kind() for name, kind in types}, name)
        return mistakes(discipline.handlers, QUEUE_HANDLERS, queue_records(discipline))

    return (*lookalikes(module, QUEUE_HANDLERS, QUEUE_DECLARATIONS), *_told(module, followed))


@lru_cache(maxsize=64)
def _in_program(module: ModuleType, name: str, types: Types) -> tuple[InputError, ...]:
    def followed() -> list[InputError]:
        program = read_program(module, {name: kind() for name, kind in types}, name)
        return mistakes(program.handlers, PROGRAM_HANDLERS, program_records(program))

    known = (*PROGRAM_HANDLERS, "flows")
    return (*lookalikes(module, known, PROGRAM_DECLARATIONS), *_told(module, followed))


def _told(module: ModuleType, followed: Callable[[], list[InputError]]) -> tuple[InputError, ...]:
    """What reading and following a file's handlers comes upon, also if it ends with an error."""
    try:
        return tuple(followed())
    except InputError as error:
        return error.errors
    except RecursionError:
        hint = "several statements instead of one"
        return (InputError("is nested too deeply", file=module.__file__, hint=hint),)
