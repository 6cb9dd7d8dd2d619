"""Any statistic of a sweep against any axis: `netsim plot RESULT --x fan_in --y drops`.

A line per transport and value of the other axes is the mean over the seeds, its band their range;
many lines are split into panels. Quantities on x are to scale, logarithmic beyond a decade. Names
and one or two quantities are side by side, with dots for means and bars for ranges. Ideals of
completion times, and the experiment's [reference], are broken lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netsim.errors import InputError, did_you_mean
from netsim.experiment.reference import Reference, is_time, resolve_reference
from netsim.plots import seed_curves, style, sweeps
from netsim.plots.distributions import ALIKE
from netsim.plots.places import by_place, positions, scale_x, side_by_side
from netsim.plots.words import axis_name, for_people, metric_name
from netsim.results.columns import metrics
from netsim.units import format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from netsim.results import Result

MAX_INSIDE = 4
"""Maximum number of lines with a legend inside the axes."""

DOTS_WIDTH, DOT_GAP, HALF = 0.7, 0.18, 0.42
"""Width of all dots at a place, largest distance between them, and half of a line there."""

MAX_WRITTEN = 12
"""Maximum number of dots with their values."""

Lines = dict[str, dict[Any, sweeps.Spread]]
"""Curve -> value on x, as in the experiment -> statistics over the seeds."""


@dataclass(frozen=True)
class Comparison:
    """Lines and (for completion times) ideals by label.

    `panels` maps titles to the labels of their lines, each with its label and style there.
    """

    x: str
    y: str
    lines: Lines
    panels: dict[str, dict[str, tuple[str, style.CurveStyle]]]
    ideal: dict[str, dict[Any, float]]
    reference: Reference | None
    title: str
    table: sweeps.Table


def compare(results: Sequence[Result], x: str, y: str) -> Comparison:
    """Return the column `y` of the points at each value of the axis `x`.

    `x` is an axis or its last word; `y` is a number of summary.json such as "drops", or a statistic
    such as "fct_p99". Raises InputError if the axis, the column or its values are missing.
    """
    axis = _axis(results, x)
    name = _column(results, y)
    chosen = seed_curves.without_ideal(results) or list(results)
    # A transport implies its parameters and expected fabric.
    apart = [axis, "fabric"] if axis == seed_curves.TRANSPORT else [axis]
    curves = [
        (curve, line)
        for curve in seed_curves.curves(chosen, apart)
        if (line := _by_x(curve.results, axis, name))
    ]
    if not curves:
        raise InputError(f"no point has a value of {name}", key="--y")
    lines = {curve.label: line for curve, line in curves}
    names = {id(curve.results): curve.label for curve, _ in curves}
    panels = seed_curves.panels([curve for curve, _ in curves], apart)
    reference = _reference(results, axis, name)
    ideal = {}
    if _quantity_of(name) == "fct":
        of_ideal = name.replace("fct_", "ideal_")
        for curve, _ in curves:
            found = _by_x(curve.results, axis, of_ideal)
            ideal[curve.label] = {value: point.mean for value, point in found.items()}
    return Comparison(
        x=axis,
        y=name,
        lines=lines,
        panels={
            title: {names[id(one.results)]: (one.label, one.curve_style) for one in found}
            for title, found in panels.items()
        },
        ideal=ideal,
        reference=reference,
        title=seed_curves.title(results),
        table=_table(lines, axis, name, ideal, reference),
    )


def _reference(results: Sequence[Result], axis: str, name: str) -> Reference | None:
    """Return the experiment's reference for a plot, or None. Raises InputError if invalid."""
    for result in results:
        table = result.experiment["resolved"].get("reference")
        if not table:
            continue
        try:
            found = resolve_reference(table)
        except InputError as error:
            raise error.at(file=str(result.path)) from None
        if found.axis == axis and name.removesuffix("_ps") == found.column.removesuffix("_ps"):
            return found
    return None


def draw(comparison: Comparison) -> Figure:
    """Draw a line per curve, and the ideal of completion times."""
    points = [point for line in comparison.lines.values() for point in line.values()]
    figure, panels = style.new_panels(list(comparison.panels))
    for title, axes in panels.items():
        _draw_panel(axes, comparison, title)
    beside = side_by_side(_values(comparison.lines))
    caption = sweeps.caption(points, *(("dots", "bars: their range") if beside else ()))
    where = "best" if len(comparison.lines) <= MAX_INSIDE else style.OUTSIDE
    return style.finish_panels(figure, list(panels.values()), comparison.title, where, caption)


