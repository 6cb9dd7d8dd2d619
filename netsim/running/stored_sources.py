"""Plugin files from the sources that travel with a point or a result."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from netsim.common.inputs import path_problem
from netsim.common.writing import write_text
from netsim.errors import InputError
from netsim.experiment.document import FABRIC_PLUGINS, PLUGIN_SECTIONS
from netsim.plugins import registry
from netsim.units import written

EXTRACTED = "netsim-stored-"
"""Prefix of the temporary directory for stored plugin sources."""

PLUGIN_KEYS = ("kind", *FABRIC_PLUGINS)
"""Keys that name a plugin; those after the first are in [fabric]."""


def plugin_files_of(tree: Mapping[str, Any]) -> list[str]:
    """Return the plugins of a resolved experiment that are given as files."""
    tables = [tree, *tree.get("flow_classes", {}).values()]
    sections = [table.get(section, {}) for table in tables for section in PLUGIN_SECTIONS]
    for section in sections:  # also tables within tables, as of a nested topology
        sections += [value for value in section.values() if isinstance(value, dict)]
    sections.append(tree.get("fabric", {}))
    kinds = [str(section[key]) for section in sections for key in PLUGIN_KEYS if key in section]
    files = [registry.split_preset(kind)[0] for kind in kinds]
    return [name for name in files if name.endswith(".py")]


def with_stored_sources(
    tree: Mapping[str, Any], plugins: Sequence[Mapping[str, Any]], file: str
) -> tuple[dict[str, Any] | None, dict[str, str]]:
    """Write the stored sources of `plugins` to a temporary directory.

    Returns the tree that names those files, None if a source is missing; and, for each of them, the
    name in `tree`. Raises InputError, with `file`, for a source outside its plugin's directory.
    """
    stored = {plugin["name"]: plugin for plugin in plugins}
    names = plugin_files_of(tree)
    if not names or not all(stored.get(name, {}).get("sources") for name in names):
        return None, {}
    root = Path(tempfile.mkdtemp(prefix=EXTRACTED))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    files = {}
    for number, name in enumerate(dict.fromkeys(names)):
        folder = root / str(number)
        sources = stored[name]["sources"]
        for path, text in sources.items():
            target = folder / path
            is_inside = not path_problem(path) and target.resolve().is_relative_to(folder.resolve())
            if not is_inside or stored[name]["file"] not in sources:
                message = f"{written(path)} must be in the directory of {name}"
                raise InputError(message, file=file)
            target.parent.mkdir(parents=True, exist_ok=True)
            write_text(target, text.encode("utf-8", "replace").decode())
        files[name] = str(folder / stored[name]["file"])

    def extracted(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: extracted(inner, name) for name, inner in value.items()}
        if key in PLUGIN_KEYS and isinstance(value, str):
            name, preset = registry.split_preset(value)
            return files.get(name, name) + (f":{preset}" if preset else "")
        return value

    changed: dict[str, Any] = extracted(dict(tree))
    return changed, {path: name for name, path in files.items()}
