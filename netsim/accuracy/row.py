"""A row of the table: a formula's value, the measured value, and why they differ."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

WITHIN = 0.05
"""Deviation up to which a row needs no explanation."""


class Verdict(StrEnum):
    """Whether a row's values agree."""

    AGREES = "agrees"
    EXPLAINED = "explained"
    DIFFERS = "differs"


@dataclass(frozen=True)
class AccuracyRow:
    """One quantity of one transport; `why` explains its deviation from the formula."""

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
        """Relative deviation of the measured value from the expected one."""
        return self.measured / self.expected - 1

    @property
    def verdict(self) -> Verdict:
        if abs(self.deviation) <= WITHIN:
            return Verdict.AGREES
        return Verdict.EXPLAINED if self.why else Verdict.DIFFERS
