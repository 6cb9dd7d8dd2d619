"""Expand the lists and ranges of an experiment to one tree per point.

These are axes: a list where one value belongs, "1..10" where an integer belongs, and a list of
transports, topologies, traffic patterns, [[fabric]] or [[faults]] tables. An axis names a plugin by
its `label`, or by its kind and distinguishing parameters, and a [[fabric]] or [[faults]] table by
its label or keys. A parameter with a value per part may have a list for each. Points are the
Cartesian product in file order, the first axis outermost, but the seed innermost.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from itertools import product
from typing import Any

from netsim.errors import InputError, raise_all
from netsim.experiment.document import (
    CLASS_SECTIONS,
    FABRIC_PLUGINS,
    FAULTS,
    LABELED_SECTIONS,
    NO_FAULTS,
    PLUGIN_SECTIONS,
    Tree,
)
from netsim.experiment.schema import COUNT_FIELDS
from netsim.frozen import frozen
from netsim.plugins import registry
from netsim.plugins.registry import Plugin
from netsim.units import parse_range, written

MAX_POINTS = 10_000
SWEPT_SECTIONS = (*PLUGIN_SECTIONS, "packets", "fabric", "faults", "routing", "stop", "measure")

Finder = Callable[[str, str], "Plugin | None"]
"""(section, kind as written) -> the plugin, or None if there is none."""


@frozen
class Variant:
    """A tree (or part of one) without sweeps, and its value on each axis."""

    value: Any
    axes: dict[str, Any] = field(default_factory=dict)


def expand(tree: Tree, find: Finder) -> tuple[list[Variant], list[InputError]]:
    """Return one tree per point, and the errors in the axes of sections left out."""
    order = [key for key in tree if key != "seed"] + ["seed"] * ("seed" in tree)
    errors: list[InputError] = []
    parts: dict[str, list[Variant]] = {}
    for key in order:
        try:
            parts[key] = _section(key, tree[key], find)
        except InputError as error:
            errors.append(error)
    return _tables(parts, list(parts.values())), errors


def _section(key: str, value: Any, find: Finder) -> list[Variant]:
    if key == "seed":
        return _values(key, value, is_count=True)
    if key in PLUGIN_SECTIONS:
        return _plugin(key, value, find)
    if key in LABELED_SECTIONS and isinstance(value, list):
        return _labeled(key, value, find)
    if key == "flow_classes" and isinstance(value, dict):
        return _tables(value, [_flow_class(f"{key}.{name}", value[name], find) for name in value])
    if key in SWEPT_SECTIONS and isinstance(value, dict):
        may_count = key == "fabric" and ".." in repr(value)  # finding all plugins takes time
        counts = _counts(value, find) if may_count else ()
        return _fixed(key, value, (*COUNT_FIELDS, *counts))
    return [Variant(value)]


def _flow_class(key: str, table: Any, find: Finder) -> list[Variant]:
    """Return all variants of a table [flow_classes.NAME]."""
    if not isinstance(table, dict):
        return [Variant(table)]
    parts = [
        _plugin(f"{key}.{name}", value, find) if name in CLASS_SECTIONS else [Variant(value)]
        for name, value in table.items()
    ]
    return _tables(table, parts)


def _counts(fabric: Tree, find: Finder) -> list[str]:
    """Return the integer parameters of plugins that a [fabric] table may name."""
    plugins: list[Plugin | None] = []
    for key, kind in FABRIC_PLUGINS.items():
        given = fabric.get(key, [])
        given = given if isinstance(given, list) else [given]
        named = [one for one in given if isinstance(one, str)]
        plugins += [*registry.plugins(kind), *(find(f"fabric.{key}", name) for name in named)]
    return [
        f"fabric.{param.name}"
        for plugin in plugins
        if plugin is not None
        for param in plugin.params
        if param.unit == "count"
    ]


def _fixed(path: str, table: Tree, counts: Sequence[str]) -> list[Variant]:
    """Return all variants of a fixed section, with axes at any depth. `counts` are the paths of
    integers, for which "1..4" is a range."""
    errors: list[InputError] = []
    parts: list[list[Variant]] = []
    for name, value in table.items():
        key = f"{path}.{name}"
        try:
            if isinstance(value, dict):
                parts.append(_fixed(key, value, counts))
            else:
                parts.append(_values(key, value, is_count=key in counts))
        except InputError as error:
            errors.append(error)
    raise_all(errors)
    return _tables(table, parts)


def _plugin(section: str, value: Any, find: Finder) -> list[Variant]:
    """Return all variants of a plugin section, each a table with one kind."""
    if isinstance(value, str):
        return [Variant({"kind": value})]
    if isinstance(value, list):
        return _alternatives(section, value, find)
    if not isinstance(value, dict):
        raise InputError(
            f"{written(value)} must be a name or a table", key=section, code="wrong_type"
        )
    kind = value.get("kind")
    if isinstance(kind, list):
        return _alternatives(section, [{**value, "kind": one} for one in kind], find)
    plugin = find(section, kind) if isinstance(kind, str) else None
    errors: list[InputError] = []
    parts: list[list[Variant]] = []
    for name, written_value in value.items():
        try:
            parts.append(_parameter(f"{section}.{name}", name, written_value, plugin, find))
        except InputError as error:
            errors.append(error)
    raise_all(errors)
    return _tables(value, parts)


def _parameter(
    key: str, name: str, value: Any, plugin: Plugin | None, find: Finder
) -> list[Variant]:
    param = plugin.param(name) if plugin else None
    if param is None:
        return [Variant(value)]  # an unknown parameter is reported once, later
    if isinstance(value, list) and value and not param.is_axis(value):
        return [Variant(value)]
    if param.unit == "topology" and isinstance(value, (dict, list)):
        return _plugin(key, value, find)
    if param.unit == "jobs" and isinstance(value, dict):
        return _tables(value, [_plugin(f"{key}.{one}", value[one], find) for one in value])
    if param.unit == "job" and isinstance(value, dict):
        return [Variant(value)]  # lists in it belong to the job
    is_count = param.unit == "count"
    if param.each and isinstance(value, dict):
        parts = [_values(f"{key}.{one}", value[one], is_count=is_count) for one in value]
        return _tables(value, parts)
    if param.each and isinstance(value, list) and any(isinstance(one, dict) for one in value):
        hint = f"put lists in one table, such as {{{param.each[0]} = [...]}}"
        raise InputError("a list must not contain tables", key=key, hint=hint, code="wrong_type")
    return _values(key, value, is_count=is_count)


def _alternatives(section: str, items: Sequence[Any], find: Finder) -> list[Variant]:
    """Return the variants of several plugins as one axis."""
    if not items:
        raise InputError("empty list", key=section, hint="add a value")
    for item in items:
        if isinstance(item, list):
            hint = "use names or tables"
            raise InputError("lists must not be nested", key=section, hint=hint, code="wrong_type")
    tables = [dict(item) if isinstance(item, dict) else {"kind": item} for item in items]
    given = [_pop_plugin_label(section, table, find) for table in tables]
    labels = [own or made for own, made in zip(given, _labels(tables), strict=True)]
    _refuse_duplicates(section, labels)
    return [
        Variant(variant.value, {section: label} | variant.axes)
        for table, item, label in zip(tables, items, labels, strict=True)
        for variant in _plugin(section, table if isinstance(item, dict) else item, find)
    ]


def _labeled(section: str, items: Sequence[Any], find: Finder) -> list[Variant]:
    """Return the variants of several [[fabric]] or [[faults]] tables as one axis."""
    if not items:
        raise InputError("empty list", key=section, hint="add a value")
    items = [{} if section == FAULTS and item == NO_FAULTS else item for item in items]
    if not all(isinstance(item, dict) for item in items):
        raise InputError("must be a list of tables", key=section, hint=f"write [[{section}]]")
    tables = [dict(item) for item in items]
    # A section of [[faults]] may also be called "label"; then it is a table.
    labels = [
        _keys_of(table) or NO_FAULTS
        if isinstance(table.get("label", {}), dict)
        else _pop_label(section, table)
        for table in tables
    ]
    _refuse_duplicates(section, labels)
    return [
        Variant(variant.value, {section: label} | variant.axes)
        for table, label in zip(tables, labels, strict=True)
        for variant in _section(section, table, find)
    ]


def _keys_of(table: Tree) -> str:
    return ", ".join(
        key if isinstance(value, dict) else f"{key}={value}" for key, value in table.items()
    )


def _pop_plugin_label(section: str, table: Tree, find: Finder) -> str | None:
    """Remove and return the label of a plugin's table; None if there is none."""
    kind = table.get("kind")
    if "label" not in table or not isinstance(kind, str):
        return None  # several kinds become one table each
    plugin = find(section, kind)
    if plugin is not None and plugin.param("label"):
        return None
    return _pop_label(section, table)


