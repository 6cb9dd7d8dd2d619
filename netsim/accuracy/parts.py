"""All parts of the table, in order, and the table as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from netsim.accuracy import incast, long_paths, queues, shortest_first
from netsim.accuracy.row import AccuracyRow

PARTS: Mapping[str, Callable[[], Iterator[AccuracyRow]]] = {
    "dcqcn": queues.dcqcn,
    "dctcp": queues.dctcp,
    "hpcc": queues.hpcc,
    "swift": queues.swift,
    "expresspass": queues.expresspass,
    "cubic": long_paths.cubic,
    "bbr": long_paths.bbr,
    "homa": shortest_first.homa,
    "pfabric": shortest_first.pfabric,
    **incast.PARTS,
}
"""Each simulates what it needs, in seconds to half a minute with compiling."""

BEGIN, END = "<!-- accuracy -->", "<!-- /accuracy -->"


def rows(names: Sequence[str] = ()) -> Iterator[AccuracyRow]:
    """The rows of these parts, or of all, as they are measured."""
    for name in names or PARTS:
        yield from PARTS[name]()


def number(value: float) -> str:
    """With four digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def table(found: Sequence[AccuracyRow]) -> str:
    """Rows as a table in Markdown, and below it what makes those differ that do."""
    lines = [
        "| transport | quantity | formula | expected | measured | deviation | |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in found:
        cells = (
            f"`{row.transport}`",
            row.quantity,
            f"{row.formula}; {row.source}",
            f"{number(row.expected)} {row.unit}".strip(),
            f"{number(row.measured)} {row.unit}".strip(),
            f"{row.deviation:+.1%}",
            row.why if row.verdict == "explained" else str(row.verdict),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def with_table(page: str, found: Sequence[AccuracyRow]) -> str:
    """A page with its table replaced, between the two marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table(found)}\n\n{END}{after}"
