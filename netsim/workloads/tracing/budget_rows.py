"""Rows of the budget of a path; its flows that waited longest are simulated again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from netsim.tracing.record import Replay
from netsim.tracing.why import Explanation, explain_windows

TRACED = 20
"""Most flows of a path that are traced, those that waited longest."""

Row = dict[str, Any]


def budget_row(cause: str, manner: str, place: str, time_ps: int) -> Row:
    """Return a row of a budget without other flows."""
    base = {"cause": cause, "manner": manner, "place": place, "root": ""}
    return {**base, "time_ps": time_ps, "flows": [], "flows_ps": []}


class FlowRows:
    """The budgets of flows on a path.

    Args:
        windows: the time that the path spends on each flow.
        ideals: the shortest such time, in an idle network.
        replay: makes the replay, if any flow waited.
    """

    def __init__(
        self,
        windows: Mapping[int, tuple[int, int]],
        ideals: Mapping[int, int],
        replay: Callable[[], Replay],
    ) -> None:
        self.ideals = ideals
        waited = {flow: end - start - ideals[flow] for flow, (start, end) in windows.items()}
        longest = sorted(windows, key=lambda flow: -waited[flow])[:TRACED]
        traced = {flow: windows[flow] for flow in longest if waited[flow] > 0}
        self.traced: dict[int, Explanation] = explain_windows(replay(), traced) if traced else {}

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(sorted({text for one in self.traced.values() for text in one.warnings}))

    def of(self, flow: int, time_ps: int, kind: str) -> Iterator[Row]:
        """Yield rows that add up to the time on a flow of a kind."""
        if flow in self.traced:
            for row in self.traced[flow].budget.iter_rows(named=True):
                yield {**row, "manner": f"{kind}, {row['manner']}" if kind else row["manner"]}
            return
        ideal_ps = min(time_ps, self.ideals[flow])
        yield budget_row("data", kind, "", ideal_ps)
        yield budget_row("network", kind, "", time_ps - ideal_ps)