def _pop_label(section: str, table: Tree) -> str:
    """Remove and return the label of a table."""
    label = table.pop("label")
    if not isinstance(label, str) or not label.strip():
        hint = 'use text, such as "4 planes"'
        raise InputError(f"{written(label)} is not a label", key=f"{section}.label", hint=hint)
    return label


def _labels(tables: Sequence[Tree]) -> list[str]:
    """Return a name for each plugin of an axis: its kind and distinguishing parameters. Lists are
    separate axes, and are included only if names are otherwise equal."""
    known: dict[tuple[str, str], Counter[str]] = {}
    kinds = [repr(table.get("kind")) for table in tables]
    for kind, table in zip(kinds, tables, strict=True):
        for key, value in table.items():
            known.setdefault((kind, key), Counter())[repr(value)] += 1
    n_of_kind = Counter(kinds)

    def label(kind: str, table: Tree, *, with_lists: bool) -> str:
        differences = [
            f"{key}={value if isinstance(value, str) else written(value)}"
            for key, value in table.items()
            if known[kind, key][repr(value)] < n_of_kind[kind]
            and (with_lists or not isinstance(value, list))
        ]
        return " ".join([str(table.get("kind")), *differences])

    pairs = list(zip(kinds, tables, strict=True))
    short = [label(*pair, with_lists=False) for pair in pairs]
    count = Counter(short)
    return [
        one if count[one] == 1 else label(*pair, with_lists=True)
        for one, pair in zip(short, pairs, strict=True)
    ]


