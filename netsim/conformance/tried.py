"""Try values of a plugin's parameters, with a limit on the memory that it may take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from netsim.conformance.finding import ConformanceError
from netsim.conformance.handler_monitor import explain
from netsim.errors import InputError
from netsim.plugins.registry import Plugin

TRIED: Mapping[str, tuple[Any, ...]] = {
    "count": (0, 1, 2, 3, 7, 2**31 - 1),
    "bytes": ("1B", "1TB"),
    "sizes": ("1B", "web_search"),
    "time": ("0ns", "1ps", "1h"),
    "rate": ("1bps", "1Tbps"),
    "fraction": (0, 0.001, 0.5, 1),
    "ratio": (0, 1e-9, 1, 1e9),
    "bool": (False, True),
    "text": ("", "x", "3", "4x4"),
    "file": ("missing.csv",),
}
"""Values to try for each kind of parameter, as written in an experiment."""

MORE_BYTES = 1 << 30
"""Most memory that a plugin may take in a test."""


class RefusedError(Exception):
    """The plugin refuses a network or parameters, and says which."""


def try_values(plugin: Plugin, attempt: Callable[[dict[str, Any]], Any]) -> str:
    """Try values of every parameter and return how many are refused.

    `attempt` gets a parameter with its value, as the plugin gets it, and raises RefusedError if it
    is refused. Raises ConformanceError for anything else that it raises.
    """
    n_tried = refused = 0
    for param in plugin.params:
        values = param.choices if param.unit == "choice" else TRIED.get(param.unit, ())
        for written in (*values, *([param.none] if param.optional else [])):
            try:
                value = param.convert(written)
            except InputError:
                continue
            n_tried += 1
            try:
                attempt({param.name: value})
            except RefusedError:
                refused += 1
            except ConformanceError as error:
                raise ConformanceError(f"{param.name} = {written}: {error}") from None
            except Exception as error:
                text = explain(error, plugin.path)
                raise ConformanceError(f"{param.name} = {written}: {text}") from None
    return f"{n_tried} values, {refused} of them refused"


@contextmanager
def refusals(reserve: str, *, keyed: bool) -> Iterator[None]:
    """Let the block raise RefusedError for an InputError of a plugin, and ConformanceError for one
    that does not name a key or file if it must (`keyed`), or for too much memory; `reserve` is the
    function to call."""
    try:
        with _memory_limit():
            yield
    except InputError as error:
        if keyed and any(one.key is None and one.file is None for one in error.errors):
            raise ConformanceError(f"{error} (an error must name a key)") from None
        raise RefusedError(str(error)) from None
    except MemoryError:
        message = f"takes over 1 GiB of memory: call {reserve} before making arrays"
        raise ConformanceError(message) from None


@contextmanager
def _memory_limit() -> Iterator[None]:
    """Let the block raise MemoryError if it takes MORE_BYTES, where the system can do that."""
    try:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        most = pages * resource.getpagesize() + MORE_BYTES
    except (ImportError, OSError, ValueError):
        yield
        return
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
