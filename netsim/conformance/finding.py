"""Cases, and their findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from netsim.errors import RunError
from netsim.frozen import frozen

RELIABLE, COMPILED = "reliable", "compiled"
STATUSES = PASS, FAIL, SKIP, METRIC, WARN = "pass", "FAIL", "not applicable", "metric", "warning"


class ConformanceError(RunError):
    """The plugin fails a case; the message says how."""


class NotApplicableError(Exception):
    """The case does not apply to this plugin; the message says why."""


@frozen
class Finding:
    """The result of a case. `status` is PASS, FAIL, SKIP, METRIC, or WARN (metrics
    that are probably wrong).
    """

    case: str
    status: str
    detail: str
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        return self.status == FAIL


@frozen
class Case:
    """One requirement for a plugin.

    `run` is called with its testbed and returns a line of results, or metrics by name; it raises
    `ConformanceError` or `NotApplicableError`. `needs` lists what the case requires: RELIABLE, a
    transport that recovers losses, and COMPILED, a compiled engine, which takes several seconds.
    `doubt` returns what is probably wrong with the metrics, or "".
    """

    name: str
    about: str
    run: Callable[[Any], str | dict[str, float]]
    needs: tuple[str, ...] = ()
    doubt: Callable[[dict[str, float]], str] = lambda _: ""


class Cases(list[Case]):
    """The cases for a kind of plugin, in the order in which they run. Called with a name and one
    line about it, it returns a decorator that adds a case."""

    def add(self, name: str, about: str, run: Any, *needs: str, **more: Any) -> None:
        """Add a case."""
        self.append(Case(name, about, run, needs, **more))

    def __call__(self, name: str, about: str, *needs: str, **more: Any) -> Callable[[Any], Any]:
        def added(run: Any) -> Any:
            self.add(name, about, run, *needs, **more)
            return run

        return added
