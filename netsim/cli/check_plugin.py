"""The part of `netsim check` for plugins: print what the cases find."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from netsim.cli.interrupt import end_now
from netsim.cli.options import print_json
from netsim.common.steps import Steps

if TYPE_CHECKING:
    from netsim.conformance import Finding, Testbed

MIN_DETAIL = 20
"""Minimum width of the last column on a terminal."""


def check_plugin(
    subject: str, testbed: Testbed, cases: Sequence[str] | None, *, as_json: bool
) -> None:
    """Run the cases and print each finding when it is known, or all as JSON.

    Raises FailedRun if `subject`, a file or a name, fails a case.
    """
    from netsim.cli.app import FAILED, FailedRun
    from netsim.conformance import each, failures

    def hung(finding: Finding) -> None:
        click.echo(_row(finding.case, finding.status, finding.detail))
        click.echo(f"error: {finding.detail}; remaining cases are skipped", err=True)
        end_now(FAILED)

    findings: list[Finding] = []
    with Steps():
        for finding in each(
            testbed,
            cases,
            starting=lambda case: click.echo(f"{case.name}: {case.about}", err=True),
            on_hang=hung,
        ):
            if not findings and not as_json:
                click.echo(_row("case", "result", "detail"))
            findings.append(finding)
            if not as_json:
                click.echo(_row(finding.case, finding.status, finding.detail))
    if as_json:
        rows = [asdict(finding) for finding in findings]
        print_json({"plugin": subject, "kind": testbed.KIND, "findings": rows})
    failed = failures(findings)
    if failed:
        raise FailedRun(f"{subject} fails {len(failed)} of {len(findings)} cases")


def _row(case: str, status: str, detail: str) -> str:
    """Format a row in aligned columns, wrapped on a terminal."""
    from netsim.conformance import CASES, STATUSES

    first = max(len(known.name) for cases in CASES.values() for known in cases)
    second = max(map(len, STATUSES))
    start = f"{case:{first}}  {status:{second}}  "
    if not sys.stdout.isatty():
        return start + " ".join(detail.split())
    width = max(shutil.get_terminal_size().columns, len(start) + MIN_DETAIL)
    indent = " " * len(start)
    return textwrap.fill(detail, width, initial_indent=start, subsequent_indent=indent)
