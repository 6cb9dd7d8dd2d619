"""A page about all results of a file, with two pictures. Every number comes from the file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from netsim.common.writing import write_text
from netsim.units import format_number
from netsim.validation.cases import Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TableRow = Mapping[str, Any]

HEAD = """\
# Comparisons

Every row of `netsim validate --full --page docs/comparisons.md`, from
[its results](comparisons.json): {n_cases} of {n_known_cases} cases, netsim {version}, {date},
commit `{commit}`, {machine}.

Each row holds our value against theirs: a law's, a machine's or another simulator's. A row fails
if the difference exceeds the tolerance, whether or not a reason is known. Where others give a
range, a value passes within that range, widened by the tolerance. [Accuracy](accuracy.md) sums up
what was compared, what fails and why.
"""

DATA = """\
## Other projects' files

Cases that need them say so, and name them as their source. `netsim validate --data FOLDER` finds
them by name anywhere in the folder. Connection matrices (`.cm`) are inputs of csg-htsim
(github.com/Broadcom/csg-htsim) and uet-htsim (github.com/ultraethernet/uet-htsim). Completion
times are CSV files with columns draw and fct_us. Tables of collectives are CSV files with columns
collective, nodes, gpus_per_node, size_bytes, oop_time_us and ip_time_us, which nccl-tests prints.

## Make it again

`netsim validate` runs quick cases; none of them failed when they were chosen, so a failing one is a
change. `--full` runs all cases. Interrupted, it continues: results are stored after each case. The
exit status is 1 if any row fails.
"""

LEAST = 1e-5
"""Smallest error in the picture of errors; 0 has no logarithm."""


def number(row: TableRow, which: str) -> str:
    """Return a value with its unit; a range where they have one."""
    value = row[which]
    if value is None:
        return "-"
    text = format_number(value)
    if which == "theirs" and row["theirs_low"] is not None:
        text = f"{format_number(row['theirs_low'])} to {format_number(row['theirs_high'])}"
    return f"{text} {row['unit']}".strip()


def percent(share: float | None, *, sign: bool = False) -> str:
    """Return a share in percent."""
    if share is None:
        return "-"
    digits = 2 if 0 < abs(share) < 0.01 else 1
    return f"{100 * share:{'+' if sign else ''}.{digits}f} %"


def write_page(page: Path, file: Path) -> None:
    """Write the page of a file of results; beside it, under its name, a copy and the pictures."""
    from netsim.plots.style import save

    text = file.read_text("utf-8")
    content = json.loads(text)
    write_text(page, page_text(content, page.stem))
    write_text(page.with_suffix(".json"), text)
    rows = rows_of(content)
    save(scatter_figure(rows), page.with_name(f"{page.stem}_values.png"))
    save(error_figure(rows), page.with_name(f"{page.stem}_errors.png"))


def page_text(content: Mapping[str, Any], name: str) -> str:
    """Return the page; its pictures begin with `name`."""
    return "\n".join(_lines(content, name)).rstrip() + "\n"


def rows_of(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of all cases with their group."""
    return [{"group": o["group"], **row} for o in content["cases"] for row in o["rows"]]


def _lines(content: Mapping[str, Any], name: str) -> Iterator[str]:
    rows = rows_of(content)
    commit = (content["commit"] or "unknown")[:10]
    commit += " with changes" if content["changed_since_commit"] else ""
    yield HEAD.format(**{**content, "commit": commit})
    groups = list(dict.fromkeys(row["group"] for row in rows))
    yield "| group | rows | pass | fail | need data | median error | nine in ten within | largest |"
    yield "|---|---|---|---|---|---|---|---|"
    for group in groups:
        yield _summary(group, [row for row in rows if row["group"] == group])
    yield f"\n![Our values against theirs, by group, on the diagonal]({name}_values.png)\n"
    yield f"![Distribution of absolute errors, by group]({name}_errors.png)\n"
    yield from _failures(rows)
    for group in groups:
        yield f"## {_title(group)}\n"
        yield from _table([row for row in rows if row["group"] == group])
    yield DATA


