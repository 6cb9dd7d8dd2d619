"""`netsim plot`: draw the result of a run, or those of sweeps on one figure."""

from __future__ import annotations

from pathlib import Path

import click

KINDS = {"fct": "fct_cdf", "slowdown": "slowdown", "links": "links"}
"""Kind -> module of netsim.plots that draws results."""

COMPARISONS = {"load": "fct_vs_load", "transports": "transports"}
"""Kind -> module of netsim.plots that compares the points of sweeps: a figure and a table."""


@click.command("plot")
@click.argument(
    "results", metavar="RESULT...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--kind",
    type=click.Choice([*KINDS, *COMPARISONS]),
    default="fct",
    show_default=True,
    help="Completion times, slowdown by flow, or how busy the links were. Of sweeps also: "
    "completion times against traffic.load, or transports side by side; both print a table.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write; its ending chooses the format (.png, .pdf, .svg). KIND.png beside the "
    "(first) result by default.",
)
def command(results: tuple[Path, ...], kind: str, out: Path | None) -> None:
    """Draw RESULT, a directory that netsim run has written; several are drawn as if they were one.

    \b
    fct         share of the flows that are done by each time, beside the ideal
    slowdown    completion time over ideal, by flow size or rank
    links       utilisation and largest queue of every link
    load        sweep over traffic.load: last flow and mean against load, a line per
                transport, beside single paths with max-min fair shares
    transports  sweep over transport: last flow and mean, a bar per transport, beside
                the ideal, fair shares and (p2p_8192) the values that the paper states
    """
    from importlib import import_module

    from netsim.plots import save
    from netsim.results import is_sweep, load, load_sweep

    points = [
        point
        for path in results
        for point in (load_sweep(path).points if is_sweep(path) else [load(path)])
    ]
    path = out if out is not None else results[0] / f"{kind}.png"
    if kind in COMPARISONS:
        from netsim.cli.tables import comparison_table, show

        module = import_module(f"netsim.plots.{COMPARISONS[kind]}")
        comparison = module.compare(points)
        save(module.draw(comparison), path)
        show(comparison_table(comparison.table))
        for note in comparison.table.notes:
            click.echo(note)
    else:
        save(import_module(f"netsim.plots.{KINDS[kind]}").draw(points), path)
    click.echo(path)
