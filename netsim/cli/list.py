"""`netsim list`: what there is to build experiments of."""

from __future__ import annotations

import click

from netsim.builtin import experiment_summary, experiments

KINDS = ("transports", "topologies", "traffic", "experiments")


@click.command("list")
@click.argument("kind", type=click.Choice(KINDS), required=False)
def command(kind: str | None) -> None:
    """List the transports, topologies, traffic patterns or experiments; all of them without KIND.

    Plugins that are installed as entry points are among them.
    """
    for index, one in enumerate([kind] if kind else KINDS):
        if index:
            click.echo()
        click.echo(f"{one}:")
        lines = lines_of(one)
        width = max((len(name) for name, _ in lines), default=0)
        for name, summary in lines:
            click.echo(f"  {name:<{width}}  {summary}".rstrip())


def lines_of(kind: str) -> list[tuple[str, str]]:
    """Name and one line of text for everything of a kind."""
    if kind == "experiments":
        return [(name, experiment_summary(path)) for name, path in experiments().items()]
    from netsim import registry

    singular = {"transports": "transport", "topologies": "topology", "traffic": "traffic"}[kind]
    return [(plugin.name, plugin.summary) for plugin in registry.all(singular)]
