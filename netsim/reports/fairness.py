"""Fairness: Jain's index of the throughputs of flows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from netsim.results.columns import Metric
from netsim.results.run_result import Run

SWEEP = (
    Metric(
        "jain_index",
        "1",
        "Jain's fairness index of the finished flows' throughputs: 1 if all are equal, 1/n if one "
        "of n has all",
        rank=12,
    ),
)
ORDER = 12


def report(run: Run) -> dict[str, Any]:
    """Return Jain's index (DEC-TR-301) of size / completion time, if a flow finished."""
    flows = run.tables["flows"]
    done = flows["fct_ps"] > 0
    rates = flows["size_bytes"][done] / flows["fct_ps"][done]
    total = float(np.square(rates).sum())
    return {"jain_index": float(rates.sum() ** 2 / (rates.size * total))} if total > 0 else {}


def lines(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the index."""
    if "jain_index" in summary:
        yield "Jain's fairness index", f"{summary['jain_index']:.3f}"
