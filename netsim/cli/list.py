"""`netsim list`: what there is to build experiments of."""

from __future__ import annotations

import tomllib
from pathlib import Path

import click

from netsim.cli.names import Name
from netsim.cli.options import json_option, print_json

SINGULAR = {
    "transport": "transports",
    "topology": "topologies",
    "queue": "queues",
    "job": "jobs",
    "deployment": "deployments",
    "experiment": "experiments",
}
KINDS = ("transports", "topologies", "traffic", "queues", "jobs", "deployments", "experiments")


@click.command("list")
@click.argument("kind", type=Name(KINDS, SINGULAR), metavar="[KIND]", required=False)
@json_option
def command(kind: str | None, as_json: bool) -> None:
    """List what there is of KIND: transports, topologies, traffic patterns, queue disciplines,
    training jobs, deployments of served models, or experiments. All of them without KIND.

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


def lines_of(kind: str) -> list[tuple[str, str]]:
    """Name and one line of text for everything of a kind."""
    if kind == "experiments":
        from netsim.experiment import built_in

        return [(name, summary_of(path)) for name, path in built_in().items()]
    if kind == "jobs":
        from netsim.job import presets

        return [(name, summary_of(path)) for name, path in presets().items()]
    if kind == "deployments":
        from netsim.inference import presets as deployments

        return [(name, summary_of(path)) for name, path in deployments().items()]
    from netsim.plugins import registry

    singular = {
        "transports": "transport",
        "topologies": "topology",
        "traffic": "traffic",
        "queues": "queue",
    }[kind]
    return [(plugin.name, plugin.summary) for plugin in registry.all(singular)]


def summary_of(path: Path) -> str:
    """The first line of the description in the file of an experiment or a job."""
    try:
        with path.open("rb") as file:
            description = str(tomllib.load(file).get("description", ""))
    except (OSError, ValueError):
        return "(cannot be read)"
    return description.strip().partition("\n")[0]
