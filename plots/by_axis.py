"""Pictures of sweeps: statistics of points by transport, by load, or against any axis.

A line or bar is the mean over the seeds, a band or dots their range. Every picture also has a
table, with the 95 % confidence intervals of the means (Student's t).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from netsim.errors import InputError, did_you_mean, errors_at
from netsim.experiment.schema import Reference, is_time, resolve_reference
from netsim.frozen import frozen
from netsim.plots import style, sweeps
from netsim.plots.flows import ALIKE
from netsim.plots.style import axis_name, for_people, metric_name
from netsim.results.columns import metrics
from netsim.results.write import result_row
from netsim.running import saturation as saturating
from netsim.units import format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from netsim.results import Result

PLOTS = {
    "fct_by_transport": "sweep over transport: last flow and mean, with ideal and fair shares",
    "fct_vs_load": "sweep over traffic.load: last flow and mean, with max-min fair shares",
    "saturation": "latency and accepted load against offered load, by netsim saturate",
}

LOAD = "traffic.load"
FAIR = "fair shares of hashed paths"
STATISTICS = {"max": "last flow", "mean": "mean over flows"}

MEAN, P99, ACCEPTED = "latency_mean_ps", "latency_p99_ps", "accepted_load"

MAX_RATIO = 10  # highest latency that is drawn with a saturation, as a multiple of the lowest
MAX_INSIDE = 4  # maximum number of lines with a legend inside the axes

DOTS_WIDTH, DOT_GAP, HALF = 0.7, 0.18, 0.42
"""Width of all dots at a place, largest distance between them, and half of a line there."""

MAX_WRITTEN = 12  # maximum number of dots with their values
NEAR_X, NEAR_Y = 0.085, 0.06  # fractions of the axes; values closer than this overlap

Lines = dict[str, dict[Any, sweeps.Spread]]
"""Curve -> value on x, as in the experiment -> statistics over the seeds."""


@frozen
class Transports:
    """Completion times: `ours` in ps by statistic and transport, `ideal_ps`, and `fair_ps` (for
    max-min fair shares on hashed paths) by statistic, if known; `curves` by transport."""

    curves: dict[str, sweeps.Curve]
    ours: dict[str, dict[str, sweeps.Spread]]
    ideal_ps: dict[str, float]
    fair_ps: dict[str, float]
    title: str
    note: str

    @property
    def table(self) -> sweeps.Table:
        unit, scale = style.time_unit(point.high for point in self.ours["max"].values())
        over = ["over ideal\n%"] + (["over fair\nshares %"] if self.fair_ps else [])
        headers = ["transport", "seeds", f"last flow\n{unit}", "± 95 %", "seeds'\nrange", *over]
        rows = []
        for name, last in self.ours["max"].items():
            mean = self.ours["mean"][name]
            row = [name, str(len(last.values)), format_number(last.mean / scale)]
            row += [
                sweeps.plus_minus(last, scale),
                sweeps.span(last, scale),
                *self._over("max", last),
            ]
            row += [format_number(mean.mean / scale), *self._over("mean", mean)]
            rows.append(tuple(row))
        known = [("ideal", self.ideal_ps), ("fair shares", self.fair_ps)]
        notes = []
        for name, times_ps in known:
            if times_ps:
                last_flow, mean_flow = (format_number(times_ps[key] / scale) for key in STATISTICS)
                notes.append(f"{name}: last flow {last_flow} {unit}, mean {mean_flow} {unit}")
        return sweeps.Table((*headers, f"mean\n{unit}", *over), rows, (*notes, self.note))

    def _over(self, statistic: str, point: sweeps.Spread) -> list[str]:
        others = [by[statistic] for by in (self.ideal_ps, self.fair_ps) if by]
        return [sweeps.difference(point.mean, other) for other in others]


def transports(results: Sequence[Result]) -> Transports:
    """Return the completion times of each transport, the ideal and the fair shares. Raises
    InputError for one transport, or points that differ in traffic or topology."""
    if keys := sweeps.differing(results):
        raise InputError(
            f"points differ in {', '.join(keys)}",
            hint="run the sweep with one value"
            + (", or use --kind fct_vs_load" if keys == [LOAD] else ""),
        )
    curves = sweeps.by_transport(results)
    if len(curves) < 2:
        raise InputError(
            f"{next(iter(curves))} is the only transport: run a sweep over transport",
            hint='such as transport = ["roce", "ndp"]; "ideal" does not count',
        )
    ours = {
        key: {
            name: point
            for name, curve in curves.items()
            if (point := sweeps.spread(curve.results, "fct_ps", key)) is not None
        }
        for key in STATISTICS
    }
    ideal_ps = {key: _ideal_ps(results[0], key) for key in STATISTICS}
    fair, note = sweeps.fair_shares(results)
    fair_ps = {key: point.mean for key, point in fair.items()}
    return Transports(curves, ours, ideal_ps, fair_ps, sweeps.title(results), note)


def fct_by_transport(results: Sequence[Result]) -> sweeps.Picture:
    """Draw the last and the mean completion time of each transport at one load; see
    `transports`."""
    found = transports(results)
    return sweeps.Picture(draw_transports(found), found.table)


def draw_transports(
    found: Transports, stated: Mapping[str, tuple[float, str]] | None = None, by: str = ""
) -> Figure:
    """Draw a bar for each transport, the dots of its seeds, and lines of ideal and fair shares.

    `stated` are last completion times in ps by transport to be marked next to ours, with "" or a
    bound such as "at most"; `by` is their source.
    """
    figure, panels = style.new_figure(columns=2)
    names = list(found.ours["max"])
    figure.set_figheight(max(2.6, 1.4 + 0.42 * len(names)))
    stated = stated or {}
    known = [*found.ideal_ps.values(), *found.fair_ps.values()]
    known += [time_ps for time_ps, _ in stated.values()]
    known += [point.high for point in found.ours["max"].values()]
    unit, scale = style.time_unit(known)
    for axes, (key, label) in zip(panels, STATISTICS.items(), strict=True):
        points = {n: sweeps.scaled(found.ours[key][n], scale) for n in names}
        sweeps.bars(axes, points, [found.curves[n].curve_style.color for n in names])
        ideal: dict[str, Any] = {"color": style.IDEAL, "linestyle": "--"}
        axes.axvline(found.ideal_ps[key] / scale, label=sweeps.IDEAL, **ideal)
        if key in found.fair_ps:
            axes.axvline(found.fair_ps[key] / scale, color="black", linestyle=":", label=FAIR)
        axes.set_xlim(0, 1.1 * axes.get_xlim()[1])
        axes.set_xlabel(f"completion time, {label} ({unit})")
    marks = [(ps / scale, names.index(name), bound) for name, (ps, bound) in stated.items()]
    style.mark_stated(panels[0], marks, by, sideways=True)
    panels[0].set_xlim(0, max([panels[0].get_xlim()[1], *(1.05 * x for x, *_ in marks)]))
    caption = sweeps.caption(list(found.ours["max"].values()), "bars", "dots: each")
    return style.finish(figure, panels[0], found.title, style.OUTSIDE, caption)


@frozen
class Loads:
    """Completion times over the ideal: `ours` by statistic, transport and load, `fair` by statistic
    and load; `curves` by transport."""

    curves: dict[str, sweeps.Curve]
    ours: dict[str, dict[str, dict[float, sweeps.Spread]]]
    fair: dict[str, dict[float, float]]
    note: str

    @property
    def table(self) -> sweeps.Table:
        rows = []
        for name in self.curves:
            for load, last in self.ours["max"][name].items():
                row = [name, f"{load:g}", str(len(last.values))]
                for key in STATISTICS:
                    point, reference = self.ours[key][name][load], self.fair[key].get(load)
                    row += [f"{point.mean:.3f}", sweeps.plus_minus(point, 1, 2)]
                    row.append("-" if reference is None else f"{reference:.3f}")
                    row.append(sweeps.difference(point.mean, reference))
                rows.append(tuple(row))
        each = ("± 95 %", "fair\nshares", "difference\n%")
        headers = "transport", "load", "seeds", "last\n/ ideal", *each, "mean\n/ ideal", *each
        return sweeps.Table(headers, rows, (self.note,))


def loads(results: Sequence[Result]) -> Loads:
    """Return the times over the ideal at each load, with fair shares on hashed paths.
    Raises InputError unless the results have several values of traffic.load."""
    if len({sweeps.resolved(result, LOAD) for result in results} - {None}) < 2:
        raise InputError(
            "--kind fct_vs_load needs a sweep over traffic.load",
            hint='such as load = [0.2, 0.6, 1.0] in [traffic]; see the experiment "fct_vs_load"',
        )
    curves = sweeps.by_transport(results, apart=[LOAD])
    ours = {
        key: {name: _by_load(curve.results, key) for name, curve in curves.items()}
        for key in STATISTICS
    }
    return Loads(curves, ours, *_fair_by_load(results))


def fct_vs_load(results: Sequence[Result]) -> sweeps.Picture:
    """Draw the last (left) and mean (right) FCT over the ideal, against load; see `loads`."""
    found = loads(results)
    figure, panels = style.new_figure(columns=2)
    for axes, (key, label) in zip(panels, STATISTICS.items(), strict=True):
        for place, (name, points) in enumerate(found.ours[key].items()):
            look = style.distinct_in_grayscale(found.curves[name].curve_style, place)
            sweeps.line(axes, points, look, name)
        if fair := found.fair[key]:
            axes.plot(list(fair), list(fair.values()), "k--", linewidth=1.2, label=FAIR)
        axes.axhline(1, color=style.IDEAL, linestyle=":", linewidth=1.2, label=sweeps.IDEAL)
        axes.set(xlabel="load", ylabel=f"completion time / ideal, {label}")
        axes.set_ylim(bottom=0)
    seeds = [point for by_load in found.ours["max"].values() for point in by_load.values()]
    title, caption = sweeps.title(results), sweeps.caption(seeds)
    figure = style.finish(figure, panels[0], title, style.OUTSIDE, caption)
    return sweeps.Picture(figure, found.table)


def _by_load(group: Sequence[Result], statistic: str) -> dict[float, sweeps.Spread]:
    def over_ideal(result: Result) -> float | None:
        last_or_mean = result.summary["fct_ps"].get(statistic)
        return None if last_or_mean is None else last_or_mean / _ideal_ps(result, statistic)

    points = sweeps.by_value(group, lambda result: sweeps.resolved(result, LOAD), over_ideal)
    return {float(load): points[load] for load in sorted(points)}


def _ideal_ps(result: Result, statistic: str) -> float:
    times = result.flows["ideal_ps"].to_numpy()
    return float(times.max() if statistic == "max" else times.mean())


def _fair_by_load(results: Sequence[Result]) -> tuple[dict[str, dict[float, float]], str]:
    """Return fair times over ideal by statistic and load, and a note on them or their absence."""
    fair: dict[str, dict[float, float]] = {key: {} for key in STATISTICS}
    known, note = sweeps.fair_shares(results, [LOAD])
    by_load: dict[float, list[Result]] = {}
    for result in results if known else ():
        if (load := sweeps.resolved(result, LOAD)) is not None:
            by_load.setdefault(float(load), []).append(result)
    for load, group in sorted(by_load.items()):
        for key, point in sweeps.fair_shares(group)[0].items():
            fair[key][load] = point.mean / _ideal_ps(group[0], key)
    return fair, note


def saturation(results: Sequence[Result]) -> sweeps.Picture:
    """Draw latency (left; dotted: 99th percentile) and accepted load (right) against offered load.

    A line per routing, network or transport; latencies above ten times the lowest are cut off. The
    legend has the load at which each saturates (`netsim.running.saturation`). Raises InputError
    unless results have [measure] and several values of traffic.load.
    """
    measured = [one for one in results if "throughput" in one.summary and _load(one) is not None]
    if len({_load(result) for result in measured}) < 2:
        hint = "such as the result of `netsim saturate`"
        message = "--kind saturation needs points with [measure] at several values of traffic.load"
        raise InputError(message, hint=hint)
    lines = []
    rows: list[tuple[str, ...]] = []
    for curve in sweeps.curves(measured, apart=[LOAD]):
        by_load: dict[float, list[dict[str, Any]]] = {}
        for result in curve.results:
            by_load.setdefault(_load(result) or 0.0, []).append(result_row(result))
        by_load = dict(sorted(by_load.items()))
        mean, tail, accepted = (
            {
                load: point
                for load, its in by_load.items()
                if (point := sweeps.spread_of([row[column] for row in its])) is not None
            }
            for column in (MEAN, P99, ACCEPTED)
        )
        reached = saturating.saturation_of(by_load)
        lines.append((f"{curve.label}: {reached}", curve.curve_style, mean, tail, accepted))
        known = [row["saturation_bound"] for its in by_load.values() for row in its]
        bound = min((value for value in known if value is not None), default=None)
        most = max(point.mean for point in accepted.values())
        shown = "-" if bound is None else format_number(bound)
        rows.append((curve.label, str(reached), shown, f"{most:.4f}"))
    table = sweeps.Table(("", "saturation", "bound", "largest\naccepted load"), rows)
    figure, (left, right) = style.new_figure(columns=2)
    means = [point for _, _, mean, *_ in lines for point in mean.values()]
    lowest, highest = min(point.low for point in means), max(point.high for point in means)
    top = min(highest * 1.05, lowest * MAX_RATIO)
    unit, scale = style.time_unit([top])
    last = max(load for *_, accepted in lines for load in accepted)
    for place, (label, curve_style, mean, tail, accepted) in enumerate(lines):
        look = style.distinct_in_grayscale(curve_style, place)
        points = {load: sweeps.scaled(point, scale) for load, point in mean.items()}
        sweeps.line(left, points, look, label)
        highs = [point.mean / scale for point in tail.values()]
        left.plot(list(tail), highs, color=look.color, linestyle=":", linewidth=1)
        sweeps.line(right, accepted, look, label)
    right.plot([0, last], [0, last], color=style.IDEAL, linestyle=":", linewidth=1.2)
    left.set_ylabel(f"completion time, {unit} (dotted: 99th percentile)")
    left.set_ylim(0, top / scale)
    right.set_ylabel("accepted load")
    right.set_ylim(bottom=0)
    for axes in (left, right):
        axes.set(xlabel="offered load", xlim=(0, last * 1.02))
    caption = sweeps.caption([point for *_, accepted in lines for point in accepted.values()])
    title = sweeps.title(measured)
    return sweeps.Picture(style.finish(figure, left, title, style.OUTSIDE, caption), table)


def _load(result: Result) -> float | None:
    """Return the load of a point, None if it is not a number."""
    load = sweeps.resolved(result, LOAD)
    return float(load) if isinstance(load, int | float) else None


@frozen
class AgainstAxis:
    """A number `y` of summaries by the values of the axis `x`: lines and (for completion times)
    ideals by label. `panels` maps titles to the labels of their lines, each with its label and
    style there."""

    x: str
    y: str
    lines: Lines
    panels: dict[str, dict[str, tuple[str, style.CurveStyle]]]
    ideal: dict[str, dict[Any, float]]
    reference: Reference | None
    title: str

    @property
    def values(self) -> list[Any]:
        return list(dict.fromkeys(value for line in self.lines.values() for value in line))

    @property
    def points(self) -> list[sweeps.Spread]:
        return [point for line in self.lines.values() for point in line.values()]

    @property
    def table(self) -> sweeps.Table:
        """A row per line and value, with the excess over the ideal and the reference."""
        unit, scale = unit_of(self.y, [point.high for point in self.points])
        header = f"{self.y}\n{unit}" if unit else self.y
        headers = ["", _last_word(self.x), "seeds", header, "± 95 %", "seeds'\nrange"]
        headers += ["over ideal\n%"] if self.ideal else []
        places, reference = sweeps.positions(self.values), self.reference
        known = {} if reference is None else sweeps.by_place(reference.values, places)
        if reference is not None:
            headers += [f"{reference.label}\n{unit}", f"over {reference.label}\n%"]
        short = sweeps.short_names(str(v) for line in self.lines.values() for v in line)
        rows = []
        for label, line in self.lines.items():
            for value, point in line.items():
                row = [label, short[str(value)], str(len(point.values))]
                row += [format_number(point.mean / scale), sweeps.plus_minus(point, scale)]
                row.append(sweeps.span(point, scale))
                if self.ideal:
                    row.append(sweeps.difference(point.mean, self.ideal[label].get(value)))
                if reference is not None:
                    stated = known.get(places[value])
                    row.append("-" if stated is None else format_number(stated / scale))
                    row.append(sweeps.difference(point.mean, stated))
                rows.append(tuple(row))
        notes = (
            (f"{reference.label}: {reference.source}",) if reference and reference.source else ()
        )
        return sweeps.Table(tuple(headers), rows, notes)


def against_axis(
    results: Sequence[Result], x: str, y: str, panels: str | None = None
) -> AgainstAxis:
    """Return the column `y` of the points at each value of the axis `x`.

    `x` is an axis or its last word; `y` is a number of summary.json such as "drops", or a statistic
    such as "fct_p99". `panels` is an axis whose values get a panel each. Raises InputError if an
    axis, the column or its values are missing.
    """
    axis, name = sweeps.axis_of(results, x, "--x"), _column(results, y)
    split = None if panels is None else sweeps.axis_of(results, panels, "--panels")
    chosen = sweeps.without_ideal(results) or list(results)
    # A transport implies its parameters and expected fabric, unless fabrics are compared.
    implied = not any("fabric" in result.experiment["axes"] for result in results)
    apart = [axis, "fabric"] if axis == sweeps.TRANSPORT and implied else [axis]
    every = sweeps.curves(chosen, apart)
    lines = {curve.label: _by_x(curve.results, axis, name) for curve in every}
    curves = [curve for curve in every if lines[curve.label]]
    if not curves:
        raise InputError(f"no point has a value of {name}", key="--y")
    names = {id(curve.results): curve.label for curve in curves}
    drawn = {
        title: {names[id(one.results)]: (one.label, one.curve_style) for one in its}
        for title, its in sweeps.panels(curves, apart, split).items()
    }
    ideal = {}
    if _quantity_of(name) == "fct":
        for curve in curves:
            points = _by_x(curve.results, axis, name.replace("fct_", "ideal_"))
            ideal[curve.label] = {value: point.mean for value, point in points.items()}
    lines = {curve.label: lines[curve.label] for curve in curves}
    reference, title = _reference(results, axis, name), sweeps.title(results)
    return AgainstAxis(axis, name, lines, drawn, ideal, reference, title)


def _reference(results: Sequence[Result], axis: str, name: str) -> Reference | None:
    """Return the experiment's reference for a plot, or None. Raises InputError if invalid."""
    for result in results:
        table = result.experiment["resolved"].get("reference")
        if not table:
            continue
        with errors_at(file=result.path):
            reference = resolve_reference(table)
        column = reference.column.removesuffix("_ps")
        if reference.axis == axis and name.removesuffix("_ps") == column:
            return reference
    return None


