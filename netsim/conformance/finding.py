"""A case of the suite, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netsim.conformance.lab import Lab

STATUSES = PASS, FAIL, SKIP, FIGURE = "pass", "FAIL", "not applicable", "figure"


RELIABLE, COMPILED = "reliable", "compiled"


class ConformanceError(Exception):
    """The transport does not do what the case asks; the message says what it does instead."""


class NotApplicableError(Exception):
    """The case has nothing to say about this transport; the message says why."""


@dataclass(frozen=True)
class Case:
    """One thing that a transport is asked to do.

    `run` returns a line about what happened, or figures by name; it raises `ConformanceError` or
    `NotApplicableError`. `needs` is what the case cannot do without: RELIABLE, a transport that
    makes up for losses, and COMPILED, an engine that is compiled, which takes several seconds.
    """

    name: str
    about: str
    run: Callable[[Lab], str | dict[str, float]]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """What came of a case. `status` is PASS, FAIL, SKIP or FIGURE, which has `figures`."""

    case: str
    status: str
    detail: str
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether the transport has to be changed."""
        return self.status == FAIL