def _values(key: str, value: Any, *, is_count: bool) -> list[Variant]:
    """Return one variant for a value, or one per item of an axis."""
    if is_count and isinstance(value, str):
        value = _range(key, value)
    if not isinstance(value, list):
        return [Variant(value)]
    if not value:
        raise InputError("empty list", key=key, hint="add a value")
    _refuse_duplicates(key, value)
    return [Variant(item, {key: item}) for item in value]


def _range(key: str, value: str) -> Any:
    """Return the integers of "1..10", inclusive; other texts unchanged."""
    ends = parse_range(value)
    if ends is None:
        return value
    first, last = ends
    if first > last:
        hint = f'write "{last}..{first}"'
        raise InputError(f'range "{value}" is empty', key=key, hint=hint, code="out_of_range")
    if last - first >= MAX_POINTS:
        message = f'"{value}" has {last - first + 1} values'
        raise InputError(message, key=key, hint=f"at most {MAX_POINTS}")
    return list(range(first, last + 1))


def _refuse_duplicates(key: str, items: Sequence[Any]) -> None:
    seen: set[str] = set()
    for item in items:
        if repr(item) in seen:
            raise InputError(f"duplicate value {written(item)}", key=key, code="duplicate")
        seen.add(repr(item))


def _tables(keys: Iterable[str], parts: Sequence[list[Variant]]) -> list[Variant]:
    """Return a table for each combination of one variant per part, with all axes."""
    n_points = math.prod(len(part) for part in parts)
    if n_points > MAX_POINTS:
        message, hint = f"the sweep has {n_points} points", f"at most {MAX_POINTS}"
        raise InputError(message, hint=hint, code="out_of_range")
    names = list(keys)
    tables = []
    for chosen in product(*parts):
        axes: dict[str, Any] = {}
        for variant in chosen:
            axes |= variant.axes
        values = [variant.value for variant in chosen]
        tables.append(Variant(dict(zip(names, values, strict=True)), axes))
    return tables