def _summary(group: str, rows: Sequence[TableRow]) -> str:
    counts = [sum(row["verdict"] == verdict for row in rows) for verdict in Verdict]
    errors = sorted(abs(row["error"]) for row in rows if row["error"] is not None)
    found = ("-",) * 3
    if errors:
        nine = errors[-(-9 * len(errors) // 10) - 1]
        found = (percent(median(errors)), percent(nine), percent(errors[-1]))
    cells = (f"[{_title(group)}](#{group.replace('_', '-')})", len(rows), *counts, *found)
    return "| " + " | ".join(map(str, cells)) + " |"


def _failures(rows: Sequence[TableRow]) -> Iterator[str]:
    """Yield the list of what fails."""
    failed = [row for row in rows if row["verdict"] == Verdict.FAIL]
    if not failed:
        return
    yield "## What fails\n"
    yield "| row | error | tolerance | reason |"
    yield "|---|---|---|---|"
    for row in failed:
        cells = (row["name"], percent(row["error"], sign=True), percent(row["tolerance"]))
        yield "| " + " | ".join((*cells, row["why"] or "unexplained")) + " |"
    yield ""


def _table(rows: Sequence[TableRow]) -> Iterator[str]:
    """Yield the rows of a group; a repeated source is a ditto mark."""
    yield "| case | ours | theirs | error | tolerance | verdict | source |"
    yield "|---|---|---|---|---|---|---|"
    above = ""
    for row in rows:
        cells = (
            *(row["name"], number(row, "ours"), number(row, "theirs")),
            *(percent(row["error"], sign=True), percent(row["tolerance"]), row["verdict"]),
            '"' if row["source"] == above else row["source"],
        )
        yield "| " + " | ".join(cells) + " |"
        above = row["source"]
    yield ""
    for share, why in dict.fromkeys((row["tolerance"], row["tolerance_why"]) for row in rows):
        yield f"- Tolerance {percent(share)}: {why}."
    yield ""


def _title(group: str) -> str:
    words = group.replace("_", " ")
    return (words[0].upper() + words[1:]).replace("Uec ", "UEC ")


def scatter_figure(rows: Sequence[TableRow]) -> Figure:
    """Draw our values against theirs, each group in its color."""
    from netsim.plots.style import COLORS, new_figure

    figure, (axes,) = new_figure()
    shown = [
        row for row in rows if row["error"] is not None and min(row["ours"], row["theirs"]) > 0
    ]
    for group, color in zip(dict.fromkeys(row["group"] for row in shown), COLORS, strict=False):
        some = [row for row in shown if row["group"] == group]
        values = [[row[which] for row in some] for which in ("theirs", "ours")]
        axes.plot(*values, "o", color=color, markersize=4, alpha=0.6, label=_title(group))
    ends = [f(row["theirs"] for row in shown) for f in (min, max)]
    axes.plot(ends, ends, color="gray", linewidth=0.8, zorder=0)
    axes.set(xscale="log", yscale="log", xlabel="theirs, each in its unit", ylabel="ours")
    axes.legend(frameon=False)
    return figure


def error_figure(rows: Sequence[TableRow]) -> Figure:
    """Draw the share of rows within each absolute error."""
    from netsim.plots.style import COLORS, new_figure

    figure, (axes,) = new_figure()
    shown = [row for row in rows if row["error"] is not None]
    for group, color in zip(dict.fromkeys(row["group"] for row in shown), COLORS, strict=False):
        found = sorted(max(LEAST, abs(row["error"])) for row in shown if row["group"] == group)
        shares = [(n + 1) / len(found) for n in range(len(found))]
        errors = [100 * one for one in found]
        axes.step(errors, shares, where="post", color=color, label=_title(group))
    axes.set(xscale="log", xlabel="absolute error, % (0.001: that or less)", ylabel="share of rows")
    axes.set_ylim(0, 1.02)
    axes.legend(frameon=False)
    return figure
