"""`netsim plot`: plot one or several results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from netsim.cli.names import Name
from netsim.cli.options import FILE, PATH, together, trust_option
from netsim.common.discovery import declared, modules
from netsim.errors import InputError, did_you_mean
from netsim.units import written

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from netsim.results import Result

Given = Mapping[str, Any]

DRAWS = True


DEFAULT = "fct_cdf"

FILES: dict[str, dict[str, str]] = declared("plots", "PLOTS")
"""File in a folder `plots` -> kind -> what it shows."""

KINDS = {kind: text for kinds in FILES.values() for kind, text in kinds.items()}

OPTIONS = {
    name: option
    for options in declared("plots", "OPTIONS").values()
    for name, option in options.items()
}
"""Options of single kinds: parameter of `draw` -> (option, metavar, "" for a flag, help)."""

Y = "fct_p99"  # default of --y with --x

HELP = """Plot RESULT, a result directory. Several results are merged.

Points that differ only in the seed are one curve, with a band.

\b
{kinds}

\b
netsim plot results/incast --x fan_in --y fct_p99
"""


def _listed() -> str:
    """Return one line per kind."""
    width = max(map(len, KINDS)) + 2
    return "\n".join(f"{kind:<{width}}{text}" for kind, text in KINDS.items())


def _option(name: str) -> str:
    """Return the option of a parameter."""
    return OPTIONS[name][0] if name in OPTIONS else f"--{name}"


def _kinds_with(name: str) -> str:
    files = [file for file, options in declared("plots", "OPTIONS").items() if name in options]
    return " or ".join(f"--kind {kind}" for file in files for kind in FILES[file])


@click.command("plot", help=HELP.format(kinds=_listed()))
@click.argument("results", metavar="RESULT...", nargs=-1, required=True, type=PATH)  # fmt: skip
@click.option("--kind", type=Name(KINDS), metavar="KIND",
              help=f"Kind of plot, listed above ({DEFAULT}).")  # fmt: skip
@click.option("--x", metavar="AXIS",
              help="Plot --y against this axis of a sweep, and print a table.")  # fmt: skip
@click.option(
    "--y",
    metavar="COLUMN",
    help=f"Statistic such as fct_mean, or key of summary.json such as drops, with --x ({Y}); "
    "with --kind topology, the color of links: utilization, drops, trims, ecn_marks, lost, "
    "paused_time or max_queue.",
)
@click.option("--panels", metavar="AXIS", help="With --x, a panel for each value of this axis.")
@click.option("--only", metavar="AXIS=VALUE", multiple=True,
              help="Plot only these points, such as traffic=incast. Repeatable.")  # fmt: skip
@together(
    *(
        click.option(option, name, help=text, metavar=metavar or None, is_flag=not metavar)
        for name, (option, metavar, text) in OPTIONS.items()
    )
)
@trust_option
@click.option(
    "--width",
    type=click.FloatRange(1.0, 20.0),
    metavar="INCHES",
    help="Fit for print: this wide, text of 8 pt. A column of a paper is 3.3 wide.",
)
@click.option(
    "--out",
    type=FILE,
    help="Output file; its suffix selects the format: .png, .pdf, .svg; for timelines also "
    ".pftrace, for ui.perfetto.dev (KIND.png or Y_X.png in the first result).",
)
def command(
    results: tuple[Path, ...],
    kind: str | None,
    x: str | None,
    y: str | None,
    only: tuple[str, ...],
    trust: bool,
    width: float | None,
    out: Path | None,
    **asked: Any,
) -> None:
    from netsim.plots import fit_for_print, save
    from netsim.plots.sweeps import only as chosen
    from netsim.results import results_in

    points = chosen([point for path in results for point in results_in(path)], only)
    given = {name: value for name, value in asked.items() if value not in (None, False)}
    if x is None and out is not None:
        draw, options = _kind(kind or DEFAULT, y, {**given, "trust": trust})
        module = import_module(draw.__module__)
        if out.suffix in getattr(module, "SUFFIXES", ()):
            click.echo(module.write(points, out, **options))
            return
    drawn = drawing(points, kind, x=x, y=y, given={**given, "trust": trust})
    if width is not None:
        fit_for_print(drawn.figure, width)
    path = save(drawn.figure, out if out is not None else results[0] / drawn.file)
    if drawn.table is not None:
        from netsim.cli.tables import comparison_table
        from netsim.common.terminal import show

        show(comparison_table(drawn.table))
        for note in drawn.table.notes:
            click.echo(note)
    click.echo(path)


class Drawing(NamedTuple):
    """A figure, its default file name, and the table of the comparison that it shows, if any."""

    figure: Figure
    file: str
    table: Any


def drawing(
    points: Sequence[Result], kind: str | None, *, x: str | None, y: str | None, given: Given
) -> Drawing:
    """Draw results; `given` has the options of the kind by name. Raises InputError."""
    if x is not None:
        from netsim.plots import by_axis

        other = given.keys() - {"trust", "panels"}
        for name in (*(["kind"] if kind is not None else []), *other):
            raise InputError("conflicts with --x", key=_option(name), hint="remove one of them")
        shown = by_axis.against_axis(points, x, y or Y, given.get("panels"))
        file = f"{shown.y}_{shown.x.rpartition('.')[2]}.png"
        return Drawing(by_axis.draw_against_axis(shown), file, shown.table)
    kind = kind or DEFAULT
    draw, options = _kind(kind, y, given)
    file = f"{kind}.png" if y is None else f"{kind}_{y}.png"
    picture = draw(points, **options)
    return Drawing(picture.figure, file, picture.table)


def _kind(kind: str, y: str | None, given: Given) -> tuple[Any, dict[str, Any]]:
    """Return the function of a kind, and the options that it takes. Raises InputError."""
    if kind not in KINDS:
        hint = did_you_mean(kind, KINDS)
        raise InputError(f"unknown kind {written(kind)}", key="--kind", hint=hint)
    (file,) = (file for file, kinds in FILES.items() if kind in kinds)
    draw = getattr(import_module(modules("plots")[file]), kind)
    takes = signature(draw).parameters
    for name in [*given.keys() - {"trust"}, *(["y"] if y is not None else [])]:
        if name not in takes:
            hint = "--x AXIS" if name in ("y", "panels") else _kinds_with(name)
            raise InputError(f"not an option of --kind {kind}", key=_option(name), hint=hint)
    return draw, {name: value for name, value in {"y": y, **given}.items() if name in takes}
