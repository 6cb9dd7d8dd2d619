"""What can be said of a transport without running it: done whenever one is about to be used."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import ModuleType
from typing import Any

from netsim.engine.compiling.plugin_file import plugin_parameters
from netsim.engine.compiling.protocol import read_protocol
from netsim.errors import InputError, raise_all
from netsim.lint.handlers import mistakes
from netsim.lint.names import lookalikes
from netsim.plugins.registry import Plugin

__all__ = ["check_transport"]


def check_transport(plugin: Plugin, params: Mapping[str, Any]) -> None:
    """Check what a transport declares and what its handlers do; `params` are its resolved ones.

    Raises InputError with the file and the line of each mistake.
    """
    if not getattr(plugin.module, "CLOSED_FORM", False):
        values = plugin_parameters(plugin, params)
        types = tuple((name, type(value)) for name, value in values.items())
        raise_all(_mistakes(plugin.module, plugin.name, types))


@lru_cache(maxsize=64)
def _mistakes(
    module: ModuleType, name: str, types: tuple[tuple[str, type], ...]
) -> tuple[InputError, ...]:
    """The points of a sweep have parameters of the same types, most of them."""
    found = lookalikes(module)
    try:
        protocol = read_protocol(module, {name: kind() for name, kind in types}, name)
        found += mistakes(protocol)
    except InputError as error:
        found += error.errors
    except RecursionError:
        hint = "several statements instead of one"
        found.append(InputError("is nested too deeply", file=module.__file__, hint=hint))
    return tuple(found)
