"""Results of the cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from netsim.errors import RunError

STATUSES = PASS, FAIL, SKIP, METRIC = "pass", "FAIL", "not applicable", "metric"


class ConformanceError(RunError):
    """The transport does not do what the case asks; the message says what it does instead."""


class NotApplicableError(Exception):
    """The case has nothing to say about this transport; the message says why."""


@dataclass(frozen=True)
class Finding:
    """The result of a case. `status` is PASS, FAIL, SKIP or METRIC, which has `metrics`."""

    case: str
    status: str
    detail: str
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether the transport has to be changed."""
        return self.status == FAIL
