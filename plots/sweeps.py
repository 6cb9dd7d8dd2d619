"""Shared by pictures of sweeps: curves (results that differ only in the seed) with label and style;
statistics over seeds, tables, places on x, fair shares."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from netsim.errors import InputError, did_you_mean
from netsim.frozen import frozen
from netsim.plots import style
from netsim.plots.style import axis_name, for_people, value_text
from netsim.results.comparison import margin_95
from netsim.results.files import SWEEP
from netsim.units import format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from netsim.results import Result

IDEAL = "ideal"  # transport drawn as the line of the ideal instead of a curve
TRANSPORT = "transport"  # the axis of transports

NOT_SIMULATED = ("name", "description", "seed", "reference")

MAX_TOGETHER = 8  # number of curves above which a plot is split into panels


@frozen
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
        point = json.dumps([result.experiment["seed"], *(value(result, axis) for axis in apart)])
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


def axis_of(results: Sequence[Result], written: str, key: str) -> str:
    """Return the full name of an axis, also written as its last word. Raises InputError at `key` if
    it is missing or ambiguous."""
    axes = list(dict.fromkeys(axis for result in results for axis in result.experiment["axes"]))
    matches = [axis for axis in axes if axis == written]
    matches = matches or [axis for axis in axes if axis.rpartition(".")[2] == written]
    if not matches:
        hint = did_you_mean(written, [axis.rpartition(".")[2] for axis in axes])
        raise InputError(f'the sweep has no axis "{written}"', key=key, hint=hint)
    if len(matches) > 1:
        hint = f"write {' or '.join(matches)}"
        raise InputError(f'ambiguous axis "{written}"', key=key, hint=hint)
    return str(matches[0])


def only(results: Sequence[Result], conditions: Sequence[str]) -> list[Result]:
    """Return the points that match "AXIS=VALUE" on each named axis; of several values of an axis,
    any matches. Raises InputError for an unknown axis or value."""
    wanted: dict[str, set[str]] = {}
    for condition in conditions:
        axis, equals, value = condition.partition("=")
        if not equals:
            raise InputError(f'"{condition}" is not AXIS=VALUE', key="--only")
        axis = axis_of(results, axis, "--only")
        known = {value_text(result.experiment["axes"].get(axis)) for result in results}
        if value not in known:
            hint = did_you_mean(value, sorted(known))
            raise InputError(f'no point has {axis} = "{value}"', key="--only", hint=hint)
        wanted.setdefault(axis, set()).add(value)
    return [
        result
        for result in results
        if all(value_text(result.experiment["axes"].get(a)) in v for a, v in wanted.items())
    ]


def panels(
    found: Sequence[Curve], apart: Sequence[str] = (), by: str | None = None
) -> dict[str, list[Curve]]:
    """Return the curves of each panel by its title; up to MAX_TOGETHER share one without title.

    More curves are split by transport, or else by the first axis (not in `apart`) in which they
    differ; if `by` is given, any number is split by that axis. Labels and styles are distinct
    within a panel.
    """
    if by is not None:
        keys = [_axis_label(by, one.results[0].experiment["axes"].get(by)) for one in found]
    else:
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


def value(result: Result, axis: str) -> Any:
    """Return a result's value of an axis, or of the key with that name if it is not an axis."""
    return result.experiment["axes"].get(axis, resolved(result, axis))


def short_names(values: Iterable[str]) -> dict[str, str]:
    """Return the short names of plugins: "mine:careful" for "./mine.py:careful". Equal names keep
    as many folders as distinguish them."""
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
    """Return the experiment's title, or its name; and the transport if there is only one."""
    resolved_ = results[0].experiment["resolved"]
    text = str(resolved_.get("description") or resolved_.get("name", results[0].name))
    text = text.partition(";")[0]
    kinds = for_people(list(short_names(_kind(result) for result in results).values()))
    return text if len(kinds) > 1 or kinds[0] in text else f"{text}: {kinds[0]}"


def caption_of_seeds(found: Sequence[Curve], band: str) -> str:
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
    """Return transport and axes of each result, without common values."""
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
    """Return whether results are points of one sweep, so that axes distinguish them."""
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
    return [result for result in results if transport(result) != IDEAL]


T = TypeVar("T")

ONE_SEED = "one seed"  # caption of a plot without bands or dots of seeds
ONE_PATH = ("roce", "dcqcn")  # transports that always use one path per flow


@frozen
class Table:
    """A printed table; the first column is left-aligned."""

    headers: tuple[str, ...]
    rows: list[tuple[str, ...]]
    notes: tuple[str, ...] = ()


class Picture(NamedTuple):
    """A figure, and optionally the table printed with it."""

    figure: Figure
    table: Table | None = None


class Spread(NamedTuple):
    """Mean and range of a statistic over the seeds."""

    mean: float
    low: float
    high: float
    values: tuple[float, ...]

    @property
    def margin(self) -> float | None:
        """Half the 95 % confidence interval of the mean (Student's t); None for one seed."""
        return margin_95(self.values)


