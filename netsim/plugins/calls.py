"""Calls of what a plugin's file does before a run; what goes wrong there is told with its line."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from netsim.errors import InputError
from netsim.plugins import files
from netsim.plugins.registry import PluginSpec
from netsim.units import shortened


def call(use: PluginSpec, function: str, *args: Any) -> Any:
    """What a function of a plugin gives; InputError with its file and line if that fails.

    Errors of input that the function raises itself stay what they are.
    """
    with _blamed(use, function):
        return getattr(use.module, function)(*args)


def problems(use: PluginSpec, *args: Any) -> list[InputError]:
    """The errors that the `check` of a queue discipline yields, none if it has none."""
    if not hasattr(use.module, "check"):
        return []
    with _blamed(use, "check"):
        found = list(use.module.check(use.params, *args) or ())
    for one in found:
        if not isinstance(one, InputError):
            raise _not(use, "check", one, "it yields InputErrors")
    return found


def no_effect(use: PluginSpec) -> dict[str, tuple[str, str]]:
    """The parameters of a queue discipline that make no difference: name -> (why, what to do)."""
    if not hasattr(use.module, "no_effect"):
        return {}
    found = call(use, "no_effect", use.params)
    known = {param.name for param in use.plugin.params}
    if (
        not isinstance(found, Mapping)
        or not found.keys() <= known
        or not all(_is_pair_of_texts(value) for value in found.values())
    ):
        raise _not(use, "no_effect", found, 'such as {"alpha": ("without a buffer", "remove it")}')
    return dict(found)


def settled(use: PluginSpec, *args: Any) -> PluginSpec:
    """A queue discipline with its parameters settled for a network."""
    if not hasattr(use.module, "settle"):
        return use
    params = call(use, "settle", dict(use.params), *args)
    if not isinstance(params, Mapping) or params.keys() != use.params.keys():
        raise _not(use, "settle", params, "the parameters, as it was given them")
    return replace(use, params=dict(params))


def _is_pair_of_texts(value: Any) -> bool:
    is_pair = isinstance(value, tuple) and len(value) == 2
    return is_pair and all(isinstance(one, str) for one in value)


def _not(use: PluginSpec, function: str, found: object, hint: str) -> InputError:
    message = f"{function}() gives {shortened(repr(found))}"
    return InputError(message, file=str(use.plugin.path), hint=hint)


@contextmanager
def _blamed(use: PluginSpec, function: str) -> Iterator[None]:
    path = str(use.plugin.path)
    try:
        yield
    except (InputError, MemoryError, KeyboardInterrupt):
        raise
    except BaseException as error:  # an exit is one, too
        if use.module.__name__.startswith("netsim."):
            raise  # a fault of netsim itself
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == path]
        message = f"{function}() raises {files.words(error)}"
        raise InputError(message, file=f"{path}:{lines[-1]}" if lines else path) from error
