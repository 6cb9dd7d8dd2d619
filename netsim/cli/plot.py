"""`netsim plot`: draw the result of a run, or those of sweeps on one figure."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netsim.cli.names import Name
from netsim.cli.options import trust_option
from netsim.errors import InputError
from netsim.units import written

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from netsim.results import Result
    from netsim.workloads.plots.timeline_bars import View

DEFAULT = "fct_cdf"

KINDS = {
    "fct_cdf": "netsim.plots.fct_cdf",
    "links": "netsim.plots.links",
    "timeline": "netsim.workloads.plots.timeline",
    "timeseries": "netsim.plots.series",
    "serving_latency": "netsim.workloads.plots.serving",
    "topology": "netsim.plots.topology",
}
"""Kind -> module that draws results."""

TIMELINE = "timeline"
"""The kind that is of some hosts and times."""

CRITICAL, PATH_HOSTS = "critical", 8
"""In place of hosts: so many of the critical path, those that it is at for longest."""

MOST_HOSTS = 1_000_000
"""More are not looked for."""

TOPOLOGY = "topology"
"""The kind that --y is for as well."""

Y = "fct_p99"
"""What --x alone shows."""

COMPARISONS = {
    "slowdown": "netsim.plots.slowdown",
    "fct_vs_load": "netsim.plots.fct_vs_load",
    "fct_by_transport": "netsim.plots.transports",
    "serving_goodput": "netsim.workloads.plots.goodput",
}
"""Kind -> module that compares the points of sweeps: a figure and a table."""

FAIR_SHARES = ("fct_vs_load", "fct_by_transport")
"""Those that build the network of a result again, which may take a plugin's code."""


@click.command("plot")
@click.argument(
    "results", metavar="RESULT...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--kind",
    type=Name([*KINDS, *COMPARISONS]),
    metavar="KIND",
    help="Completion times (the default), slowdown by flow, how busy the links were, when hosts "
    "computed and sent, series over time, what requests saw, or the network in colors. Of sweeps "
    "also: completion times against traffic.load, or transports side by side, with a table.",
)
@click.option("--x", metavar="AXIS", help="Of a sweep: draw --y against this axis, with a table.")
@click.option(
    "--y",
    metavar="COLUMN",
    help=f"With --x a statistic, such as fct_mean or slowdown_p99, or a number of summary.json, "
    f"such as drops; {Y} by default. With --kind topology what links are colored by: utilization, "
    "drops, trims, ecn_marks, lost, paused_time or max_queue.",
)
@click.option(
    "--hosts",
    metavar="HOSTS",
    help='Of a timeline: hosts to show, such as "0..3,8", or "critical", of the critical path.',
)
@click.option("--from", "since", metavar="TIME", help="Of a timeline: begin there, such as 10us.")
@click.option("--to", "until", metavar="TIME", help="Of a timeline: end there.")
@click.option(
    "--critical-path",
    "critical",
    is_flag=True,
    help="Of a timeline: draw the critical path into it.",
)
@trust_option
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write; its ending chooses the format (.png, .pdf, .svg; of timelines also "
    ".pftrace, for ui.perfetto.dev). KIND.png, or Y_X.png, beside the (first) result by default.",
)
def command(
    results: tuple[Path, ...],
    kind: str | None,
    x: str | None,
    y: str | None,
    hosts: str | None,
    since: str | None,
    until: str | None,
    critical: bool,
    trust: bool,
    out: Path | None,
) -> None:
    """Draw RESULT, a directory that netsim run has written; several are drawn as if they were one.

    Points that differ in the seed alone are one curve, with a band.

    \b
    fct_cdf           share of flows finished by each time, with the ideal
    slowdown          completion time over ideal, by flow size or rank
    links             utilization and largest queue of every link
    timeline          of one run with tasks: when each host computed, sent and received;
                      --hosts, --from and --to select, --critical-path marks the path
    timeseries        queues, rates and state over time, of a run with [outputs] sample
    serving_latency   time to first token and between tokens; of a sweep over
                      traffic.rate, these and the goodput against the rate
    topology          the network, its links colored by --y, with what failed
    fct_vs_load       sweep over traffic.load: last flow and mean against load, a line per
                      transport, with max-min fair shares of single paths
    fct_by_transport  sweep over transport: last flow and mean, a bar per transport,
                      with the ideal and fair shares
    serving_goodput   serving runs side by side: requests within the objective, the share of
                      GPUs that failures left, measured and by formula, times to first token

    \b
    netsim plot results/incast --x fan_in --y fct_p99
    """
    from netsim.plots import against, save
    from netsim.results import results_in

    points = [point for path in results for point in results_in(path)]
    view = {"hosts": hosts, "from": since, "to": until, "critical-path": critical or None}
    given = [name for name, value in view.items() if value is not None]
    if given and kind != TIMELINE:
        raise InputError(f"--{given[0]} is of timelines", hint="--kind timeline")
    if x is not None:
        if kind is not None:
            raise InputError("--kind and --x cannot stand together", hint="leave one of them out")
        comparison = against.compare(points, x, y or Y)
        default = f"{comparison.y}_{comparison.x.rpartition('.')[2]}.png"
        figure = against.draw(comparison)
    elif kind == TOPOLOGY:
        from netsim.plots import topology

        default, comparison = f"{kind}.png" if y is None else f"{kind}_{y}.png", None
        figure = topology.draw(points, y, trust=trust)
    elif kind == TIMELINE and y is None:
        from netsim.workloads.plots import perfetto, timeline

        seen = _view(points, hosts, (since, until), critical=critical, trust=trust)
        if out is not None and out.suffix == perfetto.ENDING:
            click.echo(perfetto.write_trace(points, seen, out))
            return
        default, comparison = f"{kind}.png", None
        figure = timeline.draw(points, seen)
    elif y is not None:
        raise InputError("--y needs an axis to stand against", key="--x", hint="such as --x seed")
    else:
        default = f"{kind or DEFAULT}.png"
        figure, comparison = _drawn(kind or DEFAULT, points, trust)
    path = save(figure, out if out is not None else results[0] / default)
    if comparison is not None:
        from netsim.cli.tables import comparison_table
        from netsim.cli.wide import show

        show(comparison_table(comparison.table))
        for note in comparison.table.notes:
            click.echo(note)
    click.echo(path)


