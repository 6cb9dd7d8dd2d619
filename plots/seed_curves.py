"""Curves of plots: results that differ only in the seed, with a label and a style."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from netsim.plots import style
from netsim.plots.words import axis_name, for_people, value_text
from netsim.results.files import SWEEP

if TYPE_CHECKING:
    from netsim.results import Result

IDEAL = "ideal"
"""Transport drawn as the line of the ideal instead of a curve."""

TRANSPORT = "transport"
"""The axis of transports."""

NOT_SIMULATED = ("name", "description", "seed", "reference")

MAX_TOGETHER = 8
"""Curves above which a plot is split into panels."""


@dataclass(frozen=True)
class Curve:
    """The results of all seeds of one point, or of several points along an axis."""

    label: str
    transport: str
    results: tuple[Result, ...]
    curve_style: style.CurveStyle


def curves(
    results: Sequence[Result], apart: Sequence[str] = (), *, named: bool = False
) -> list[Curve]:
    """Return the curves of a plot, in the order of the results.

    Results that differ only in the seed and in the keys `apart` (or below them) share a curve. A
    point that was run twice counts once. Labels state the differences; with `named`, they always
    begin with the transport.
    """
    groups: dict[str, dict[str, Result]] = {}
    told = _axes if _are_of_one_sweep(results) else _makeup
    for result in results:
        key = json.dumps(told(result, apart), sort_keys=True)
        point = json.dumps([result.experiment["seed"], *(_value(result, axis) for axis in apart)])
        groups.setdefault(key, {}).setdefault(point, result)
    pooled = [tuple(group.values()) for group in groups.values()]
    kinds = [transport(group[0]) for group in pooled]
    styles = style.curve_styles(kinds)
    return [
        Curve(label, kind, group, curve_style)
        for label, kind, group, curve_style in zip(
            _labels(pooled, apart, named), kinds, pooled, styles, strict=True
        )
    ]


def panels(found: Sequence[Curve], apart: Sequence[str] = ()) -> dict[str, list[Curve]]:
    """Return the curves of each panel by its title; up to MAX_TOGETHER share one without title.

    More are split by transport, or else by the first axis (not in `apart`) in which they differ.
    Labels and styles are distinct within a panel.
    """
    keys = _split_by(found, apart) if len(found) > MAX_TOGETHER else [""] * len(found)
    split: dict[str, list[Curve]] = {}
    for key, one in zip(keys, found, strict=True):
        split.setdefault(key, []).append(one)
    if len(split) < 2:
        styles = [one.curve_style for one in found]
        if len(found) < len(style.MARKERS):
            styles = [style.distinct_in_grayscale(one, place) for place, one in enumerate(styles)]
        return {"": [replace(one, curve_style=s) for one, s in zip(found, styles, strict=True)]}
    return {title: _on_its_own(curves, apart) for title, curves in split.items()}


def _split_by(found: Sequence[Curve], apart: Sequence[str]) -> list[str]:
    """Return the title of each curve's panel."""
    if len({one.transport for one in found}) > 1 and TRANSPORT not in apart:
        return [one.transport for one in found]
    axes = [one.results[0].experiment["axes"] for one in found]
    for axis in dict.fromkeys(axis for values in axes for axis in values):
        titles = [_axis_label(axis, values.get(axis)) for values in axes]
        if axis not in (*apart, "seed") and 1 < len(set(titles)) < len(found):
            return titles
    return [""] * len(found)


def _axis_label(axis: str, value: Any) -> str:
    """Return a value with the name of its axis, or only the value for an axis of labels."""
    return f"{axis_name(axis)} {value_text(value)}" if "." in axis else value_text(value)


def _on_its_own(found: Sequence[Curve], apart: Sequence[str]) -> list[Curve]:
    labels = _labels([one.results for one in found], apart, named=False)
    styles = style.curve_styles([one.transport for one in found])
    return [
        replace(one, label=label, curve_style=style.distinct_in_grayscale(curve_style, place))
        for place, (one, label, curve_style) in enumerate(zip(found, labels, styles, strict=True))
    ]


def transport(result: Result) -> str:
    """Return the name of a result's transport."""
    for plugin in result.experiment["plugins"]:
        if plugin["kind"] == "transport":
            return str(plugin["name"]).partition(":")[0]
    return ""


def resolved(result: Result, key: str) -> Any:
    """Return the value of a dotted key of the resolved experiment, None if "none" or missing."""
    value: Any = result.experiment["resolved"]
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return None if value == "none" else value


def _value(result: Result, axis: str) -> Any:
    return result.experiment["axes"].get(axis, resolved(result, axis))


