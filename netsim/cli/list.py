"""`netsim list`: plugins, files and experiments."""

from __future__ import annotations

import click

from netsim.cli.names import KINDS, SINGULAR, Name, lines_of
from netsim.cli.options import json_option, print_json
from netsim.common.discovery import FIRST, built_in, stated_time


@click.command("list")
@click.argument("kind", type=Name(KINDS, SINGULAR), metavar="[KIND]", required=False)
@json_option
def command(kind: str | None, as_json: bool) -> None:
    """List plugins, files and experiments of one KIND, or of all.

    Plugins installed as entry points are included. Experiments are grouped by subject, with the
    run time that their file states; start with the one marked *.
    """
    kinds = [kind] if kind else KINDS
    if as_json:
        found = {
            one: [{"name": name, "summary": text} for name, text in lines_of(one)] for one in kinds
        }
        places = _places()
        for row in found.get("experiments", ()):
            row["group"], row["time"] = places[row["name"]]
        print_json(found)
        return
    for index, one in enumerate(kinds):
        if index:
            click.echo()
        click.echo(f"{one}:")
        lines = lines_of(one)
        width = max((len(name) for name, _ in lines), default=0)
        if one == "experiments":
            _show_experiments(lines, width)
            continue
        for name, summary in lines:
            click.echo(f"  {name:<{width}}  {summary}".rstrip())


def _places() -> dict[str, tuple[str, str]]:
    """Return the group and the stated run time of each experiment."""
    return {name: (file.parent.name, stated_time(file)) for name, file in built_in().items()}


def _show_experiments(lines: list[tuple[str, str]], width: int) -> None:
    places = _places()
    last = None
    for name, summary in lines:
        group, time = places[name]
        if group != last:
            click.echo(f"  {group}")
            last = group
        mark = "*" if name == FIRST else " "
        click.echo(f"  {mark} {name:<{width}}  {time:>7}  {summary}")
