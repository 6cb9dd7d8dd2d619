"""`netsim list`: what there is to build experiments of."""

from __future__ import annotations

import click

from netsim.cli.names import KINDS, SINGULAR, Name, lines_of
from netsim.cli.options import json_option, print_json


@click.command("list")
@click.argument("kind", type=Name(KINDS, SINGULAR), metavar="[KIND]", required=False)
@json_option
def command(kind: str | None, as_json: bool) -> None:
    """List plugins, files and experiments of one KIND, or of all.

    Plugins that are installed as entry points are among them.
    """
    kinds = [kind] if kind else KINDS
    if as_json:
        print_json(
            {
                one: [{"name": name, "summary": text} for name, text in lines_of(one)]
                for one in kinds
            }
        )
        return
    for index, one in enumerate(kinds):
        if index:
            click.echo()
        click.echo(f"{one}:")
        lines = lines_of(one)
        width = max((len(name) for name, _ in lines), default=0)
        for name, summary in lines:
            click.echo(f"  {name:<{width}}  {summary}".rstrip())
