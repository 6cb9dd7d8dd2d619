"""Utilization and largest queue of links, by stage of the network.

A stage is all links from one kind of node to another ("leaf to spine"). Its links are sorted,
busiest first: a flat curve is a balanced load, a steep one a few hot links. Links of all seeds are
pooled. The first stages have the widest lines, so that equal ones are seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from netsim.errors import InputError, warn_once
from netsim.inventory.inventory import stem
from netsim.plots import seed_curves, style
from netsim.results import files

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from netsim.results import Result


PLOT = "utilization and largest queue of every link"


def draw(results: Sequence[Result]) -> Figure:
    """Draw utilization (left) and largest queue (right) of every link of each point.

    Line styles distinguish points, colors stages. Results without links are left out. Raises
    InputError if none or too many are left.
    """
    left_out = without_links(results)
    if left_out and len(left_out) < len(results):
        warn_once(f"skipped (no links): {', '.join(one.name for one in left_out)}")
    shown = [result for result in results if result not in left_out]
    if not shown:
        raise InputError(
            "the result has no links", file=str(results[0].path), hint=why_none(results[0])
        )
    curves = seed_curves.curves(shown)
    if len(curves) > len(style.LINES):
        raise InputError(
            f"{len(curves)} points exceed the {len(style.LINES)} line styles of a plot of links",
            hint="name the directory of one point",
        )
    figure, (left, right) = style.new_figure(columns=2)
    for curve, line in zip(curves, style.LINES, strict=False):
        _draw_curve(left, right, curve, curve.label if len(curves) > 1 else "", line)
    left.set_ylabel("utilization")
    left.set_ylim(0, 1.05)
    right.set_ylabel("largest queue (KB)")
    right.set_ylim(bottom=0)
    for axes in (left, right):
        axes.set_xlabel("share of the stage's links, highest first")
    caption = seed_curves.caption(curves, "links of all seeds pooled")
    return style.finish(figure, right, seed_curves.title(shown), style.OUTSIDE, caption)


def without_links(results: Sequence[Result]) -> list[Result]:
    """Return the results without links."""
    return [
        result
        for result in results
        if not (result.path / files.LINKS).is_file() or not len(result.links)
    ]


def why_none(result: Result) -> str:
    """Return the hint for a result without links."""
    if seed_curves.transport(result) == seed_curves.IDEAL:
        return '"ideal" is not simulated'
    return "set links = true in [outputs] and run again"


def stages(links: pl.DataFrame) -> pl.DataFrame:
    """Return stage, utilization and queue_bytes of each link, summed over its classes."""
    import polars as pl

    names = ("from_name", "to_name")
    named = links.with_columns(pl.col(name).cast(pl.String) for name in names)
    kinds = {name: node_kind(name) for column in names for name in named[column].unique()}
    return (
        named.with_columns(pl.col(name).replace_strict(kinds, default="") for name in names)
        .group_by("link", maintain_order=True)
        .agg(
            pl.col("from_name", "to_name").first(),
            pl.col("utilization").sum(),
            pl.col("max_queue_bytes").sum().alias("queue_bytes"),
        )
        .with_columns(pl.format("{} to {}", "from_name", "to_name").alias("stage"))
    )


def node_kind(name: str) -> str:
    """Return what a node is: "host" for "h12", "leaf" for "plane0.leaf3"."""
    return "host" if name[:1] == "h" and name[1:].isdigit() else stem(name)


def _draw_curve(left: Axes, right: Axes, curve: seed_curves.Curve, name: str, line: str) -> None:
    import polars as pl

    links = pl.concat([stages(result.links) for result in curve.results])
    groups = links.partition_by("stage", maintain_order=True)
    for index, group in enumerate(groups):
        stage = group["stage"][0]
        label = f"{stage}, {name}" if name else stage
        for axes, column, scale in ((left, "utilization", 1.0), (right, "queue_bytes", 1e3)):
            values = group[column].sort(descending=True).to_numpy() / scale
            chosen = style.thin(len(values))
            share = chosen / max(1, len(values) - 1)
            width = 1.2 + 0.8 * (len(groups) - 1 - index)
            axes.plot(share, values[chosen], line, color=style.color(index), label=label, lw=width)
