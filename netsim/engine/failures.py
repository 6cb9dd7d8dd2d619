"""What is said of a run that cannot go on: which handler it was, on which host, what it did."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from netsim.engine import watchdog
from netsim.engine.compiling.protocol import Protocol
from netsim.engine.kernels.handlers import handler_name
from netsim.engine.kernels.ids import HostId
from netsim.engine.kernels.layout import UNFINISHED
from netsim.engine.kernels.rules import TEXTS
from netsim.engine.state import State
from netsim.errors import RunError
from netsim.plugins.files import words

Present = Callable[[str, int], tuple[str, int]]
"""From a file and a line to those where the same stands now."""


def as_it_is(path: str, line: int) -> tuple[str, int]:
    """Of code that was not compiled."""
    return path, line


@dataclass(frozen=True)
class Failures:
    """Finds failures in ``state`` and words them; ``name`` is that of the transport."""

    state: State
    protocol: Protocol
    name: str
    n_classes: int

    def look(self) -> None:
        """Raises RunError if a handler broke a rule, or raised an error in another thread."""
        clock, hosts = self.state.clock, self.state.ends.hosts
        active = clock.active[: int(clock.clock["n_active"][0])]
        if (clock.status[active] == UNFINISHED).any():
            raise self.raised(None)
        for host in np.flatnonzero(hosts["fault"])[:1].tolist():
            raise self._broken(HostId(host))

    def _broken(self, host: HostId) -> RunError:
        """A handler that ran on ``host`` broke a rule of the engine."""
        record = np.asarray(self.state.ends.hosts)[host]
        text = TEXTS[int(record["fault"])]
        text = text.format(value=int(record["fault_value"]), n_classes=self.n_classes)
        return RunError(
            f"transport {self.name}: {handler_name(int(record['doing']))} {text} (host {host})"
        )

    def raised(self, error: BaseException | None, present: Present = as_it_is) -> RunError:
        """A handler raised an error: this one, or one that was lost in another thread.

        ``present`` says where stands now what the error says of a file and a line.
        """
        what = "an error, such as a division by zero"
        place = "`netsim run --checked` says which"
        if error is not None:
            error = error.__cause__ or error
            what = words(error)
            place = self._place_of(error, present)
        return RunError(f"transport {self.name}: {self._at_work() or 'engine'}: {what} ({place})")

    def hung(self) -> str:
        """Compiled code does not come back."""
        where = self._at_work()
        why = "an endless loop?"
        if not where:
            where = "the engine"
            why = "has a handler written past its own arrays? (`netsim run --checked` finds that)"
        waited = f"nothing has moved for {watchdog.PATIENCE_S:g} s"
        return f"transport {self.name}: {where} does not come back, {waited}: {why}"

    def movement(self) -> tuple[int, ...]:
        """Numbers of which one changes whenever the engine gets on."""
        s = self.state
        clock = (s.clock.clock["windows"], s.clock.tickets, s.clock.status)
        hosts = (s.ends.hosts[name] for name in ("sent_packets", "received_packets"))
        rings = s.wires.inbox["head"], s.wires.ports["tail"]
        return tuple(int(numbers.sum()) for numbers in (*clock, *hosts, *rings))

    def _at_work(self) -> str:
        """The handler that is being called, and where, if there is one."""
        hosts = self.state.ends.hosts["doing"]
        for host in np.flatnonzero(hosts).tolist():
            return f"{handler_name(hosts[host])} on host {host}"
        return "on_forward" if self.protocol.features["TELEMETRY"] else ""

    def _place_of(self, error: BaseException, present: Present) -> str:
        """Where in a transport's file an error was raised, if that is known."""
        files = [module.__file__ for module in self.protocol.modules]
        frames = traceback.extract_tb(error.__traceback__)
        places = [present(frame.filename, frame.lineno or 0) for frame in frames]
        found = [(path, line) for path, line in places if path in files]
        if not found:
            return "`netsim check-transport` names the line, if it comes upon the same"
        path, line = found[-1]
        return f"{Path(path).name}, line {line}: {linecache.getline(path, line).strip()}"