def _draw_panel(axes: Axes, comparison: Comparison, title: str) -> None:
    chosen = comparison.panels[title]
    lines = {label: comparison.lines[label] for label in chosen}
    places = positions(_values(comparison.lines))
    points = [point for line in lines.values() for point in line.values()]
    reference = comparison.reference
    unit, scale = unit_of(comparison.y, [point.high for point in points])
    beside = side_by_side(list(places))
    gap = min(DOT_GAP, DOTS_WIDTH / len(lines)) if beside else 0.0
    for index, (label, line) in enumerate(lines.items()):
        order = sorted(line, key=places.__getitem__)
        offset = gap * (index - (len(lines) - 1) / 2)
        placed = {places[at] + offset: sweeps.scaled(line[at], scale) for at in order}
        shown, curve_style = chosen[label]
        (sweeps.dots if beside else sweeps.line)(axes, placed, curve_style, shown)
        for at, point in placed.items() if beside and len(points) <= MAX_WRITTEN else ():
            style.write_value(axes, (at, point.high), point.mean, (0, 5))
    ideals = {chosen[label][0]: comparison.ideal.get(label, {}) for label in lines}
    known = [
        (name, style.IDEAL, {places[value]: time for value, time in ideal.items()})
        for name, ideal in _named_ideals(ideals).items()
    ]
    if reference is not None:
        known.append((reference.label, "black", by_place(reference.values, places)))
    for index, (label, color, values) in enumerate(known):
        x, y = sorted(values), [values[at] / scale for at in sorted(values)]
        how: dict[str, Any] = {"color": color, "label": label, "zorder": 3}
        if beside:
            how |= {"linestyles": style.broken(index)}
            axes.hlines(y, [at - HALF for at in x], [at + HALF for at in x], **how)
        else:
            axes.plot(x, y, linestyle=style.broken(index), **how)
    shown_values = [time for *_, values in known for time in values.values()]
    shown_values += [end for point in points for end in (point.low, point.high)]
    scale_x(axes, places)
    style.fit_axis(axes, "y", [shown_values], scale)
    axes.set_xlabel(axis_name(comparison.x))
    name = metric_name(comparison.y)
    axes.set_ylabel(f"{name} ({unit})" if unit else name)


def _values(lines: Lines) -> list[Any]:
    """Return the values on x of all lines."""
    return list(dict.fromkeys(value for line in lines.values() for value in line))


def _named_ideals(ideals: dict[str, dict[Any, float]]) -> dict[str, dict[Any, float]]:
    """Return the distinct ideals of curves, each named by what its curves have in common."""
    groups: list[tuple[dict[Any, float], list[str]]] = []
    for label, ideal in zip(for_people(list(ideals)), ideals.values(), strict=True):
        its = next((its for other, its in groups if _alike(ideal, other)), None)
        if its is not None:
            its.append(label)
        elif any(ideal.values()):
            groups.append((ideal, [label]))
    if len(groups) == 1:
        return {seed_curves.IDEAL: groups[0][0]}
    names = []
    for _, its in groups:
        others = [one for _, labels in groups if labels is not its for one in labels]
        same = [part for part in _parts(its[0]) if all(part in _parts(one) for one in its)]
        is_unique = not any(set(same) <= set(_parts(one)) for one in others)
        names.append(", ".join(same) if is_unique else "")
    if names.count("") == 1:
        names = [name or "others" for name in names]
    named = zip(names, groups, strict=True)
    return {f"ideal of {name or ' and '.join(its)}": ideal for name, (ideal, its) in named}


def _alike(one: dict[Any, float], other: dict[Any, float]) -> bool:
    """Return whether one line stands for all ideals."""
    both = one.keys() & other.keys()
    return bool(both) and all(abs(one[at] - other[at]) <= ALIKE * one[at] for at in both)


def _parts(label: str) -> list[str]:
    return label.split(", ")


def _last_word(axis: str) -> str:
    return axis.rpartition(".")[2]