def _view(
    points: list[Result],
    hosts: str | None,
    time: tuple[str | None, str | None],
    *,
    critical: bool,
    trust: bool,
) -> View:
    """The hosts, the time and the path that are asked for."""
    from netsim.units import parse_time_ps
    from netsim.workloads.plots.timeline_bars import View

    path = None
    times = [parse_time_ps(text) if text is not None else None for text in time]
    if (critical or hosts == CRITICAL) and len(points) == 1:
        from netsim.workloads.tracing.critical_path import critical_path

        path = critical_path(points[0], trust=trust)
        for warning in path.warnings:
            click.echo(f"warning: {warning}", err=True)
        if hosts == CRITICAL:
            return View(
                path.hosts(PATH_HOSTS, times[0] or 0, times[1]), times[0] or 0, times[1], path
            )
    return View(_hosts(hosts), times[0] or 0, times[1], path)


def _hosts(text: str | None) -> list[int] | None:
    """The hosts of "0..3,8"."""
    if text is None:
        return None
    found: list[int] = []
    for part in text.split(","):
        first, dots, last = (one.strip() for one in part.partition(".."))
        ends = (first, last if dots else first)
        if not all(re.fullmatch("[0-9]{1,9}", end) for end in ends):
            raise InputError(
                f"{written(part.strip())} is no host", key="--hosts", hint='such as "0..3,8"'
            )
        if int(ends[1]) - int(ends[0]) >= MOST_HOSTS:
            raise InputError(f"{written(part.strip())} are too many hosts", key="--hosts")
        found += range(int(ends[0]), int(ends[1]) + 1)
    return found


def _drawn(kind: str, points: list[Result], trust: bool) -> tuple[Figure, Any]:
    """The figure of a kind, and the comparison if it is one."""
    module = import_module((KINDS | COMPARISONS)[kind])
    if kind in COMPARISONS:
        options = {"trust": trust} if kind in FAIR_SHARES else {}
        comparison = module.compare(points, **options)
        return module.draw(comparison), comparison
    figure = module.draw(points)
    if left_out := module.without_links(points) if kind == "links" else []:
        names = ", ".join(point.name for point in left_out)
        click.echo(f"left out, without links: {names}", err=True)
    return figure, None
