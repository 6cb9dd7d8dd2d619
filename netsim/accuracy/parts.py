"""All parts of the table in order, and the table as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from netsim.accuracy import incast, long_paths, queues, shortest_first
from netsim.accuracy.bed import AccuracyRow
from netsim.units import format_number

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
"""Functions that simulate one part each, in seconds to half a minute including compiling."""

BEGIN, END = "<!-- accuracy -->", "<!-- /accuracy -->"


def rows(names: Sequence[str] = ()) -> Iterator[AccuracyRow]:
    """Yield the rows of these parts (default: all) as they are measured."""
    for name in names or PARTS:
        yield from PARTS[name]()


def table(found: Sequence[AccuracyRow]) -> str:
    """Return the rows as a Markdown table; a repeated formula is a ditto mark."""
    lines = [
        "| transport | quantity | formula | expected | measured | deviation | |",
        "|---|---|---|---|---|---|---|",
    ]
    above = ""
    for row in found:
        formula = f"{row.formula}; {row.source}"
        cells = (
            f"`{row.transport}`",
            row.quantity,
            '"' if formula == above else formula,
            f"{format_number(row.expected)} {row.unit}".strip(),
            f"{format_number(row.measured)} {row.unit}".strip(),
            f"{row.deviation:+.1%}",
            row.why if row.verdict == "explained" else str(row.verdict),
        )
        lines.append("| " + " | ".join(cells) + " |")
        above = formula
    return "\n".join(lines)


def with_table(page: str, found: Sequence[AccuracyRow]) -> str:
    """Return a page with the table between its two marks replaced."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table(found)}\n\n{END}{after}"
