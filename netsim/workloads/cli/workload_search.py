"""Tables of `netsim workload search`: layouts of a job by step time."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from netsim.common.terminal import Column, Wide, common_unit
from netsim.errors import InputError
from netsim.units import format_bytes, format_number, written
from netsim.workloads.job.messages import networks_of_kinds
from netsim.workloads.job.search import AXES, LayoutRow, LayoutSearch, layout_keys

EXPOSED = ("exposed_scale_up", "exposed_scale_out")

MAX_COUNT = 1_000_000

MAX_REASON = 90
"""Longest printed reason of a layout that does not work."""


def varied(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Return the axes that `--vary KEY=[VALUES]` gives. Raises InputError."""
    from netsim.experiment.document import apply_overrides

    tree: dict[str, Any] = {}
    apply_overrides(tree, texts)
    tree = tree.get("layout", {}) | {key: one for key, one in tree.items() if key != "layout"}
    found = {}
    for name, value in tree.items():
        found[name] = value if isinstance(value, list) else [value]
        is_name, low = name in ("schedule", "recompute"), int(name != "zero")
        for one in found[name]:
            is_count = type(one) is int and low <= one <= MAX_COUNT
            if not (isinstance(one, str) if is_name else is_count):
                what = "a name" if is_name else "a count"
                hint = f"--vary {name}=[...] with one of {', '.join(AXES)}"
                raise InputError(f"{written(one)} is not {what}", key=f"--vary {name}", hint=hint)
    return found


def search_rows(found: LayoutSearch, usd_per_gpu_hour: float | None) -> list[dict[str, Any]]:
    """Return a dictionary per layout, by step time: its keys, memory, step, MFU and cost."""
    rows = []
    for one in found.rows:
        hours = 1e9 * one.gpu_hours_per_token
        rows.append(
            {
                "gpus": one.job.layout.gpus,
                **layout_keys(one.job.layout),
                "memory_bytes": round(one.memory_bytes),
                "step_ps": round(one.step.total_ps),
                "mfu": one.step.mfu,
                **_exposed(one),
                "bubble": one.step.bubble_ps / one.step.total_ps,
                "gpu_hours_per_billion_tokens": hours,
                "usd_per_billion_tokens": None
                if usd_per_gpu_hour is None
                else hours * usd_per_gpu_hour,
            }
        )
    return rows


def _exposed(one: LayoutRow) -> dict[str, float]:
    """Return the shares of the step with exposed communication, by network."""
    networks, found = networks_of_kinds(one.job), dict.fromkeys(EXPOSED, 0.0)
    for kind, time_ps in one.step.exposed.items():
        found[f"exposed_{networks[kind].replace('-', '_')}"] += time_ps / one.step.total_ps
    return found


def search_tables(
    found: LayoutSearch, top: int, usd_per_gpu_hour: float | None
) -> Iterator[Wide | str]:
    """Yield the fastest layouts, and how many others do not work, by reason."""
    rows = search_rows(found, usd_per_gpu_hour)[:top]
    if rows:
        yield _table(rows, found.rows[0])
    more = len(found.rows) - len(rows)
    if more:
        yield f"{more:,} slower layouts: --top, --csv or --json"
    for (key, reason), n in found.refused.items():
        short = reason if len(reason) <= MAX_REASON else f"{reason[: MAX_REASON - 3]}..."
        yield f"{n:,} layouts do not work: {key}" + (f" (the first: {short})" if short else "")


def _table(rows: Sequence[dict[str, Any]], first: LayoutRow) -> Wide:
    """Return a line per layout; keys that all share are in the title."""
    columns, shared = [], []
    names = [name for name in ("gpus", *layout_keys(first.job.layout)) if name != "sp"]
    for name in names:
        cells = [str(row[name]).lower() for row in rows]
        if name in ("tp", "pp", "dp") or len(set(cells)) > 1:
            left = isinstance(rows[0][name], str)
            columns.append(Column(name.replace("_", "\n"), cells, rank=0, left=left))
        else:
            shared.append(f"{name} {cells[0]}")
    unit, scale = common_unit([row["step_ps"] for row in rows])
    columns.append(Column("memory", [format_bytes(row["memory_bytes"], 3) for row in rows]))
    columns.append(Column(f"step\n{unit}", [format_number(row["step_ps"] / scale) for row in rows]))
    percents = (
        ("MFU\n%", "mfu", 0),
        ("exposed\nscale-up\n%", "exposed_scale_up", 2),
        ("exposed\nscale-out\n%", "exposed_scale_out", 2),
        ("bubble\n%", "bubble", 3),
    )
    for title, name, rank in percents:
        columns.append(Column(title, [f"{100 * row[name]:.1f}" for row in rows], rank))
    for title, name, rank in (("GPU-hours", "gpu_hours", 1), ("USD", "usd", 0)):
        cost = f"{name}_per_billion_tokens"
        if rows[0][cost] is not None:
            cells = [format_number(row[cost]) for row in rows]
            columns.append(Column(f"{title}\nper\nG tokens", cells, rank))
    title = f"{first.job.name} by formula, fastest first; all with {', '.join(shared)}"
    return Wide(columns, title=title, elsewhere="--csv and --json have all")


def search_csv(found: LayoutSearch, usd_per_gpu_hour: float | None) -> str:
    """Return all layouts as CSV."""
    rows, text = search_rows(found, usd_per_gpu_hour), io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
