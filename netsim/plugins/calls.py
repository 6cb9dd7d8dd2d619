"""Calls of what a plugin's file does before a run; what goes wrong there is told with its line."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from netsim.errors import InputError
from netsim.plugins import files
from netsim.plugins.registry import PluginUse
from netsim.units import shortened


def call(use: PluginUse, function: str, *args: Any) -> Any:
    """What a function of a plugin gives; InputError with its file and line if that fails.

    Errors of input that the function raises itself stay what they are.
    """
    with _blamed(use, function):
        return getattr(use.module, function)(*args)


def problems(use: PluginUse, function: str, *args: Any) -> list[InputError]:
    """The errors that a function of a plugin yields or returns, as `call`."""
    with _blamed(use, function):
        found = list(getattr(use.module, function)(*args) or ())
    for one in found:
        if not isinstance(one, InputError):
            message = f"{function}() gives {shortened(repr(one))}"
            raise InputError(message, file=str(use.plugin.path), hint="InputErrors")
    return found


@contextmanager
def _blamed(use: PluginUse, function: str) -> Iterator[None]:
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