def draw_against_axis(found: AgainstAxis) -> Figure:
    """Draw a line per curve; many are split into panels.

    Quantities on x are to scale, logarithmic beyond a decade. Names and one or two quantities are
    side by side, with dots for means and bars for ranges. Ideals and the reference are broken
    lines.
    """
    figure, panels = style.new_panels(list(found.panels))
    for title, axes in panels.items():
        _draw_panel(axes, found, title)
    beside = sweeps.side_by_side(found.values)
    caption = sweeps.caption(found.points, *(("dots", "bars: their range") if beside else ()))
    where = "best" if len(found.lines) <= MAX_INSIDE else style.OUTSIDE
    return style.finish_panels(figure, list(panels.values()), found.title, where, caption)


def _draw_panel(axes: Axes, found: AgainstAxis, title: str) -> None:
    chosen, places = found.panels[title], sweeps.positions(found.values)
    lines = {label: found.lines[label] for label in chosen}
    points = [point for line in lines.values() for point in line.values()]
    unit, scale = unit_of(found.y, [point.high for point in points])
    beside = sweeps.side_by_side(list(places))
    near_x = NEAR_X * len(places)
    near_y = NEAR_Y * max((point.high for point in points), default=0.0) / scale
    written_at: list[tuple[float, float]] = []
    gap = min(DOT_GAP, DOTS_WIDTH / len(lines)) if beside else 0.0
    for index, (label, line) in enumerate(lines.items()):
        offset = gap * (index - (len(lines) - 1) / 2)
        placed = {
            places[value] + offset: sweeps.scaled(line[value], scale)
            for value in sorted(line, key=places.__getitem__)
        }
        shown, curve_style = chosen[label]
        (sweeps.dots if beside else sweeps.line)(axes, placed, curve_style, shown)
        for x, point in placed.items() if beside and len(points) <= MAX_WRITTEN else ():
            near = (abs(x - a) < near_x and abs(point.high - b) < near_y for a, b in written_at)
            if not any(near):
                style.write_value(axes, (x, point.high), point.mean, (0, 5))
                written_at.append((x, point.high))
    ideals = {chosen[label][0]: found.ideal.get(label, {}) for label in lines}
    known = [
        (name, style.IDEAL, {places[value]: time for value, time in ideal.items()})
        for name, ideal in _named_ideals(ideals).items()
    ]
    if found.reference is not None:
        values = sweeps.by_place(found.reference.values, places)
        known.append((found.reference.label, "black", values))
    for index, (label, color, values) in enumerate(known):
        xs, ys = sorted(values), [values[x] / scale for x in sorted(values)]
        how: dict[str, Any] = {"color": color, "label": label, "zorder": 3}
        if beside:
            how |= {"linestyles": style.broken(index)}
            axes.hlines(ys, [x - HALF for x in xs], [x + HALF for x in xs], **how)
        else:
            axes.plot(xs, ys, linestyle=style.broken(index), **how)
    drawn = [time for *_, values in known for time in values.values()]
    drawn += [end for point in points for end in (point.low, point.high)]
    sweeps.scale_x(axes, places)
    style.fit_axis(axes, "y", [drawn], scale)
    axes.set_xlabel(axis_name(found.x))
    name = metric_name(found.y)
    axes.set_ylabel(f"{name} ({unit})" if unit else name)


