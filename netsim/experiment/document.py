"""Reading an experiment's TOML file, and changing values in it with `--set path=value`."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from netsim.errors import InputError, raise_all

Tree = dict[str, Any]
"""A parsed TOML table: str, int, float, bool, list and dict values."""

PLUGIN_SECTIONS = ("topology", "transport", "traffic")


CLASS_SECTIONS = ("transport", "traffic")
"""What a table [classes.NAME] holds."""


def category(key: str) -> str:
    """The kind of plugin that a section holds: "transport" for "classes.wan.transport"."""
    return key.rpartition(".")[2]


def read(path: Path) -> Tree:
    """The tree of a TOML file; `InputError` if it cannot be read or is not TOML."""
    try:
        text = path.read_bytes().decode("utf-8")
        return tomllib.loads(text)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=str(path)) from None
    except UnicodeDecodeError:
        raise InputError("is not UTF-8 text", file=str(path)) from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"is not valid TOML: {error}", file=str(path)) from None


def apply_overrides(tree: Tree, overrides: Sequence[str]) -> list[str]:
    """Change `tree` in place by "dotted.path=value" texts; returns the paths.

    A value is read as TOML, and as plain text if it is not TOML: `seed=3`,
    `traffic.load=[0.1, 0.2]`, `transport=ndp`, `topology.host_rate=100Gbps`.
    """
    errors: list[InputError] = []
    paths: list[str] = []
    for override in overrides:
        path, equals, text = override.partition("=")
        keys = [key.strip() for key in path.split(".")]
        try:
            if not equals or not all(keys):
                raise InputError(f'"{override}" is not path=value', hint="such as seed=3")
            _set(tree, keys, _value(text.strip()))
        except InputError as error:
            errors.append(error.at(file="--set"))
        paths.append(".".join(keys))
    raise_all(errors)
    return paths


def _value(text: str) -> Any:
    try:
        document = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return document["value"] if len(document) == 1 else text


def _set(tree: Tree, keys: list[str], value: Any) -> None:
    *tables, last = keys
    places = [tree]
    for depth, key in enumerate(tables):
        found = [place.setdefault(key, {}) for place in places]
        if depth == 0 and key in PLUGIN_SECTIONS:
            tree[key] = _as_tables(tree[key])
            found = [tree[key]]
        # A list of plugins: the value is set in each.
        places = [one for item in found for one in (item if isinstance(item, list) else [item])]
        if not all(isinstance(place, dict) for place in places):
            path = ".".join(tables[: depth + 1])
            raise InputError("is not a table, so nothing can be set in it", key=path)
    for place in places:
        place[last] = value


def _as_tables(plugin: Any) -> Any:
    """A plugin given by its name alone as the table that it is short for."""
    if isinstance(plugin, str):
        return {"kind": plugin}
    if isinstance(plugin, list):
        return [_as_tables(item) for item in plugin]
    return plugin
