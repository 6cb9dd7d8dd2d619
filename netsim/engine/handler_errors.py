"""Errors of handlers: which handler, on which node, in which line."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from netsim.engine import workers
from netsim.engine.kernels.handlers import HANDLERS
from netsim.engine.kernels.layout import UNFINISHED
from netsim.engine.kernels.program_handlers import FIRST as FIRST_OF_PROGRAMS
from netsim.engine.kernels.program_handlers import PROGRAM_HANDLERS
from netsim.engine.kernels.queue_handlers import FIRST, QUEUE_HANDLERS
from netsim.engine.kernels.routing_handlers import FIRST as FIRST_OF_ROUTING
from netsim.engine.kernels.routing_handlers import ROUTING_HANDLERS
from netsim.engine.kernels.rules import TEXTS
from netsim.engine.state import State
from netsim.errors import RunError
from netsim.model.fabric import Fabric
from netsim.model.programs import ProgramSpec
from netsim.plugins.files import describe

HOST, SWITCH = "host", "switch"

Present = Callable[[str, int], tuple[str, int]]
"""Function that maps a file and line to their current position."""


def as_it_is(path: str, line: int) -> tuple[str, int]:
    """Position in code that was not compiled."""
    return path, line


@dataclass(frozen=True)
class Failures:
    """Finds handler errors in ``state`` and words them; ``transport`` names the transports. An
    error belongs to a transport or program on a host, or a queue discipline or routing algorithm at
    a switch. ``modules`` are those of all but the program."""

    state: State
    modules: Sequence[ModuleType]
    program: ProgramSpec | None
    transport: str
    fabric: Fabric

    def look(self) -> None:
        """Raise RunError if a handler broke a rule, or raised an error in another thread."""
        clock, nics = self.state.clock, self.state.hosts.nics
        active = clock.active[: int(clock.clock["n_active"][0])]
        if (clock.status[active] == UNFINISHED).any():
            raise self.raised(None)
        for nodes, whose in ((nics, HOST), (self.state.links.switches, SWITCH)):
            for node in np.flatnonzero(nodes["rule_broken"])[:1].tolist():
                raise self._broken(np.asarray(nodes)[node], _where(nodes, whose, node))

    def _broken(self, record: Any, where: str) -> RunError:
        """Return the error for a handler that broke a rule."""
        text = TEXTS[int(record["rule_broken"])]
        value, n_traffic_classes = int(record["breaking_value"]), self.fabric.n_traffic_classes
        text = text.format(value=value, n_traffic_classes=n_traffic_classes)
        number = int(record["breaking_handler"])
        return RunError(f"{self._whose(number)}: {_name(number)} {text} ({where})")

    def raised(self, error: BaseException | None, present: Present = as_it_is) -> RunError:
        """Return the error for an exception of a handler; None if another thread lost it.
        ``present`` maps the line to where it is now."""
        what = "an error, such as a division by zero"
        place = "`netsim run --check-bounds` says which"
        if error is not None:
            error = error.__cause__ or error
            what = describe(error)
            place = self._place_of(error, present)
        return RunError(f"{self._at_work('engine')}: {what} ({place})")

    def hung(self) -> str:
        """Return the message for compiled code that does not return."""
        where = self._at_work("")
        why = "an endless loop?"
        if not where:
            where = f"transport {self.transport}: the engine"
            why = "has a handler written past its own arrays? (see `netsim run --check-bounds`)"
        waited = f"no progress for {workers.HANG_TIMEOUT_S:g} s"
        return f"{where} does not return, {waited}: {why}"

    def movement(self) -> tuple[int, ...]:
        """Return numbers that change whenever the engine makes progress."""
        s = self.state
        clock = (s.clock.clock["windows"], s.clock.status)
        nics = (s.hosts.nics[name] for name in ("sent_packets", "received_packets"))
        links = s.links.readers["head"], s.links.ports["tail"]
        return tuple(int(numbers.sum()) for numbers in (*clock, *nics, *links))

    def _whose(self, number: int) -> str:
        """Return the plugin that has a handler number."""
        if self.program is not None and number >= FIRST_OF_PROGRAMS:
            return f"program {self.program.name}"
        if number >= FIRST_OF_ROUTING:
            return f"routing algorithm {self.fabric.routing.name}"
        if number >= FIRST:
            return f"queue discipline {self.fabric.queue.name}"
        return f"transport {self.transport}"

    def _at_work(self, otherwise: str) -> str:
        """Return the plugin, handler and node at work, or ``otherwise``."""
        nodes = ((self.state.hosts.nics, HOST), (self.state.links.switches, SWITCH))
        for records, whose in nodes:
            for node in np.flatnonzero(records["handler"]).tolist():
                number = int(records["handler"][node])
                where = _where(records, whose, node)
                return f"{self._whose(number)}: {_name(number)} on {where}"
        return f"transport {self.transport}: {otherwise}" if otherwise else ""

    def _place_of(self, error: BaseException, present: Present) -> str:
        """Return where in a plugin's file an error was raised, or ""."""
        plugins = [*self.modules]
        if self.program is not None:
            plugins.append(self.program.use.module)
        files = [module.__file__ for module in plugins]
        frames = traceback.extract_tb(error.__traceback__)
        places = [present(frame.filename, frame.lineno or 0) for frame in frames]
        found = [(path, line) for path, line in places if path in files]
        if not found and self.program is not None:
            return "`NUMBA_DISABLE_JIT=1 netsim run` names the line"
        if not found:
            return "`netsim check` of the file may find the line"
        path, line = found[-1]
        return f"{Path(path).name}, line {line}: {linecache.getline(path, line).strip()}"


def _where(records: Any, whose: str, place: int) -> str:
    """Return the node of a record: "host 3", for any of its NICs, or "switch 0"."""
    return f"{whose} {records['host'][place] if whose == HOST else place}"


def _name(number: int) -> str:
    """Return the name of a handler."""
    tables = (HANDLERS, QUEUE_HANDLERS, ROUTING_HANDLERS, PROGRAM_HANDLERS)
    return next((name for table in tables if (name := table.name_of(number))), "")
