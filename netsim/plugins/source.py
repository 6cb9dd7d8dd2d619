"""Where a function stands in its file, as a syntax tree."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator, Sequence
from functools import lru_cache
from types import CodeType, FunctionType
from typing import cast

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def tree_of(path: str) -> ast.Module | None:
    """The syntax tree of a file of source text, or None if there is none to be had."""
    text = "".join(linecache.getlines(path))
    return _parse(text) if text else None


def node_of(function: FunctionType) -> Function | None:
    """The definition of a function; None for one that was made in another way."""
    code = function.__code__
    tree = tree_of(code.co_filename)
    if tree is None:
        return None
    found: list[ast.AST] = [node for node in tree.body if _is_of(node, code)]
    found = found or [node for node in ast.walk(tree) if _is_of(node, code)]
    return cast(Function, found[0]) if len(found) == 1 else None


@lru_cache(maxsize=64)
def _parse(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _is_of(node: ast.AST, code: CodeType) -> bool:
    """Is this where the function with that code is defined?"""
    if not isinstance(node, Function):
        return False
    name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
    # As Python counts lines, decorators belong to the function.
    first = min([node.lineno, *(line.lineno for line in getattr(node, "decorator_list", ()))])
    return (name, first) == (code.co_name, code.co_firstlineno)


def inside(node: ast.AST) -> Iterator[ast.AST]:
    """All of a function but what stands in functions and classes within it."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, (*Function.__args__, ast.ClassDef)):
            yield from inside(child)


def without_value(function: Function) -> ast.AST | None:
    """A place where a function ends without returning anything, if there is one."""
    if isinstance(function, ast.Lambda):
        return None
    for node in inside(function):
        if isinstance(node, ast.Return) and (
            node.value is None
            or (isinstance(node.value, ast.Constant) and node.value.value is None)
        ):
            return node
    return function if _goes_on(function.body) else None


def _goes_on(body: Sequence[ast.stmt]) -> bool:
    """May what follows these statements be reached? At least if it can, this is true."""
    return all(_passes(statement) for statement in body)


def _passes(statement: ast.stmt) -> bool:
    match statement:
        case ast.Return() | ast.Raise() | ast.Continue() | ast.Break():
            return False
        case ast.If():
            return _goes_on(statement.body) or _goes_on(statement.orelse)
        case ast.While(test=ast.Constant(value=value)) if value:
            return any(isinstance(node, ast.Break) for node in inside(statement))
        case ast.With():
            return _goes_on(statement.body)
        case ast.Match():
            last = statement.cases[-1]
            exhaustive = isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None
            exhaustive = exhaustive and last.guard is None
            return not exhaustive or any(_goes_on(case.body) for case in statement.cases)
        case _:
            return True
