"""`netsim show`: a plugin with its parameters, or an experiment's file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from netsim.params import Param
    from netsim.registry import Plugin

KINDS = {
    "transport": "transport",
    "transports": "transport",
    "topology": "topology",
    "topologies": "topology",
    "traffic": "traffic",
    "experiment": "experiment",
    "experiments": "experiment",
}


@click.command("show")
@click.argument("kind", type=click.Choice(list(KINDS)), metavar="KIND")
@click.argument("name")
def command(kind: str, name: str) -> None:
    """Show NAME, a transport, topology, traffic (pattern) or experiment.

    For a plugin: its parameters with unit, default, meaning and source, and its presets. NAME may
    be the path of a Python file.
    """
    if KINDS[kind] == "experiment":
        from netsim.experiment import locate

        click.echo(locate(name).read_text("utf-8"), nl=False)
        return
    from netsim import registry

    _print(registry.find(KINDS[kind], name, relative_to=Path.cwd()))


def _print(plugin: Plugin) -> None:
    doc = (plugin.module.__doc__ or "").strip()
    click.echo(f"{plugin.kind} {plugin.name} ({plugin.path})\n\n{doc}\n")
    if not plugin.params:
        click.echo("It has no parameters.")
    for param in plugin.params:
        _print_param(param)
    for preset, values in plugin.presets.items():
        given = ", ".join(f"{key} = {_written(value)}" for key, value in values.items())
        click.echo(f'preset "{plugin.name}:{preset}": {given}')
    _print_fabric("fabric it expects", getattr(plugin.module, "FABRIC", {}))
    for preset, fabric in getattr(plugin.module, "PRESET_FABRIC", {}).items():
        _print_fabric(f'fabric of preset "{plugin.name}:{preset}"', fabric)


def _print_fabric(title: str, fabric: Mapping[str, object]) -> None:
    given = [
        f"{key}.{inner} = {_written(inner_value)}"
        for key, value in fabric.items()
        if isinstance(value, Mapping)
        for inner, inner_value in value.items()
    ]
    given[:0] = [
        f"{key} = {_written(value)}"
        for key, value in fabric.items()
        if not isinstance(value, Mapping)
    ]
    if given:
        click.echo(f"{title}: {', '.join(given)}")


def _print_param(param: Param) -> None:
    unit = ", ".join(param.choices) if param.choices else param.unit
    click.echo(f"{param.name} = {_written(param.default)}  [{unit}]")
    text = param.doc.strip() + (f" Source: {param.source}." if param.source else "")
    click.echo(click.wrap_text(text, 100, "    ", "    ", preserve_paragraphs=True) + "\n")


def _written(value: object) -> str:
    from netsim.params import REQUIRED
    from netsim.units import written

    if value is REQUIRED:
        return "(must be given)"
    return "none" if value is None else written(value)
