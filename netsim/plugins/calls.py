"""Call a plugin's functions before a run; report failures with file and line."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from netsim.errors import InputError
from netsim.plugins import files
from netsim.plugins.registry import PluginSpec
from netsim.units import shortened


def call(use: PluginSpec, function: str, *args: Any) -> Any:
    """Return what a plugin's function returns; if it fails, raise InputError with file and line.

    An InputError of the function itself passes unchanged.
    """
    with _blamed(use, function):
        return getattr(use.module, function)(*args)


def problems(use: PluginSpec, *args: Any) -> list[InputError]:
    """Return the errors that a queue discipline's `check` yields, if it has one."""
    if not hasattr(use.module, "check"):
        return []
    with _blamed(use, "check"):
        found = list(use.module.check(use.params, *args) or ())
    for one in found:
        if not isinstance(one, InputError):
            raise _bad_return(use, "check", one, "it must yield InputErrors")
    return found


def no_effect(use: PluginSpec) -> dict[str, tuple[str, str]]:
    """Return a queue discipline's parameters without effect: name -> (why, what to do)."""
    if not hasattr(use.module, "no_effect"):
        return {}
    found = call(use, "no_effect", use.params)
    known = {param.name for param in use.plugin.params}
    if (
        not isinstance(found, Mapping)
        or not found.keys() <= known
        or not all(_is_pair_of_texts(value) for value in found.values())
    ):
        hint = 'return a dict like {"alpha": ("without a buffer", "remove it")}'
        raise _bad_return(use, "no_effect", found, hint)
    return dict(found)


def legs_of(use: PluginSpec) -> Callable[[Any], Any] | None:
    """Return a routing algorithm's function from the demand between groups to that of each leg of
    packets' ways (`netsim.model.paths`); None if it has none. It raises InputError unless
    that is float64[groups, groups], not below zero, as the demand is."""
    if not hasattr(use.module, "legs"):
        return None

    def legs(demand: Any) -> Any:
        found = call(use, "legs", use.params, demand)
        fits = getattr(found, "shape", None) == demand.shape and found.dtype.kind in "fiu"
        if fits and (found >= 0).all():
            return found
        hint = f"it must return {len(demand)} by {len(demand)} numbers, not below zero"
        raise _bad_return(use, "legs", found, hint)

    return legs


def settled(use: PluginSpec, *args: Any) -> PluginSpec:
    """Return a queue discipline with its parameters settled for a network."""
    if not hasattr(use.module, "settle"):
        return use
    params = call(use, "settle", dict(use.params), *args)
    if not isinstance(params, Mapping) or params.keys() != use.params.keys():
        raise _bad_return(use, "settle", params, "it must return the same parameters")
    return replace(use, params=dict(params))


def _is_pair_of_texts(value: Any) -> bool:
    is_pair = isinstance(value, tuple) and len(value) == 2
    return is_pair and all(isinstance(one, str) for one in value)


def _bad_return(use: PluginSpec, function: str, found: object, hint: str) -> InputError:
    message = f"{function}() returned {shortened(repr(found))}"
    return InputError(message, file=str(use.plugin.path), hint=hint)


@contextmanager
def _blamed(use: PluginSpec, function: str) -> Iterator[None]:
    path = str(use.plugin.path)
    try:
        yield
    except (InputError, MemoryError, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit included
        if use.module.__name__.startswith("netsim."):
            raise  # a netsim bug
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == path]
        message = f"{function}() raised {files.describe(error)}"
        raise InputError(message, file=f"{path}:{lines[-1]}" if lines else path) from error
