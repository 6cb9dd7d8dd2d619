"""Which source files are compiled as part of the engine, and which belong to libraries."""

from __future__ import annotations

import os
import sys
import sysconfig
import types
from collections.abc import Sequence
from functools import cache
from pathlib import Path

LIBRARIES = {"site-packages", "dist-packages"}
"""Folders of installed libraries."""


@cache
def _foreign_roots() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple({paths[k] for k in ("stdlib", "platstdlib", "purelib", "platlib")})


@cache
def package_root() -> str:
    """Return the folder of the package."""
    return str(Path(__file__).resolve().parents[2])


@cache
def is_ours(path: str | None) -> bool:
    """Return whether a file's functions are compiled: netsim's and plugins', not libraries'."""
    if path is None or not path.endswith(".py"):
        return False
    real = os.path.realpath(path)
    if real.startswith(package_root()):
        return True
    if LIBRARIES.intersection(Path(real).parts):
        return False
    return not any(real.startswith(root + os.sep) for root in _foreign_roots())


def top_package(name: str) -> str:
    """Return the outermost package of a dotted name."""
    return name.partition(".")[0]


def source_files(plugins: Sequence[types.ModuleType]) -> list[Path]:
    """Return every file that the compiled code of ``plugins`` can depend on.

    That is the whole package, and all modules outside libraries that a plugin's globals reach.
    """
    root = Path(package_root())
    files = set(root.rglob("*.py"))
    seen: set[str] = set()
    queue = list(plugins)
    tops = {top_package(plugin.__name__) for plugin in plugins}
    while queue:
        module = queue.pop()
        if module.__name__ in seen:
            continue
        seen.add(module.__name__)
        path = getattr(module, "__file__", None)
        if path is not None and path.endswith(".py"):
            files.add(Path(path).resolve())
        for value in list(vars(module).values()):
            name = value.__name__ if isinstance(value, types.ModuleType) else None
            name = name or getattr(value, "__module__", None)
            found = sys.modules.get(name) if isinstance(name, str) else None
            if found is None:
                continue
            if top_package(found.__name__) in tops or is_ours(getattr(found, "__file__", None)):
                queue.append(found)
    return sorted(files)
