"""`netsim plot`: draw the result of a run, or those of a sweep on one figure."""

from __future__ import annotations

from pathlib import Path

import click

KINDS = {"fct": "fct_cdf", "slowdown": "slowdown", "links": "links"}
"""Kind -> module of netsim.plots."""


@click.command("plot")
@click.argument("result", type=click.Path(path_type=Path))
@click.option(
    "--kind",
    type=click.Choice(list(KINDS)),
    default="fct",
    show_default=True,
    help="Completion times, slowdown by flow, or how busy the links were.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write; its ending chooses the format (.png, .pdf, .svg). KIND.png beside the "
    "result by default.",
)
def command(result: Path, kind: str, out: Path | None) -> None:
    """Draw RESULT, a directory that netsim run has written."""
    from importlib import import_module

    from netsim.plots import save
    from netsim.results import is_sweep, load, load_sweep

    results = load_sweep(result).points if is_sweep(result) else [load(result)]
    figure = import_module(f"netsim.plots.{KINDS[kind]}").draw(results)
    path = out if out is not None else result / f"{kind}.png"
    save(figure, path)
    click.echo(path)
