"""`netsim accuracy`: transports held against analytic results."""

from __future__ import annotations

from pathlib import Path

import click

from netsim.cli.app import FAILED


@click.command("accuracy")
@click.argument("parts", nargs=-1, metavar="[PART]...")
@click.option(
    "--write",
    "page",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Put the table into this page, between its two marks.",
)
def command(parts: tuple[str, ...], page: Path | None) -> None:
    """Measure transports on small networks and hold them against formulas.

    Each row has what the formula says, what was measured, and how far apart they are; beyond 5 %
    also why. A PART is a transport, or incast_ and its name; all by default, which takes minutes.
    The exit status is 1 if a row is off by more than 5 % and nothing explains it.
    """
    from netsim.accuracy.parts import BEGIN, PARTS, number, rows, with_table
    from netsim.accuracy.row import Verdict
    from netsim.errors import InputError, did_you_mean
    from netsim.writing import write_text

    for name in parts:
        if name not in PARTS:
            raise InputError(f"there is no part {name}", hint=did_you_mean(name, list(PARTS)))
    text = page.read_text("utf-8") if page else ""
    if page and BEGIN not in text:
        raise InputError(f"has no line {BEGIN}", file=str(page))
    found = []
    for row in rows(parts):
        found.append(row)
        click.echo(
            f"{row.transport:16} {row.quantity:44} {number(row.expected):>8} "
            f"{number(row.measured):>8} {row.unit:8} {row.deviation:+7.1%}  {row.verdict}"
        )
    if page:
        write_text(page, with_table(text, found))
    if any(row.verdict is Verdict.DIFFERS for row in found):
        raise SystemExit(FAILED)
