"""Where a result comes from: versions, commits, hash, and the experiment as TOML to copy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from netsim.common.writing import toml_text
from netsim.html_report import parts
from netsim.html_report.parts import Section
from netsim.html_report.report import Point, Report
from netsim.units import format_number, format_time

ORDER = 90


def of_point(_report: Report, point: Point) -> Iterator[Section]:
    """Yield versions and the resolved experiment."""
    experiment, summary = point.result.experiment, point.result.summary
    rows: list[list[Any]] = [
        [
            "status",
            point.result.status + (f": {point.result.reason}" if point.result.reason else ""),
        ],
        ["simulated time", format_time(int(summary["simulated_ps"]), 5)],
        ["wall time", f"{format_number(float(summary.get('wall_s') or 0))} s"],
        ["packet-hops", f"{int(summary.get('packet_hops') or 0):,}"],
        ["hash of the tables", experiment["hash"]],
    ]
    rows += [[name, text] for name, text in _texts(experiment.get("versions"))]
    for one in experiment.get("git") or []:
        if isinstance(one, dict):
            state = {True: " and changes", None: ", changes unknown"}.get(one.get("dirty"), "")
            rows.append(["commit", f"{one.get('commit')}{state}"])
    for plugin in experiment["plugins"]:
        rows.append([plugin["kind"], f"{plugin['name']} (SHA-256 {plugin['sha256'][:16]})"])
    for note in summary.get("traffic") or []:
        rows.append(["note", note])
    text = toml_text(experiment["resolved"])
    made = (parts.table(["", ""], rows), parts.code("The experiment as TOML", text))
    yield Section("provenance", "Provenance", (), made)


def _texts(table: Any) -> list[tuple[str, str]]:
    return [(str(k), str(v)) for k, v in table.items()] if isinstance(table, dict) else []