def spread_of(values: Sequence[float | None]) -> Spread | None:
    """Return the spread of the values that are known, None without any."""
    known = tuple(float(value) for value in values if value is not None and not math.isnan(value))
    return Spread(sum(known) / len(known), min(known), max(known), known) if known else None


def spread(results: Sequence[Result], quantity: str, statistic: str) -> Spread | None:
    """Return the spread of a statistic ("max") of a quantity ("fct_ps"), None if unknown."""
    return spread_of([result.summary[quantity].get(statistic) for result in results])


def by_value(
    results: Sequence[T], x: Callable[[T], Any], y: Callable[[T], float | None]
) -> dict[Any, Spread]:
    """Return the spread of `y` over the results of each `x`, in their order; None is left out."""
    found: dict[Any, list[float | None]] = {}
    for result in results:
        if (at := x(result)) is not None:
            found.setdefault(at, []).append(y(result))
    spreads = {at: spread_of(values) for at, values in found.items()}
    return {at: point for at, point in spreads.items() if point is not None}


def by_transport(results: Sequence[Result], apart: Sequence[str] = ()) -> dict[str, Curve]:
    """Return the curves of transports and other axes by label, except `apart` and the seed. Raises
    InputError if only the ideal is left."""
    found = curves(without_ideal(results), apart, named=True)
    finished = [one for one in found if spread(one.results, "fct_ps", "max") is not None]
    if not finished:
        raise InputError("no flow of any transport is finished: nothing to compare")
    return {curve.label: curve for curve in finished}


def line(
    axes: Axes, points: Mapping[Any, Spread], curve_style: style.CurveStyle, label: str, **how: Any
) -> None:
    """Draw the means at their places on x as a line and the range of the seeds as a band."""
    options: dict[str, Any] = {"marker": "o", "markersize": 3} | curve_style.options() | how
    options["zorder"] = curve_style.order
    x, found = list(points), list(points.values())
    axes.plot(x, [point.mean for point in found], label=label, **options)
    low, high = [point.low for point in found], [point.high for point in found]
    axes.fill_between(x, low, high, color=curve_style.color, alpha=0.2, linewidth=0)


def scaled(point: Spread, scale: float) -> Spread:
    values = tuple(value / scale for value in point.values)
    return Spread(point.mean / scale, point.low / scale, point.high / scale, values)


def dots(
    axes: Axes, points: Mapping[Any, Spread], curve_style: style.CurveStyle, label: str
) -> None:
    """Draw the means as dots and the range of the seeds as bars."""
    found = list(points.values())
    below = [point.mean - point.low for point in found]
    above = [point.high - point.mean for point in found]
    axes.errorbar(
        list(points), [point.mean for point in found], [below, above], color=curve_style.color,
        marker=curve_style.marker or "o", markersize=5, linestyle="none", capsize=3, label=label,
    )  # fmt: skip


def bars(
    axes: Axes,
    points: Mapping[str, Spread],
    colors: Sequence[str],
    marks: Mapping[str, float] | None = None,
) -> None:
    """Draw a bar for each mean, with its value and name, and a dot for each of several seeds.
    Values are right of `marks`, the rightmost mark of each name."""
    for place, ((name, point), color) in enumerate(zip(points.items(), colors, strict=True)):
        axes.barh(place, point.mean, height=0.6, color=color, alpha=0.75)
        seeds = point.values if len(point.values) > 1 else ()
        axes.plot(seeds, [place] * len(seeds), "k.", markersize=4)
        beyond = max(point.high, (marks or {}).get(name, 0.0))
        style.write_value(axes, (beyond, place), point.mean, (6, 0))
    names_below(axes, list(points))


def names_below(axes: Axes, names: Sequence[str]) -> None:
    """Name the places on y, the first on top; only the leftmost panel has the names."""
    is_first = axes is axes.get_figure().axes[0]  # type: ignore[union-attr]  # drawn on a figure
    axes.set_yticks(range(len(names)), for_people(names) if is_first else [""] * len(names))
    axes.set_ylim(len(names) - 0.5, -0.5)


def caption(
    points: Sequence[Spread], means: str = "lines", ranges: str = "bands: their range"
) -> str:
    """Return the meaning of lines and bands, or that there is only one seed."""
    seeds = sorted({len(point.values) for point in points})
    if seeds[-1] == 1:
        return ONE_SEED
    text = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    return f"{means}: mean of {text} seeds; {ranges}"


def plus_minus(point: Spread, scale: float, digits: int = 3) -> str:
    """Format half the 95 % confidence interval of a mean; "-" for one seed."""
    return "-" if point.margin is None else format_number(point.margin / scale, digits)


def span(point: Spread, scale: float) -> str:
    """Format the range over the seeds; one number if they agree."""
    low, high = format_number(point.low / scale), format_number(point.high / scale)
    return low if low == high else f"{low} to {high}"


def difference(ours: float, other: float | None) -> str:
    """Format how much `ours` exceeds `other`, in percent."""
    return "-" if other is None else f"{100 * (ours / other - 1):+.1f}"


