"""Results of the cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from netsim.errors import RunError

STATUSES = PASS, FAIL, SKIP, METRIC, WARN = "pass", "FAIL", "not applicable", "metric", "warning"


class ConformanceError(RunError):
    """The transport fails a case; the message says how."""


class NotApplicableError(Exception):
    """The case does not apply to this transport; the message says why."""


@dataclass(frozen=True)
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
