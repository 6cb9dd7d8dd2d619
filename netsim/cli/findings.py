"""What `netsim check-transport` and `netsim check-queue` print."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from netsim.cli.ending import end_now

if TYPE_CHECKING:
    from netsim.conformance import Finding

MIN_DETAIL = 20
"""Columns of a terminal that the last column has in any case."""


def print_findings(subject: str, each: Callable[..., Iterator[Finding]]) -> None:
    """Print a row for each finding as soon as it is there.

    `each` is given `starting` and `on_hang`, as `netsim.conformance.each` is. Raises FailedRun if
    `subject`, a file or a name, fails a case.
    """
    from netsim.cli.app import FAILED, FailedRun
    from netsim.conformance import failures

    def hung(finding: Finding) -> None:
        click.echo(_row(finding.case, finding.status, finding.detail))
        click.echo(f"error: {finding.detail}; further cases are not tried", err=True)
        end_now(FAILED)

    findings: list[Finding] = []
    for finding in each(
        starting=lambda case: click.echo(f"{case.name}: {case.about}", err=True),
        on_hang=hung,
    ):
        if not findings:
            click.echo(_row("case", "result", "what happened"))
        findings.append(finding)
        click.echo(_row(finding.case, finding.status, finding.detail))
    failed = failures(findings)
    if failed:
        raise FailedRun(f"{subject} fails {len(failed)} of {len(findings)} cases")


def _row(case: str, status: str, detail: str) -> str:
    """A row whose columns stand below those of every other; on a terminal, its text is wrapped."""
    from netsim.conformance import CASES
    from netsim.conformance.finding import STATUSES

    first = max(len(known.name) for known in CASES)
    second = max(map(len, STATUSES))
    start = f"{case:{first}}  {status:{second}}  "
    if not sys.stdout.isatty():
        return start + " ".join(detail.split())
    width = max(shutil.get_terminal_size().columns, len(start) + MIN_DETAIL)
    indent = " " * len(start)
    return textwrap.fill(detail, width, initial_indent=start, subsequent_indent=indent)
