"""`netsim accuracy`: compare transports with analytic results."""

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
    help="Write the table to this page, between its two markers.",
)
def command(parts: tuple[str, ...], page: Path | None) -> None:
    """Measure transports on small networks and compare them with formulas.

    Each row has the expected and the measured value and their difference, with an explanation
    beyond 5 %. A PART is a transport, or incast_ and its name; all parts, the default, take
    minutes. The exit status is 1 if a difference above 5 % has no explanation.
    """
    from netsim.accuracy.bed import Verdict
    from netsim.accuracy.parts import BEGIN, PARTS, rows, with_table
    from netsim.errors import InputError, did_you_mean
    from netsim.units import format_number
    from netsim.writing import write_text

    for name in parts:
        if name not in PARTS:
            raise InputError(f"unknown part {name}", hint=did_you_mean(name, list(PARTS)))
    text = page.read_text("utf-8") if page else ""
    if page and BEGIN not in text:
        raise InputError(f"missing line {BEGIN}", file=str(page))
    found = []
    for row in rows(parts):
        found.append(row)
        click.echo(
            f"{row.transport:16} {row.quantity:44} {format_number(row.expected):>8} "
            f"{format_number(row.measured):>8} {row.unit:8} {row.deviation:+7.1%}  {row.verdict}"
        )
    if page:
        write_text(page, with_table(text, found))
    if any(row.verdict is Verdict.DIFFERS for row in found):
        raise SystemExit(FAILED)
