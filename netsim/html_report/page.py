"""Write the page: one file with its styles, script and data, and a strict content security policy.

The policy allows only the one script and the one style sheet in the file, by their hashes: no
request, no form, no other code. Data are JSON in which no character can end a script.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

from polars.exceptions import PolarsError

from netsim.common.discovery import modules
from netsim.common.documents import DAMAGED
from netsim.common.steps import step
from netsim.common.writing import write_text, writing_to
from netsim.errors import InputError
from netsim.html_report.report import Point, Report
from netsim.results.files import plain
from netsim.version import __version__

MAX_BYTES = 20_000_000  # largest file; details of points beyond it are left out
MAX_DETAILED = 32  # most points with separate sections: the slowest ones

STYLES = ("uPlot.min.css", "report.css")
SCRIPTS = ("uPlot.iife.min.js", "widgets.js", "charts.js", "network.js", "timeline.js", "report.js")
UNEXPECTED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, PolarsError)
"""Errors of sections if netsim did not write a table or summary."""

MAX_TEXT = 2000
WHOLE = ("data", "text")  # keys of the longest texts: arrays, and the experiment

MARKED = re.compile("@([A-Z]+)@")
ESCAPED = {ord(one): f"\\u{ord(one):04x}" for one in "<>&\u2028\u2029"}


def write_report(paths: Sequence[Path], out: Path, *, trust: bool = False, explain: int = 0) -> int:
    """Write the report of results to `out` and return its size in bytes.

    The `explain` slowest flows of the slowest result are simulated again; nothing else is. Plugins
    from outside netsim run, for that and to find paths of flows, only with `trust`. Raises
    InputError if there is no result, if files are damaged, or if `out` cannot be written.
    """
    text = page_of(Report(paths, trust=trust, explain=explain))
    with writing_to(out):
        write_text(out, text)
    return len(text.encode())


def page_of(report: Report) -> str:
    shell = _static("page.html")
    style = "\n".join(_static(name) for name in STYLES)
    script = "\n".join(_static(name) for name in SCRIPTS)
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    room = MAX_BYTES - len((shell + style + script).encode())
    filled = {
        "POLICY": policy,
        "TITLE": html.escape(report.title),
        "STYLE": style,
        "SCRIPT": script,
        "DATA": _data(report, room),
    }
    return MARKED.sub(lambda found: filled[found[1]], shell)


def _digest(text: str) -> str:
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _static(name: str) -> str:
    """Return a static file; the library's first line, with an address, becomes its license."""
    folder = files("netsim.html_report") / "static"
    text = (folder / name).read_text("utf-8")
    if name == "uPlot.iife.min.js":
        license_text = (folder / "uPlot.LICENSE").read_text("utf-8")
        text = f"/*! uPlot 1.6.32\n{license_text}*/\n{text.partition(chr(10))[2]}"
    return text


def _data(report: Report, room: int) -> str:
    """Return the data as JSON of at most `room` bytes."""
    found, detailed = _modules(), report.slowest[:MAX_DETAILED]
    step("report: all results", 0, 1 + len(detailed))
    top = {
        "title": report.title,
        "description": str(report.results[0].experiment["resolved"].get("description", "")),
        "version": __version__,
        "setting": [text for one in found for text in _called(one, "setting", report)],
        "headlines": [text for one in found for text in _called(one, "headlines", report)],
        "sections": _sections(found, "comparison", report),
    }
    text = _json(top)
    room -= len(text.encode())
    if room < 0:
        raise InputError("the page would exceed 20 MB", hint="give fewer results")
    details: dict[int, str] = {}
    for done, point in enumerate(detailed, 1):
        step(f"report: {point.label}", done, 1 + len(detailed))
        made = _json(
            {"label": point.label, "sections": _sections(found, "of_point", report, point)}
        )
        if len(made.encode()) < room:
            room -= len(made.encode()) + 1
            details[report.points.index(point)] = made
    kept = [index for index in range(len(report.points)) if index in details]
    worst = report.points.index(report.worst)
    start = kept.index(worst) if worst in kept else 0
    points = ",".join(details[index] for index in kept)
    left_out = len(report.points) - len(kept)
    return f'{text[:-1]},"start":{start},"left_out":{left_out},"points":[{points}]}}'


def _json(content: Any) -> str:
    text = json.dumps(_bounded(plain(content)), ensure_ascii=False, separators=(",", ":"))
    return text.translate(ESCAPED)


def _bounded(content: Any) -> Any:
    """Return JSON with long texts cut, except for arrays and code."""
    if isinstance(content, dict):
        return {k: v if k in WHOLE else _bounded(v) for k, v in content.items()}
    if isinstance(content, list):
        return [_bounded(one) for one in content]
    if isinstance(content, str) and len(content) > MAX_TEXT:
        return content[:MAX_TEXT] + "…"
    return content


def _modules() -> list[ModuleType]:
    """Return the files with sections, of netsim and of applications, in order."""
    found = [import_module(name) for name in modules("html_report").values()]
    return sorted((one for one in found if hasattr(one, "ORDER")), key=lambda one: one.ORDER)


def _sections(found: list[ModuleType], name: str, *arguments: Any) -> list[dict[str, Any]]:
    """Return the sections of all files, in order."""
    made = [(one.order or m.ORDER, one) for m in found for one in _called(m, name, *arguments)]
    return [asdict(one) for _, one in sorted(made, key=lambda pair: pair[0])]


def _called(module: ModuleType, name: str, report: Report, *point: Point) -> list[Any]:
    """Return a file's contribution, if it has the function. Raises InputError for damaged
    results."""
    if not hasattr(module, name):
        return []
    try:
        return list(getattr(module, name)(report, *point))
    except UNEXPECTED as error:
        path = (*point, *report.points)[0].result.path
        section = module.__name__.rpartition(".")[2]
        message = f"the section {section} cannot be shown: {str(error)[:200]}"
        hint = f"{DAMAGED}; if not, it is a netsim bug"
        raise InputError(message, file=str(path), hint=hint) from error
