"""`netsim list` and `netsim show`: names of plugins, files and experiments; one of them in full."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netsim.cli import names
from netsim.cli.names import FILES, PLURAL, SINGULAR, Name, complete_name, lines_of, presets
from netsim.cli.options import json_option, print_json
from netsim.common.discovery import FIRST, FOLDERS, built_in, stated_time
from netsim.errors import InputError, did_you_mean
from netsim.units import written

if TYPE_CHECKING:
    from netsim.params import Param
    from netsim.plugins.registry import Plugin

KINDS = (*FOLDERS, *FILES, "experiment")


@click.command("show")
@click.argument("kind", metavar="[KIND]", shell_complete=Name(KINDS).shell_complete)
@click.argument("name", required=False, shell_complete=complete_name)
@json_option
def command(kind: str, name: str | None, as_json: bool) -> None:
    """Show a plugin, a file or an experiment.

    KIND is transport, topology, traffic, queue, routing, experiment, or a kind of file that "netsim
    list" prints, such as job. Only a file's path and a name of two kinds need it.

    For a plugin, given by name, preset (ndp:paper) or Python file: parameters with unit, default,
    meaning and source, presets, and the fabric that it expects. For an experiment: its file, and
    sizes in bdp converted to bytes for the ports of its network.
    """
    if name is None:
        kind, name = _kind_of(kind), kind
    else:
        kind = Name(KINDS, PLURAL).convert(kind, None, None)
    if kind not in FOLDERS:
        _show_file(kind, name, as_json=as_json)
        return
    from netsim.plugins import registry

    base, preset = registry.split_preset(name)
    plugin = registry.find(kind, base, relative_to=Path.cwd())
    if preset is not None and preset not in plugin.presets:
        raise InputError(
            f"{plugin.name} has no preset {written(preset)}",
            hint=did_you_mean(preset, plugin.presets),
        )
    if as_json:
        print_json(_described(plugin, preset))
    else:
        _print(plugin, preset)


def _kind_of(name: str) -> str:
    """Return the one kind that has the name. Raises InputError if there are none or several."""
    base = name.partition(":")[0]
    of_kind = {kind: [one for one, _ in lines_of(SINGULAR.get(kind, kind))] for kind in KINDS}
    found = [kind for kind, names in of_kind.items() if base in names]
    if len(found) == 1:
        return found[0]
    if found:
        example = " or ".join(f"netsim show {kind} {name}" for kind in found)
        raise InputError(f"{written(name)} is the name of a {' and a '.join(found)}", hint=example)
    if PLURAL.get(name, name) in KINDS or base.endswith((".py", ".toml")):
        example = f"netsim show {PLURAL.get(name, name)} NAME"
        if name not in (*KINDS, *PLURAL):
            example = f"netsim show transport {name}"
        raise InputError(f"{written(name)} needs a kind and a name", hint=f"such as {example}")
    every = [one for names in of_kind.values() for one in names]
    raise InputError(f"nothing is named {written(name)}", hint=did_you_mean(base, every))


def _show_file(kind: str, name: str, *, as_json: bool) -> None:
    """Print a file; comments give an experiment's sizes in bdp as bytes."""
    from netsim.common.inputs import locate, read_text, read_toml
    from netsim.experiment import locate as locate_experiment

    if kind == "experiment":
        path = locate_experiment(name)
    else:
        path = locate(name, Path.cwd(), presets(FILES[kind][1]), kind)
    sizes = list(_sizes(path)) if kind == "experiment" else []
    if as_json:
        print_json(
            {"file": path, "content": read_toml(path), **({"sizes": sizes} if sizes else {})}
        )
        return
    click.echo(read_text(path), nl=False)
    for line in sizes:
        click.echo(f"# {line}")


def _sizes(path: Path) -> Iterator[str]:
    from netsim.experiment import Experiment
    from netsim.experiment.resolve_fabric import report_queue_sizes

    with suppress(InputError):  # `netsim check` reports errors
        yield from report_queue_sizes(Experiment.load(path).points())


