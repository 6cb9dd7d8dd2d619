"""Write a calibrated machine as TOML."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from netsim.errors import printable
from netsim.units import format_rate, format_time
from netsim.version import __version__
from netsim.workloads.calibration.fit import BANDS, Fits, Summary
from netsim.workloads.calibration.measured import MeasuredFile
from netsim.workloads.job.curves import CollectiveCurves

DIGITS = 4
"""Significant digits of factors."""


def machine_toml(
    base: Mapping[str, Any],
    fits: Fits,
    files: Sequence[MeasuredFile],
    found: Iterable[Summary],
) -> str:
    """Return the text of a machine file: the values of `base`, the fitted curves, and their
    provenance.
    """
    table = {**base, "source": _source(base, files)}
    for between, link in ((False, "scale_up"), (True, "scale_out")):
        curves = {what: _curves(one) for (what, far), one in fits.items() if far == between}
        if curves:
            table[link] = {**table[link], "measured": curves}
    comments = "\n".join("# " + printable(line) for line in _provenance(files, found))
    return comments + "\n" + "\n".join(_lines(table)) + "\n"


def _source(base: Mapping[str, Any], files: Sequence[MeasuredFile]) -> str:
    names = ", ".join(file.name for file in files)
    return f"collectives measured ({names}); otherwise: {base.get('source', 'its own file')}"


def _provenance(files: Sequence[MeasuredFile], found: Iterable[Summary]) -> Iterator[str]:
    yield f"netsim calibrate {__version__}, {datetime.now(UTC):%Y-%m-%d}. Measured files:"
    for file in files:
        yield f"  {file.name}, sha256 {file.sha256}: {len(file.rows)} times"
        for line in sorted(file.versions | file.devices - {""}):
            yield f"    {line}"
        for why, n in sorted(file.left_out.items()):
            yield f"    left out: {n} {why}"
    bands = ", ".join(name for _, name in BANDS)
    yield f"Errors, median and largest, of {bands}:"
    for one in found:
        errors = [
            "-" if not n else f"{100 * mid:.1f} % {100 * top:.1f} %" for n, mid, top in one.bands
        ]
        yield f"  {one.name}: {', '.join(errors)}"


def _curves(one: CollectiveCurves) -> dict[str, Any]:
    """Return the table of a collective's curves and factors."""
    curves = [
        {
            "algorithm": curve.algorithm,
            "protocol": curve.protocol,
            "base": format_time(curve.base),
            "step": format_time(curve.step),
            "hop": format_time(curve.hop),
            "inside": format_rate(curve.inside),
            "efficiency": curve.efficiency,
        }
        for curve in one.curves
    ]
    factors = [
        {
            "nodes": factors.shape.nodes,
            "per_node": factors.shape.per_node,
            "by_size": [
                [f"{round(2**size)}B", float(f"{math.exp(factor):.{DIGITS}g}")]
                for size, factor in zip(factors.log_sizes, factors.log_factors, strict=True)
            ],
        }
        for factors in one.factors
    ]
    return {"curves": curves, "factors": factors}


def _lines(table: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield a table's lines: values first, then inner tables and lists of tables."""
    inner = {name: value for name, value in table.items() if isinstance(value, Mapping)}
    lists = {
        name: value
        for name, value in table.items()
        if isinstance(value, list) and value and isinstance(value[0], Mapping)
    }
    for name, value in table.items():
        if name not in inner and name not in lists:
            yield f"{name} = {_value(value)}"
    for name, value in lists.items():
        yield f"{name} = ["
        yield from (f"    {_value(one)}," for one in value)
        yield "]"
    for name, value in inner.items():
        if any(not isinstance(one, Mapping) for one in value.values()):
            yield f"\n[{path}{name}]"
        yield from _lines(value, f"{path}{name}.")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        text = "".join(
            c if c.isprintable() and c not in '"\\' else f"\\u{ord(c):04x}" for c in value
        )
        return f'"{text}"'
    if isinstance(value, list):
        return "[" + ", ".join(_value(one) for one in value) + "]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {_value(one)}" for name, one in value.items()) + " }"
    return repr(value)
