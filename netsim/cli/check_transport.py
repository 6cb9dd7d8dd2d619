"""`netsim check-transport`: does a transport do what every transport has to?"""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import TYPE_CHECKING

import click

from netsim.cli.ending import end_now
from netsim.cli.interrupt import Interruption

if TYPE_CHECKING:
    from netsim.conformance import Finding

LEAST_DETAIL = 20
"""Columns of a terminal that the last column has in any case."""


@click.command("check-transport")
@click.argument("transport", metavar="NAME|FILE")
@click.option(
    "--set", "overrides", multiple=True, metavar="PARAM=VALUE", help="A parameter of the transport."
)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=1, help="Seed; 1 by default.")
@click.option("--case", "cases", multiple=True, help="Only this case; may be given several times.")
@click.option("--full", is_flag=True, help="Longer flows: minutes instead of seconds.")
def command(
    transport: str, overrides: tuple[str, ...], seed: int, cases: tuple[str, ...], full: bool
) -> None:
    """Try a transport on small networks: a name, or the path of a Python file.

    Every flow has to arrive: under loss, reordering and trimming too. The result must not depend
    on the number of threads, and handlers must keep to the state that they declare. Fairness and
    utilisation are measured. The exit status is 1 if the transport fails a case.

    A row is printed as soon as its case is done. Ctrl-C stops at once.
    """
    from netsim.cli.app import FAILED, Failure
    from netsim.conformance import each, failures
    from netsim.experiment.document import Tree, apply_overrides

    given: Tree = {}
    apply_overrides(given, overrides)

    def hung(finding: Finding) -> None:
        click.echo(_row(finding.case, finding.status, finding.detail))
        click.echo(f"error: {finding.detail}; further cases are not tried", err=True)
        end_now(FAILED)

    findings: list[Finding] = []
    with Interruption(at_once=True):
        for finding in each(
            transport,
            params=given,
            seed=seed,
            full=full,
            cases=cases or None,
            starting=lambda case: click.echo(f"{case.name}: {case.about}", err=True),
            on_hang=hung,
        ):
            if not findings:
                click.echo(_row("case", "result", "what happened"))
            findings.append(finding)
            click.echo(_row(finding.case, finding.status, finding.detail))
    failed = failures(findings)
    if failed:
        raise Failure(f"{transport} fails {len(failed)} of {len(findings)} cases")


def _row(case: str, status: str, detail: str) -> str:
    """A row whose columns stand below those of every other; on a terminal, its text is wrapped."""
    from netsim.conformance import CASES
    from netsim.conformance.finding import STATUSES

    first = max(len(known.name) for known in CASES)
    second = max(map(len, STATUSES))
    start = f"{case:{first}}  {status:{second}}  "
    if not sys.stdout.isatty():
        return start + " ".join(detail.split())
    width = max(shutil.get_terminal_size().columns, len(start) + LEAST_DETAIL)
    indent = " " * len(start)
    return textwrap.fill(detail, width, initial_indent=start, subsequent_indent=indent)