def _axis(results: Sequence[Result], written: str) -> str:
    """Return the full name of an axis. Raises InputError if missing or ambiguous."""
    axes: list[str] = list(
        dict.fromkeys(axis for result in results for axis in result.experiment["axes"])
    )
    found = [axis for axis in axes if axis == written]
    found = found or [axis for axis in axes if _last_word(axis) == written]
    if not found:
        hint = did_you_mean(written, [_last_word(axis) for axis in axes])
        raise InputError(f'the sweep has no axis "{written}"', key="--x", hint=hint)
    if len(found) > 1:
        hint = f"write {' or '.join(found)}"
        raise InputError(f'ambiguous axis "{written}"', key="--x", hint=hint)
    return found[0]


def _columns(result: Result) -> dict[str, float | None]:
    """Return every number of a result by name: "fct_p99", "drops", "ttft_p99_ps".

    Those of flow classes have a prefix: "wan.fct_p99".
    """
    found = _numbers(result.summary)
    values = {metric.name: metric.of(result.summary) for metric in metrics()}
    found |= {name: value for name, value in values.items() if isinstance(value, int | float)}
    for one in result.summary.get("flow_classes", []):
        prefix = f"{one['flow_class']}." if one["flow_class"] else "traffic."
        found |= {prefix + name: number for name, number in _numbers(one).items()}
    return found


def _numbers(summary: dict[str, Any]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for name, value in summary.items():
        if isinstance(value, dict):
            short = name.removesuffix("_ps")
            for statistic, number in value.items():
                if isinstance(number, int | float) or number is None:
                    found[f"{short}_{statistic}"] = number
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[name] = value
    return found


def _column(results: Sequence[Result], written: str) -> str:
    """Return the name of a column, written with or without unit. Raises InputError."""
    names = list(dict.fromkeys(name for result in results for name in _columns(result)))
    for name in (written, f"{written}_ps", written.removesuffix("_ps")):
        if name in names:
            return name
    hint = did_you_mean(written, names)
    raise InputError(f'unknown number "{written}"', key="--y", hint=hint)


def _quantity_of(name: str) -> str:
    """Return the quantity of a column: "fct" for "wan.fct_p99"."""
    return name.rpartition(".")[2].partition("_")[0]


def _by_x(results: Sequence[Result], axis: str, name: str) -> dict[Any, sweeps.Spread]:
    """Return the statistics over seeds at each value of an axis."""
    return sweeps.by_value(
        results,
        lambda result: _hashable(result.experiment["axes"].get(axis)),
        lambda result: _columns(result).get(name),
    )


def _hashable(value: Any) -> Any:
    return str(value) if isinstance(value, list | dict) else value


def unit_of(name: str, values: Sequence[float]) -> tuple[str, float]:
    """Return the unit of a column and its divisor."""
    if is_time(name):
        return style.time_unit(values)
    if name == "packet_hops_per_s":
        return "million packet-hops/s", 1e6
    if name.endswith("_s"):
        return "1/s" if name.endswith("_per_s") else "s", 1.0
    if _quantity_of(name) == "slowdown":
        return "", 1.0
    return ("millions", 1e6) if max(values) >= 1e7 else ("", 1.0)


def _table(
    lines: Lines,
    axis: str,
    name: str,
    ideal: dict[str, dict[Any, float]],
    reference: Reference | None,
) -> sweeps.Table:
    points = [point for line in lines.values() for point in line.values()]
    unit, scale = unit_of(name, [point.high for point in points])
    header = f"{name}\n{unit}" if unit else name
    headers = ["", _last_word(axis), "seeds", header, "± 95 %", "seeds'\nrange"]
    headers += ["over ideal\n%"] if ideal else []
    places = positions(_values(lines))
    known = {} if reference is None else by_place(reference.values, places)
    if reference is not None:
        headers += [f"{reference.label}\n{unit}", f"over {reference.label}\n%"]
    short = seed_curves.short_names(str(value) for line in lines.values() for value in line)
    rows = []
    for label, line in lines.items():
        for value, point in line.items():
            row = [label, short[str(value)], str(len(point.values))]
            row += [format_number(point.mean / scale), sweeps.plus_minus(point, scale)]
            row.append(sweeps.span(point, scale))
            row += [sweeps.difference(point.mean, ideal[label].get(value))] if ideal else []
            if reference is not None:
                stated = known.get(places[value])
                row.append("-" if stated is None else format_number(stated / scale))
                row.append(sweeps.difference(point.mean, stated))
            rows.append(tuple(row))
    notes = (f"{reference.label}: {reference.source}",) if reference and reference.source else ()
    return sweeps.Table(tuple(headers), rows, notes)