def _named_ideals(ideals: dict[str, dict[Any, float]]) -> dict[str, dict[Any, float]]:
    """Return the distinct ideals of curves, each named by its curves' common values."""
    groups: list[tuple[dict[Any, float], list[str]]] = []
    for label, ideal in zip(for_people(list(ideals)), ideals.values(), strict=True):
        its = next((its for other, its in groups if _alike(ideal, other)), None)
        if its is not None:
            its.append(label)
        elif any(ideal.values()):
            groups.append((ideal, [label]))
    if len(groups) == 1:
        return {sweeps.IDEAL: groups[0][0]}
    names = []
    for _, its in groups:
        others = [set(_parts(one)) for _, labels in groups if labels is not its for one in labels]
        same = [part for part in _parts(its[0]) if all(part in _parts(one) for one in its)]
        is_unique = not any(set(same) <= other for other in others)
        names.append(", ".join(same) if is_unique else "")
    if names.count("") == 1:
        names = [name or "others" for name in names]
    named = zip(names, groups, strict=True)
    return {f"ideal of {name or ' and '.join(its)}": ideal for name, (ideal, its) in named}


def _alike(one: dict[Any, float], other: dict[Any, float]) -> bool:
    """Return whether one line represents all ideals."""
    both = one.keys() & other.keys()
    return bool(both) and all(abs(one[at] - other[at]) <= ALIKE * one[at] for at in both)