def short_names(values: Iterable[str]) -> dict[str, str]:
    """Return the short names of plugins: "mine:careful" for "./mine.py:careful".

    Equal names keep as many folders as distinguish them.
    """
    found = {}
    for value in dict.fromkeys(values):
        path, colon, preset = value.partition(".py:")
        if colon or value.endswith(".py"):
            parts = PurePosixPath(path.removesuffix(".py")).parts
            found[value] = (parts, f":{preset}" if colon else "")
        else:
            found[value] = ((value,), "")

    def shown(value: str, depth: int) -> str:
        parts, preset = found[value]
        return "/".join(parts[-depth:]) + preset

    names = {}
    for value, (parts, _) in found.items():
        depth = 1
        while depth < len(parts) and any(
            shown(value, depth) == shown(other, depth) for other in found if other != value
        ):
            depth += 1
        names[value] = shown(value, depth)
    return names


def title(results: Sequence[Result]) -> str:
    """Return what the experiment says about itself, or its name; and the transport if there is
    only one."""
    resolved_ = results[0].experiment["resolved"]
    text = str(resolved_.get("description") or resolved_.get("name", results[0].name))
    text = text.partition(";")[0]
    kinds = for_people(list(short_names(_kind(result) for result in results).values()))
    return text if len(kinds) > 1 or kinds[0] in text else f"{text}: {kinds[0]}"


def caption(found: Sequence[Curve], band: str) -> str:
    """Return the meaning of bands, if any curve has several seeds."""
    seeds = sorted({len(curve.results) for curve in found})
    if not seeds or seeds[-1] == 1:
        return ""
    text = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    return f"{text} seeds; {band}"


def _labels(groups: Sequence[Sequence[Result]], apart: Sequence[str], named: bool) -> list[str]:
    """Return a label for each group: transport and axes, plus what distinguishes equal names."""
    firsts = [group[0] for group in groups]
    names = _names(firsts, apart, named)
    makeups = [_makeup(result, apart) for result in firsts]
    labels = []
    for name, makeup, group in zip(names, makeups, groups, strict=True):
        alike = [other for at, other in zip(names, makeups, strict=True) if at == name]
        keys = [key for key in makeup if any(other.get(key) != makeup[key] for other in alike)]
        parts = [name, *(f"{axis_name(key)} {value_text(makeup[key])}" for key in keys)]
        partial = not all(result.complete for result in group)
        labels.append(", ".join(parts) + (" (partial)" if partial else ""))
    return labels


def _names(results: Sequence[Result], apart: Sequence[str], named: bool) -> list[str]:
    """Return transport and axes of each result, without what is common to all."""
    left_out = (TRANSPORT, "seed", *apart)
    axes = {axis: None for result in results for axis in result.experiment["axes"]}
    varying = [
        axis
        for axis in axes
        if axis not in left_out
        and len({repr(result.experiment["axes"].get(axis)) for result in results}) > 1
    ]
    kinds = short_names(_kind(result) for result in results)
    named = TRANSPORT not in apart and (named or len(kinds) > 1 or not varying)
    names = []
    for result in results:
        values = result.experiment["axes"]
        parts = [kinds[_kind(result)]] if named else []
        parts += [_axis_label(axis, values[axis]) for axis in varying if axis in values]
        names.append(", ".join(parts))
    return names


def _kind(result: Result) -> str:
    kind = result.experiment["axes"].get(TRANSPORT, resolved(result, "transport.kind"))
    return str(kind or transport(result))


def _are_of_one_sweep(results: Sequence[Result]) -> bool:
    """Return whether results are points of one sweep, so that axes tell them apart."""
    folders = {Path(result.path).parent for result in results}
    return len(folders) == 1 and (folders.pop() / SWEEP).is_file()


def _axes(result: Result, apart: Sequence[str]) -> dict[str, Any]:
    """Return the values of a result on the axes of its sweep, without seed and `apart`."""
    left_out = ("seed", *apart)
    return {k: v for k, v in result.experiment["axes"].items() if k not in left_out}


def _makeup(result: Result, apart: Sequence[str]) -> dict[str, Any]:
    """Return the resolved values by dotted key and the code's hash, without seed and `apart`."""
    found: dict[str, Any] = {}

    def add(table: dict[str, Any], prefix: str) -> None:
        for key, value in table.items():
            name = f"{prefix}{key}"
            if name in (*NOT_SIMULATED, *apart):
                continue
            if isinstance(value, dict):
                add(value, f"{name}.")
            else:
                found[name] = value

    kept = {k: v for k, v in result.experiment["resolved"].items() if k != "outputs"}
    add(kept, "")
    for axis, value in result.experiment["axes"].items():
        if axis not in apart and axis.partition(".")[0] in apart:
            found[axis] = value
    for plugin in result.experiment["plugins"]:
        if plugin["kind"] == "transport" and TRANSPORT not in apart:
            found[f"{plugin['name']}.code"] = plugin["sha256"][:6]
    return found


def without_ideal(results: Sequence[Result]) -> list[Result]:
    """Return the results of simulated transports."""
    return [result for result in results if transport(result) != IDEAL]
