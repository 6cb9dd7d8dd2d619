"""Check every handler call while the engine runs as plain Python.

Each handler is wrapped, so an error names the handler and its line instead of engine code that
fails later.
"""

from __future__ import annotations

import ctypes
import re
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from netsim.conformance.finding import ConformanceError
from netsim.engine.engine import watched
from netsim.engine.kernels.handlers import BEFORE, HANDLERS, SWITCH
from netsim.engine.kernels.packets import DATA

TIMEOUT_S = 5.0  # seconds after which a handler call counts as an endless loop

ARRIVALS = ("on_data", "on_request")
WHERE = {"tx": "TX_STATE", "rx": "RX_STATE", "host": "HOST_STATE"}


class EndlessError(BaseException):
    """Raised in a handler that does not return; handlers should not catch it."""


class HandlerMonitor:
    """The handler calls of one run, and the packets that have arrived."""

    def __init__(self, module: ModuleType) -> None:
        self.calls = 0
        self.inside = False
        self.path = Path(str(module.__file__))
        self.arrived: dict[int, set[int]] = {}
        self.arrived_bytes: dict[int, int] = {}

    def call(self, handler: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Call a handler. Raises ConformanceError if it breaks a rule."""
        env, *rest = arguments
        row = HANDLERS[handler]
        if row.runs_on not in (BEFORE, SWITCH):
            here = env.host.host
            env = env._replace(
                tx=_HostRecords(env.tx, here, handler, "tx"),
                rx=_HostRecords(env.rx, here, handler, "rx"),
            )
        if handler in ARRIVALS:
            self._arrival(env, *rest[1:])
        self.calls += 1
        self.inside = True
        try:
            result = function(env, *rest)
        except ConformanceError:
            raise
        except (Exception, SystemExit, EndlessError) as error:
            raise ConformanceError(f"{handler}: {explain(error, self.path)}") from error
        finally:
            self.inside = False
        if handler in ARRIVALS:
            self._delivery(rest[1])
        if row.returns and not isinstance(result, int | np.integer):
            raise ConformanceError(f"{handler}: returned {result!r}, not {row.returns}")
        return result

    @contextmanager
    def no_endless_loop(self) -> Iterator[None]:
        """A context that raises EndlessError in a handler that does not return."""
        thread = ctypes.c_ulong(threading.get_ident())

        def stop() -> None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(EndlessError))

        with watched(lambda: self.calls if self.inside else object(), stop, TIMEOUT_S):
            yield

    def _arrival(self, env: Any, rx: Any, pkt: Any) -> None:
        """Count the bytes of a packet; each data packet once."""
        flow, seq = rx.flow, int(pkt.seq)
        seen = self.arrived.setdefault(flow, set())
        if int(pkt.kind) == DATA and seq in seen:
            return
        if int(pkt.kind) == DATA:
            seen.add(seq)
        carried = int(pkt.size_bytes) - env.par.header_bytes
        self.arrived_bytes[flow] = self.arrived_bytes.get(flow, 0) + carried

    def _delivery(self, rx: Any) -> None:
        """Check that no more bytes are delivered than distinct packets have carried."""
        arrived = self.arrived_bytes.get(rx.flow, 0)
        if rx.received_bytes > arrived:
            raise ConformanceError(
                f"flow {rx.flow}: {rx.received_bytes} bytes delivered, but only {arrived} arrived "
                "(deliver duplicates once)"
            )


class _HostRecords:
    """The records of one side at one host."""

    def __init__(self, records: Any, host: int, handler: str, side: str) -> None:
        self.records, self.host, self.handler, self.side = records, host, handler, side

    def __getitem__(self, index: Any) -> Any:
        record = self.records[index]
        if record.host != self.host:
            raise ConformanceError(
                f"{self.handler}: runs on host {self.host}, accesses env.{self.side}[{index}] of "
                f"host {record.host} (hosts run in parallel and interact only through packets)"
            )
        return record


def explain(error: BaseException, path: Path) -> str:
    """Return an error with its line in the transport's file `path`."""
    message = f"{type(error).__name__}: {error}".removesuffix(": ")
    if isinstance(error, AttributeError):
        message = _unknown_field(error, message)
    if isinstance(error, EndlessError):
        message = "does not return (endless loop?)"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename) == path]
    frame = (own or frames)[-1]
    return f"{message} ({Path(frame.filename).name}, line {frame.lineno}: {frame.line})"


def _unknown_field(error: AttributeError, message: str) -> str:
    """Return the message for an undeclared field."""
    found = re.fullmatch(r"'Record' object has no attribute '(\w+)'", str(error))
    if not found:
        return message
    return f"the record has no field {found[1]} (declare it in {', '.join(WHERE.values())})"


def monitored_module(module: ModuleType, monitor: HandlerMonitor) -> ModuleType:
    """Return a copy of a transport's module whose handlers report to `monitor`."""
    copy = ModuleType(module.__name__)
    copy.__dict__.update(vars(module))
    for name, handler in HANDLERS.items():
        function = getattr(module, name, None)
        if not isinstance(function, FunctionType):
            continue
        if function.__code__.co_argcount == len(handler.arguments):  # else the engine reports it
            setattr(copy, name, _wrapper(name, function, monitor))
    return copy


def _wrapper(name: str, handler: FunctionType, monitor: HandlerMonitor) -> Callable[..., Any]:
    """Return a function with as many arguments as a handler, which reports its calls. The engine
    copies it with its closure: the handler too, because its callees may have unbound constants."""
    call = partial(monitor.call, name)

    def two(a: Any, b: Any) -> Any:
        return call(handler, (a, b))

    def three(a: Any, b: Any, c: Any) -> Any:
        return call(handler, (a, b, c))

    def four(a: Any, b: Any, c: Any, d: Any) -> Any:
        return call(handler, (a, b, c, d))

    by_arguments: dict[int, Callable[..., Any]] = {2: two, 3: three, 4: four}
    return by_arguments[handler.__code__.co_argcount]