def _parts(label: str) -> list[str]:
    return label.split(", ")


def _last_word(axis: str) -> str:
    return axis.rpartition(".")[2]


def _columns(result: Result) -> dict[str, float | None]:
    """Return every number of a result by name: "fct_p99", "drops", "ttft_p99_ps". Columns of flow
    classes and jobs have a prefix: "wan.fct_p99"."""
    columns = dict(_numbers(result.summary))
    values = {metric.name: metric.of(result.summary) for metric in metrics()}
    columns |= {name: value for name, value in values.items() if isinstance(value, int | float)}
    for one in result.summary.get("flow_classes", []):
        prefix = f"{one['flow_class']}." if one["flow_class"] else "traffic."
        columns |= {prefix + name: number for name, number in _numbers(one)}
    for one in result.summary.get("placement", []):
        columns |= {f"{one['job']}.{name}": number for name, number in _numbers(one)}
    return columns


def _numbers(summary: dict[str, Any]) -> Iterator[tuple[str, float | None]]:
    for name, value in summary.items():
        if isinstance(value, dict):
            short = name.removesuffix("_ps")
            for statistic, number in value.items():
                if isinstance(number, int | float) or number is None:
                    yield f"{short}_{statistic}", number
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield name, value


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

    def value(result: Result) -> Any:
        its = result.experiment["axes"].get(axis)
        return str(its) if isinstance(its, list | dict) else its

    return sweeps.by_value(results, value, lambda result: _columns(result).get(name))


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
