"""Find names in a plugin's file that resemble the engine's but are not."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Collection, Iterator
from pathlib import Path
from types import ModuleType

from netsim.common.inputs import at_line
from netsim.errors import InputError, did_you_mean
from netsim.plugins.source import tree_of

ALIKE = 0.85
"""Similarity from which two names count as alike."""


def lookalikes(
    module: ModuleType, handlers: Collection[str], declarations: Collection[str]
) -> list[InputError]:
    """Return errors for unused functions and constants named almost like the engine's.

    Names that begin with an underscore are never errors.
    """
    path = str(module.__file__)
    tree = tree_of(path)
    if tree is None:
        return []
    used = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    found = []
    for name, line, is_function in _defined(tree):
        known = handlers if is_function else declarations
        if name in used or name in known or name.startswith("_"):
            continue
        meant = _meant(name, known)
        if meant is None and not (is_function and name.startswith("on_")):
            continue
        what = "handler" if is_function else "declaration"
        hint = did_you_mean(name, [meant] if meant else known)
        message = f"{name} is not a {what} and is unused"
        found.append(at_line(Path(path), line, message, hint))
    return found


def _defined(tree: ast.Module) -> Iterator[tuple[str, int, bool]]:
    """Yield the names that a file defines at module level: name, line, is a function."""
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, node.lineno, True
            case ast.Assign(targets=targets):
                for target in targets:
                    for one in ast.walk(target):
                        if isinstance(one, ast.Name):
                            yield one.id, one.lineno, False
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name, node.lineno, False


def _meant(name: str, known: Collection[str]) -> str | None:
    """Return the known name that differs in a few letters."""
    plain = {_plain(other): other for other in known}
    close = difflib.get_close_matches(_plain(name), plain, n=1, cutoff=ALIKE)
    return plain[close[0]] if close else None


def _plain(name: str) -> str:
    return name.lower().replace("_", "")
