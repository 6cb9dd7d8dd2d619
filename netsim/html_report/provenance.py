"""Where a result comes from: versions, commits, hash, and the experiment as TOML to copy."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from netsim.html_report import parts
from netsim.html_report.parts import Section
from netsim.html_report.report import Point, Report
from netsim.units import format_number, format_time

ORDER = 90

BARE = re.compile(r"[A-Za-z0-9_-]+")
CONTROL = re.compile(r"[\x7f]")


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
    text = toml_of(experiment["resolved"])
    made = (parts.table(["", ""], rows), parts.code("The experiment as TOML", text))
    yield Section("provenance", "Provenance", (), made)


def _texts(table: Any) -> list[tuple[str, str]]:
    return [(str(k), str(v)) for k, v in table.items()] if isinstance(table, dict) else []


def toml_of(tree: Mapping[str, Any]) -> str:
    """Return a resolved experiment as TOML."""
    return "\n".join(_lines(tree, ())) + "\n"


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of a table: values first, then tables."""
    tables = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    if path and (len(tables) < len(table) or not table):
        yield f"\n[{'.'.join(_key(one) for one in path)}]"
    for key, value in table.items():
        if key not in tables and value is not None:
            yield f"{_key(key)} = {_inline(value)}"
    for key, value in tables.items():
        yield from _lines(value, (*path, key))


def _key(key: str) -> str:
    return key if BARE.fullmatch(key) else _inline(key)


def _inline(value: Any) -> str:
    """Return a value on one line."""
    if isinstance(value, Mapping):
        inside = (f"{_key(k)} = {_inline(v)}" for k, v in value.items() if v is not None)
        return "{" + ", ".join(inside) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_inline(one) for one in value if one is not None) + "]"
    text = json.dumps(value, ensure_ascii=False)
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
