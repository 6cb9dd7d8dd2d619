"""`netsim report`: one HTML file about results."""

from __future__ import annotations

from pathlib import Path

import click

from netsim.cli.options import trust_option
from netsim.common.steps import Steps

DRAWS = True


@click.command("report")
@click.argument(
    "results", metavar="RESULT...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--explain",
    type=click.IntRange(0, 100),
    default=0,
    metavar="N",
    help="Simulate the slowest result again, and explain its N slowest flows.",
)
@trust_option
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Output file (report.html in the first result).",
)
def command(results: tuple[Path, ...], explain: int, trust: bool, out: Path | None) -> None:
    """Write a report of RESULT, a result or a sweep, as one HTML file that works offline.

    Several results are compared. The file has completion times, the network with its busiest
    links, pauses, the slowest flows, timelines, requests, sweeps and the experiment: what the
    results have. Nothing is simulated again, except with --explain.
    """
    from netsim.html_report import write_report
    from netsim.results.files import REPORT

    path = out if out is not None else results[0] / REPORT
    with Steps():
        size = write_report(results, path, trust=trust, explain=explain)
    click.echo(f"{path} ({size / 1e6:.1f} MB)")
