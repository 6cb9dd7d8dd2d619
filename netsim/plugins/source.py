"""Find functions in their files, as syntax trees."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator, Sequence
from functools import lru_cache
from types import CodeType, FunctionType
from typing import cast

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def tree_of(path: str) -> ast.Module | None:
    """Return the syntax tree of a source file, or None if there is none."""
    text = "".join(linecache.getlines(path))
    return _parse(text) if text else None


def node_of(function: FunctionType) -> Function | None:
    """Return the definition of a function; None if no source defines it."""
    code = function.__code__
    tree = tree_of(code.co_filename)
    if tree is None:
        return None
    found: list[ast.AST] = [node for node in tree.body if _defines(node, code)]
    found = found or [node for node in ast.walk(tree) if _defines(node, code)]
    return cast(Function, found[0]) if len(found) == 1 else None


@lru_cache(maxsize=64)
def _parse(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _defines(node: ast.AST, code: CodeType) -> bool:
    if not isinstance(node, Function):
        return False
    name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
    # In Python's line numbers a function starts at its decorators.
    first = min([node.lineno, *(line.lineno for line in getattr(node, "decorator_list", ()))])
    return (name, first) == (code.co_name, code.co_firstlineno)


def inside(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes of a function except those of nested functions and classes."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, (*Function.__args__, ast.ClassDef)):
            yield from inside(child)


def without_value(function: Function) -> ast.AST | None:
    """Return a place where a function ends without returning a value, or None."""
    if isinstance(function, ast.Lambda):
        return None
    for node in inside(function):
        match node:
            case ast.Return(value=None | ast.Constant(value=None)):
                return node
    return function if _may_complete(function.body) else None


def _may_complete(body: Sequence[ast.stmt]) -> bool:
    """Return whether what follows these statements may be reached; if unsure, True."""
    return all(_may_pass(statement) for statement in body)


def _may_pass(statement: ast.stmt) -> bool:
    match statement:
        case ast.Return() | ast.Raise() | ast.Continue() | ast.Break():
            return False
        case ast.If():
            return _may_complete(statement.body) or _may_complete(statement.orelse)
        case ast.While(test=ast.Constant(value=value)) if value:
            return any(isinstance(node, ast.Break) for node in inside(statement))
        case ast.With():
            return _may_complete(statement.body)
        case ast.Match():
            last = statement.cases[-1]
            exhaustive = isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None
            exhaustive = exhaustive and last.guard is None
            return not exhaustive or any(_may_complete(case.body) for case in statement.cases)
        case _:
            return True