def _described(plugin: Plugin, preset: str | None) -> dict[str, Any]:
    """Return a plugin as JSON, with values as users write them."""
    from netsim.params import REQUIRED

    module = plugin.module
    values = plugin.presets[preset] if preset is not None else {}
    fabric = getattr(module, "FABRIC", {})
    if preset is not None:
        fabric = _merged(fabric, getattr(module, "PRESET_FABRIC", {}).get(preset, {}))
    params = [
        {
            "name": param.name,
            "unit": param.unit,
            "required": param.default is REQUIRED and param.name not in values,
            "default": None if param.default is REQUIRED else param.default,
            "value": values.get(param.name, None if param.default is REQUIRED else param.default),
            "choices": param.choices,
            "each": param.each,
            "doc": param.doc,
            "source": param.source,
        }
        for param in plugin.params
    ]
    return {
        "kind": plugin.kind,
        "name": plugin.name,
        "preset": preset,
        "file": plugin.path,
        "doc": (module.__doc__ or "").strip(),
        "params": params,
        "presets": plugin.presets,
        "fabric": fabric,
    }


def _print(plugin: Plugin, preset: str | None) -> None:
    doc = (plugin.module.__doc__ or "").strip()
    shown = plugin.name if preset is None else f"{plugin.name}:{preset}"
    click.echo(f"{plugin.kind} {shown} ({plugin.path})\n\n{doc}\n")
    if not plugin.params:
        click.echo("no parameters")
    values = plugin.presets[preset] if preset is not None else {}
    for param in plugin.params:
        _print_param(param, values)
    fabric = getattr(plugin.module, "FABRIC", {})
    of_presets = getattr(plugin.module, "PRESET_FABRIC", {})
    if preset is not None:
        _print_fabric("expected fabric", _merged(fabric, of_presets.get(preset, {})))
        return
    for name, values in plugin.presets.items():
        changes = [f"{key} = {_written(value)}" for key, value in values.items()]
        changes += _fabric_items(of_presets.get(name, {}), "fabric.")
        click.echo(f'preset "{plugin.name}:{name}": {", ".join(changes) or "the defaults"}')
    _print_fabric("expected fabric", fabric)


def _merged(fabric: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the fabric of a preset into a fabric, key by key."""
    merged = dict(fabric)
    for key, value in changes.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merged(merged[key], value) if both else value
    return merged


def _print_fabric(title: str, fabric: Mapping[str, object]) -> None:
    if fabric:
        click.echo(f"{title}: {', '.join(_fabric_items(fabric))}")


def _fabric_items(fabric: Mapping[str, object], section: str = "") -> list[str]:
    """Return keys and values of a fabric as text, tables last."""
    tables = {key: value for key, value in fabric.items() if isinstance(value, Mapping)}
    plain = [f"{section}{key} = {_written(fabric[key])}" for key in fabric if key not in tables]
    inner = (_fabric_items(table, f"{section}{key}.") for key, table in tables.items())
    return [*plain, *chain(*inner)]


def _print_param(param: Param, values: Mapping[str, Any]) -> None:
    """Print a parameter, with its value in the preset if it has one."""
    unit = ", ".join(param.choices) if param.choices else str(param.unit)
    unit += f", or a table of {', '.join(param.each)}" if param.each else ""
    value = _written(values.get(param.name, param.default), param.none)
    default = f" (default {_written(param.default, param.none)})" if param.name in values else ""
    click.echo(f"{param.name} = {value}{default}  [{unit}]")
    sentences = [param.doc.strip()] + ([f"Source: {param.source.strip()}"] if param.source else [])
    text = " ".join(_ended(one) for one in sentences) if param.source else sentences[0]
    click.echo(click.wrap_text(text, 100, "    ", "    ", preserve_paragraphs=True) + "\n")


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


def _written(value: object, none: str = "none") -> str:
    from netsim.params import REQUIRED

    if value is REQUIRED:
        return "(required)"
    return none if value is None else written(value)


# --- netsim list ---------------------------------------------------------------------------------


@click.command("list")
@click.argument("kind", type=Name(names.KINDS, SINGULAR), metavar="[KIND]", required=False)
@json_option
def list_command(kind: str | None, as_json: bool) -> None:
    """List plugins, files and experiments of one KIND, or of all.

    Plugins installed as entry points are included. Experiments are grouped by subject, with the
    run time that their file states; start with the one marked *.
    """
    kinds = [kind] if kind else names.KINDS
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
