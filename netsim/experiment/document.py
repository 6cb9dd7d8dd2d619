"""Reading an experiment's TOML file, and changing values in it with `--set path=value`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from netsim.errors import InputError, raise_all
from netsim.inputs import read_text
from netsim.units import written

Tree = dict[str, Any]
"""A parsed TOML table: str, int, float, bool, list and dict values."""

MAX_DEPTH = 20
"""Tables and lists in one another; an experiment needs five."""

PLUGIN_SECTIONS = ("topology", "transport", "traffic")
FAULTS = "faults"

CLASS_SECTIONS = ("transport", "traffic")
"""What a table [flow_classes.NAME] holds."""


def category(key: str) -> str:
    """The kind of plugin that a section holds: "transport" for "flow_classes.wan.transport".

    What stands inside [topology], such as [topology.plane], are topologies, too.
    """
    if key.startswith("topology."):
        return "topology"
    return "queue" if key == "fabric" else key.rpartition(".")[2]


def read(path: Path) -> Tree:
    """The tree of a TOML file; `InputError` if it cannot be read or is not TOML."""
    try:
        tree = _parse(read_text(path))
        require_plain(tree)
        return tree
    except InputError as error:
        raise error.at(file=str(path)) from None


def _parse(text: str) -> Tree:
    """The tree of a TOML text; `InputError`, without a file, if it is not TOML."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"is not valid TOML: {error}", code="unreadable") from None
    except RecursionError:
        raise InputError(
            "is nested too deeply", hint=f"at most {MAX_DEPTH} levels", code="unreadable"
        ) from None
    except ValueError:  # the limit of Python's int()
        raise InputError(
            "is not valid TOML: a number of thousands of digits", code="unreadable"
        ) from None


def require_plain(value: Any, at: Sequence[str] = ()) -> None:
    """Raise InputError, without a file, for what TOML or its parser allows and no experiment has.

    That is a date or another object, a whole number of more than 64 bits, and tables or lists in
    one another without end. Whoever looks at the values after this may write and copy all of them.
    `at` are the keys under which `value` stands.
    """
    pending: list[tuple[tuple[str, ...], Any]] = [(tuple(at), value)]
    while pending:
        path, value = pending.pop()
        key = ".".join(name for name in path[:MAX_DEPTH] if name) or None
        if len(path) > MAX_DEPTH:
            hint = f"at most {MAX_DEPTH} levels"
            raise InputError("is nested too deeply", key=key, hint=hint, code="unreadable")
        if isinstance(value, dict):
            pending += [((*path, name), item) for name, item in value.items()]
        elif isinstance(value, list):
            pending += [((*path, ""), item) for item in value if not isinstance(item, str)]
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise InputError(
                f"{written(value)} has more than 64 bits", key=key, code="out_of_range"
            )
        elif not isinstance(value, (str, int, float)):
            kind = type(value).__name__
            hint = "text, a number, true or false, a list or a table"
            raise InputError(
                f"{written(str(value))} is a {kind}", key=key, hint=hint, code="wrong_type"
            )


def as_tree(content: Mapping[str, Any]) -> Tree:
    """A copy of a dictionary in which other kinds of mappings, tuples and paths became TOML's.

    Raises InputError, without a file, for what TOML has no value for.
    """

    def plain(value: Any, depth: int = 0) -> Any:
        if depth > MAX_DEPTH:
            raise InputError(
                "is nested too deeply", hint=f"at most {MAX_DEPTH} levels", code="unreadable"
            )
        if isinstance(value, Mapping):
            return {str(key): plain(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [plain(item, depth + 1) for item in value]
        if hasattr(value, "tolist"):  # a NumPy scalar or array
            return plain(value.tolist(), depth + 1)
        return str(value) if isinstance(value, PurePath) else value

    tree: Tree = plain(content)
    require_plain(tree)
    return tree


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
                raise InputError(
                    f"{written(override)} is not path=value",
                    hint="such as seed=3",
                    code="wrong_type",
                )
            if len(keys) > MAX_DEPTH:
                raise InputError(f"{written(path)} is nested too deeply", code="unreadable")
            value = _value(text.strip())
            require_plain(value, keys)
            _set(tree, keys, value)
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
    except (RecursionError, ValueError):
        document = _parse(f"value = {text}")  # which says what is wrong
    return document["value"] if len(document) == 1 else text


def _set(tree: Tree, keys: list[str], value: Any) -> None:
    *tables, last = keys
    places = [tree]
    for depth, key in enumerate(tables):
        if depth == 1 and tables[0] == FAULTS:
            # Of several tables of faults those that have the section, or all.
            places = [place for place in places if key in place] or places
        found = [place.setdefault(key, {}) for place in places]
        if depth == 0 and key in PLUGIN_SECTIONS:
            tree[key] = _as_tables(tree[key])
            found = [tree[key]]
        # A list of plugins: the value is set in each.
        places = [one for item in found for one in (item if isinstance(item, list) else [item])]
        if not all(isinstance(place, dict) for place in places):
            path = ".".join(tables[: depth + 1])
            raise InputError(
                "is not a table, so nothing can be set in it", key=path, code="wrong_type"
            )
    for place in places:
        place[last] = value


def _as_tables(plugin: Any) -> Any:
    """A plugin given by its name alone as the table that it is short for."""
    if isinstance(plugin, str):
        return {"kind": plugin}
    if isinstance(plugin, list):
        return [_as_tables(item) for item in plugin]
    return plugin
