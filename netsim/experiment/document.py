"""Read an experiment's TOML file, apply `--set path=value`, and collect its errors."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, TypeVar

from netsim.common.inputs import MAX_DEPTH, parsed_toml, require_plain, too_deep
from netsim.errors import InputError, raise_all
from netsim.units import written

Tree = dict[str, Any]  # a parsed TOML table: str, int, float, bool, list and dict values

PLUGIN_SECTIONS = ("topology", "transport", "traffic")
FABRIC_PLUGINS = {"queue_discipline": "queue", "routing": "routing"}
"""Keys of [fabric] that name a plugin, and its kind."""
FAULTS = "faults"
LABELED_SECTIONS = ("fabric", FAULTS)  # may be lists of tables, each with a label
NO_FAULTS = "none"  # `faults = "none"`, as from --set: drop [faults] and [routing]

WITH_PRESETS = ("job", "deployment", "decode_deployment", "model", "machine", "overheads")
"""Keys that name a preset, or are a table that may extend one: `preset = "NAME"`."""

CLASS_SECTIONS = ("transport", "traffic")  # sections of a table [flow_classes.NAME]


_ITEM = re.compile(r"""\s*("[^"]*"|'[^']*'|[^][{}"',=]+)\s*(?:,|(?=]))""")
_LIST = re.compile(rf"\[(?:{_ITEM.pattern})+\]", re.VERBOSE)
"""A list of words that need no quotes, such as [ndp, 100Gbps, "x, y"]."""


def category(key: str) -> str:
    """Return the kind of plugin of a section: "transport" for "flow_classes.wan.transport".

    Tables within [topology], such as [topology.plane], are topologies too, and the jobs of a
    traffic pattern are traffic. "fabric.queue_discipline" is a queue discipline.
    """
    if key.startswith("topology."):
        return "topology"
    if ".traffic.jobs." in f".{key}":
        return "traffic"
    return FABRIC_PLUGINS.get(key.removeprefix("fabric."), key.rpartition(".")[2])


def as_tree(content: Mapping[str, Any]) -> Tree:
    """Return a copy of a dictionary with mappings, tuples and paths converted to TOML values.
    Raises InputError, without a file, for values that TOML does not have."""

    def plain(value: Any, depth: int = 0) -> Any:
        if depth > MAX_DEPTH:
            raise too_deep()
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
    """Apply "dotted.path=value" texts to `tree`; return the paths. A value is TOML, or else plain
    text: `seed=3`, `traffic.load=[0.1, 0.2]`, `transport=ndp`, `topology.host_rate=100Gbps`.
    `topology=[small, large]` keeps only the tables with these labels and returns no path."""
    errors: list[InputError] = []
    paths: list[str] = []
    for override in overrides:
        path, equals, text = override.partition("=")
        keys = [key.strip() for key in path.split(".")]
        try:
            if not equals or not all(keys):
                message = f"{written(override)} must be path=value"
                raise InputError(message, hint="such as seed=3", code="wrong_type")
            if len(keys) > MAX_DEPTH:
                raise InputError(f"{written(path)} is nested too deeply", code="unreadable")
            value = _value(text.strip())
            require_plain(value, keys)
            if kept := _labeled(tree.get(path), value):
                tree[path] = kept
                continue
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
        words = _LIST.fullmatch(text)
        return [_value(word.strip()) for word in _ITEM.findall(text)] if words else text
    except (RecursionError, ValueError):
        document = parsed_toml(f"value = {text}")  # raises the error
    return document["value"] if len(document) == 1 else text


def _labeled(tables: Any, value: Any) -> list[Any]:
    """Return the tables of a section with the labels in `value`; none if these are not labels."""
    if not isinstance(tables, list):
        return []
    by_label = {table.get("label"): table for table in tables if isinstance(table, dict)}
    labels = value if isinstance(value, list) else [value]
    known = all(isinstance(label, str) and label in by_label for label in labels)
    return [by_label[label] for label in labels] if known else []


def _set(tree: Tree, keys: list[str], value: Any) -> None:
    *tables, last = keys
    targets = [tree]
    for depth, key in enumerate(tables):
        if depth == 1 and tables[0] == FAULTS:
            # With several tables of faults: the tables that have this section, or else all.
            targets = [target for target in targets if key in target] or targets
        if key in WITH_PRESETS:
            for target in targets:
                target[key] = _as_tables(target.get(key, {}), "preset")
        found = [target.setdefault(key, {}) for target in targets]
        if depth == 0 and key in PLUGIN_SECTIONS:
            tree[key] = _as_tables(tree[key])
            found = [tree[key]]
        # In a list of plugins, set the value in each.
        targets = [one for item in found for one in (item if isinstance(item, list) else [item])]
        if not all(isinstance(target, dict) for target in targets):
            path = ".".join(tables[: depth + 1])
            raise InputError("must be a table", key=path, code="wrong_type")
    for target in targets:
        target[last] = value


def _as_tables(plugin: Any, key: str = "kind") -> Any:
    """Return a plugin, or a preset, given by its name as the equivalent table."""
    if isinstance(plugin, str):
        return {key: plugin}
    if isinstance(plugin, list):
        return [_as_tables(item, key) for item in plugin]
    return plugin


def without_faults(tree: Tree, overridden: Sequence[str]) -> Tree:
    """Return the tree with `faults = "none"` applied; [routing] stays if it is an override."""
    if tree.get(FAULTS) != NO_FAULTS:
        return tree
    dropped = [FAULTS, "routing"]
    if any(path.partition(".")[0] == "routing" for path in overridden):
        dropped = [FAULTS]
    return {key: value for key, value in tree.items() if key not in dropped}


T = TypeVar("T")


@dataclass
class ErrorCollector:
    """Errors in a file and its overrides, whose dotted paths are `overridden`. Sections that points
    share are checked once, so their errors are reported once."""

    file: str
    overridden: Sequence[str] = ()
    _errors: list[InputError] = field(default_factory=list)
    _memo: dict[str, Any] = field(default_factory=dict)

    def note(self, error: InputError) -> None:
        """Add an error, possibly a combined one."""
        self._errors.extend(error.errors)

    def once(self, key: str, memo: str, resolve: Callable[[], T]) -> T | None:
        """Return the result of `resolve`, called once per `memo`; None after noting its errors.
        `key` is the parent key for errors without a file."""
        if memo not in self._memo:
            try:
                self._memo[memo] = resolve()
            except InputError as error:
                self._memo[memo] = None
                self._errors.extend(one if one.file else one.at(key=key) for one in error.errors)
        result: T | None = self._memo[memo]
        return result

    def is_overridden(self, key: str | None) -> bool:
        """Return whether the value at a dotted path is an override."""
        return key is not None and any(
            key == path or key.startswith(f"{path}.") for path in self.overridden
        )

    def all(self) -> list[InputError]:
        """Return all errors with their file, or "--set" for overrides."""
        return [
            error.at(file="--set" if self.is_overridden(error.key) else self.file)
            for error in self._errors
        ]
