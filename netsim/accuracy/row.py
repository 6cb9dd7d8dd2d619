"""A row of the table: what a formula says, what was measured, and why the two differ."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

WITHIN = 0.05
"""A deviation up to which a row needs no explanation."""


class Verdict(StrEnum):
    """What comes of a row."""

    AGREES = "agrees"
    EXPLAINED = "explained"
    DIFFERS = "differs"


@dataclass(frozen=True)
class AccuracyRow:
    """One quantity of one transport. `why` says what makes it differ from the formula."""

    transport: str
    quantity: str
    formula: str
    source: str
    unit: str
    expected: float
    measured: float
    why: str = ""

    @property
    def deviation(self) -> float:
        """Of what was measured, as a share of what is expected."""
        return self.measured / self.expected - 1

    @property
    def verdict(self) -> Verdict:
        """Whether the two agree, or what makes them differ is known."""
        if abs(self.deviation) <= WITHIN:
            return Verdict.AGREES
        return Verdict.EXPLAINED if self.why else Verdict.DIFFERS
