"""Write trees as TOML; `Raw` values are written as they are."""

from __future__ import annotations

import json
import re
from typing import Any

from .values import Raw


def write(tree: dict[str, Any]) -> str:
    """Return the TOML text of a tree: values first, then tables."""
    lines: list[str] = []
    _table(tree, (), lines)
    return "\n".join(lines) + "\n"


def value(item: Any) -> str:
    """Return a value on one line."""
    if isinstance(item, Raw):
        return item.text
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, int | float):
        return repr(item)
    if isinstance(item, list):
        return "[" + ", ".join(map(value, item)) + "]"
    if isinstance(item, dict):
        return "{" + ", ".join(f"{_key(name)} = {value(one)}" for name, one in item.items()) + "}"
    return _quoted(str(item))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name, re.ASCII) else _quoted(name)


def _table(tree: dict[str, Any], path: tuple[str, ...], lines: list[str]) -> None:
    tables = {}
    for name, item in tree.items():
        if (isinstance(item, dict) and item) or _is_tables(item):
            tables[name] = item
        else:
            lines.append(f"{_key(name)} = {value(item)}")
    for name, item in tables.items():
        inner = (*path, name)
        title = ".".join(map(_key, inner))
        for one in item if isinstance(item, list) else [item]:
            lines.append(f"\n[[{title}]]" if isinstance(item, list) else f"\n[{title}]")
            _table(one, inner, lines)


def _is_tables(item: Any) -> bool:
    return isinstance(item, list) and bool(item) and all(isinstance(one, dict) for one in item)