def on_one_path(result: Result) -> bool:
    """Return whether a result's transport keeps each flow on one hashed path."""
    name = transport(result)
    return name in ONE_PATH or (name, resolved(result, "transport.paths")) == ("smartt", "ecmp")


def settings(result: Result, apart: Sequence[str] = ()) -> dict[str, Any]:
    """Return the keys of network and traffic by dotted name."""
    found = {}
    for section in ("topology", "traffic"):
        table = resolved(result, section)
        for key, value in table.items() if isinstance(table, dict) else ():
            if f"{section}.{key}" not in apart:
                found[f"{section}.{key}"] = value
    return found


def differing(results: Sequence[Result], apart: Sequence[str] = ()) -> list[str]:
    """Return the keys of network and traffic, except `apart`, in which results differ."""
    tables = [settings(result, apart) for result in results]
    keys = dict.fromkeys(key for table in tables for key in table)
    return [key for key in keys if len({repr(table.get(key)) for table in tables}) > 1]


def fair_shares(
    results: Sequence[Result], apart: Sequence[str] = ()
) -> tuple[dict[str, Spread], str]:
    """Return the last ("max") and mean completion time in ps with max-min fair shares on the hashed
    paths of flows, over the seeds, and a note.

    They come from the results' summaries; none, with a note that says why, if no result has them,
    or if results differ in network or traffic except for `apart`.
    """
    if keys := differing(results, apart):
        return {}, f"no fair shares: the points differ in {', '.join(keys)}"
    by_seed = {r.experiment["seed"]: known for r in results if (known := r.summary.get("fair_ps"))}
    if not by_seed:
        return {}, "no fair shares: they need flows of one size that start together, and ECMP"
    found = {key: spread_of([one[key] for one in by_seed.values()]) for key in ("max", "mean")}
    drawn = f"mean of {len(by_seed)} seeds" if len(by_seed) > 1 else "one seed"
    note = f"fair shares: each flow on its hashed path, rates max-min fair; {drawn}"
    return {key: point for key, point in found.items() if point is not None}, note


DECADE = 10  # ratio of largest to smallest value from which the axis is logarithmic
LINE = 3  # minimum quantities for a line; fewer are side by side, like names
MAX_TICKS = 12  # maximum number of labels on x


def _quantity(value: Any) -> float | None:
    """Return a value with or without unit as a number, else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    for parse, _ in style.FORMATS:
        try:
            return float(parse(value))
        except InputError:
            continue
    return None


def are_names(values: Sequence[Any]) -> bool:
    """Return whether any value is a name, not a quantity."""
    return any(_quantity(value) is None for value in values)


def places_of(values: Sequence[Any]) -> dict[Any, float]:
    """Return the position of each value on x."""
    if are_names(values):
        return {value: float(index) for index, value in enumerate(values)}
    return {value: _quantity(value) or 0.0 for value in values}


def side_by_side(values: Sequence[Any]) -> bool:
    """Return whether values are side by side: names, or fewer than `LINE`."""
    return len(values) < LINE or are_names(values)


def positions(values: Sequence[Any]) -> dict[Any, float]:
    """Return the x positions: from `places_of`, or 0, 1, ... for values side by side."""
    places = places_of(values)
    if not side_by_side(values):
        return places
    return {value: float(n) for n, value in enumerate(sorted(places, key=places.__getitem__))}


def scale_x(axes: Axes, places: dict[Any, float]) -> None:
    """Set scale and labels of x."""
    numbers = sorted(places.values())
    if side_by_side(list(places)):
        axes.set_xlim(-0.5, len(places) - 0.5)
    elif numbers[0] > 0 and numbers[-1] >= DECADE * numbers[0]:
        style.logarithmic(axes, "x")
    elif numbers[0] == 0 and numbers[-1] >= DECADE**2 * numbers[1]:
        axes.set_xscale("symlog", linthresh=numbers[1], linscale=0.5)
    plain = all(isinstance(value, int | float) for value in places)
    if len(places) > MAX_TICKS and plain:
        return
    short = short_names(str(value) for value in places)
    step = 1 + (len(places) - 1) // MAX_TICKS
    shown = sorted(places, key=places.__getitem__)[::step]
    texts = [value_text(short[str(value)]) for value in shown]
    axes.set_xticks([places[value] for value in shown], texts, minor=False)
    style.slant_if_crowded(axes)
    axes.minorticks_off()


def by_place(values: Mapping[Any, float], places: dict[Any, float]) -> dict[float, float]:
    """Return figures by the position of their values on x, without figures that have none."""
    known = {_key(value): place for value, place in places.items()}
    if not side_by_side(list(places)):
        known |= {key: key for key in map(_key, values) if isinstance(key, float)}
    return {known[_key(value)]: figure for value, figure in values.items() if _key(value) in known}


def _key(value: Any) -> Any:
    quantity = _quantity(value)
    return value if quantity is None else quantity
