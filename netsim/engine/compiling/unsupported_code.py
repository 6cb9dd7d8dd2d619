"""Report plugin code that cannot be compiled: the mistake and its line.

Some mistakes are found before Numba sees the code, since Numba's errors would point elsewhere, or
it would compile something else. Numba's messages are translated.
"""

from __future__ import annotations

import ast
import dis
import inspect
import linecache
import re
import types
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import cast

from netsim.common.inputs import at_line
from netsim.engine.compiling.bindings import package_root, refused, source_files
from netsim.errors import InputError

STATE = (
    "state is kept in TX_STATE, RX_STATE and HOST_STATE, of a queue discipline in PORT_STATE, "
    "CLASS_STATE and SWITCH_STATE"
)
LOOP = "a loop can be compiled"

KINDS = (
    (inspect.CO_VARKEYWORDS, "takes any named arguments (**)", "give each of them a name"),
    (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR, "is asynchronous", "a plain def"),
)


def refuse_what_cannot_be_carried(function: types.FunctionType) -> None:
    """Raise InputError for a function that cannot be compiled as part of a handler."""
    code = function.__code__
    for flags, what, hint in KINDS:
        if code.co_flags & flags:
            raise refused(function, what, hint)
    if code.co_kwonlyargcount:
        names = code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]
        hint = "remove the * in front of them"
        raise refused(function, f"has keyword-only arguments: {', '.join(names)}", hint)
    for line, name in _set_outside(code):
        raise at_line(Path(code.co_filename), line, f"{name} cannot be set by a handler", STATE)


def calls_itself(function: types.FunctionType) -> InputError:
    """Return the error for direct or indirect recursion."""
    return refused(function, "calls itself", LOOP)


@cache
def _set_outside(code: types.CodeType) -> tuple[tuple[int, str], ...]:
    """Return the lines in which a function, or a nested one, sets outer names, and these names.
    Cached, since each engine asks for all its functions."""
    return tuple(_settings(code))


def _settings(code: types.CodeType) -> Iterator[tuple[int, str]]:
    for step in dis.get_instructions(code):
        outside = step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL") or (
            step.opname in ("STORE_DEREF", "DELETE_DEREF") and step.argval in code.co_freevars
        )
        if outside:
            places = step.positions
            line = places.lineno if places is not None else None
            yield line or code.co_firstlineno, str(step.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _settings(constant)


PLACES = (
    re.compile(r'File "(.+?)", line (\d+)'),
    re.compile(r"(?:at|location:|from) (\S.*?\.py) \((\d+)\)"),
)
"""Forms in which Numba names a line."""

RECORD = re.compile(r"Record\(.*?;\d+;(?:True|False)\)")
LITERAL = re.compile(r"Literal\[(\w+)\]\((.*?)\)")

QUOTES = ("During:", "[1]", "<source", "File ", "- ", "def ", "There are ")
"""First words of lines in which Numba quotes the source or its attempts."""

PLAIN = (
    (r"^'(\w+)'$", r"the record has no field \1, which the file must declare"),
    (r"NRT required", "lists, sets and arrays cannot be made in a handler"),
    (r"Cannot cast none to", "None is put where a number belongs"),
    (r"Cannot cast (.+?) to (\w+):", r"\1 is put where \2 belongs"),
    (r"Cannot unify (.+?) and (.+?) for '(\w+)\S*'", r"\3 is \1 in one branch and \2 in another"),
    (r"Can't unify return type from the following types: (.+?) Return of", r"it returns \1"),
    (r"Untyped global name '(\w+)'", r"\1 is nothing that can be compiled"),
    (r"The use of yield in a closure", "a generator expression, where a loop can be compiled"),
    (r"Use of unsupported opcode \((\w+)\)", r"unsupported: \1"),
)
"""Numba's words and their meaning in a handler."""

HINT = (
    "handlers are compiled by Numba: numbers, records, tuples and the functions of "
    "netsim.transport or netsim.queue, if, while and for, and functions of your own"
)


def does_not_compile(error: Exception, plugins: Sequence[ModuleType]) -> InputError:
    """Return the InputError for an error of Numba while compiling handlers of ``plugins``."""
    text = str(error)
    what = f"does not compile: {_what(text)}"
    place = _place(error, text, plugins)
    if place is None:
        return InputError(what, file=plugins[0].__file__, hint=HINT)
    path, line = place
    source = linecache.getline(str(path), line).strip()
    return at_line(path, line, f"{what}: {source}" if source else what, HINT)


def _what(text: str) -> str:
    """Return a message up to its quote of the source, in plain words."""
    said: list[str] = []
    for line in (line.strip() for line in text.splitlines()):
        if said and line.startswith(QUOTES):
            break
        if line and not line.startswith((*QUOTES, "Failed in")):
            said.append(line)
    what = LITERAL.sub(r"\2", RECORD.sub("a record", " ".join(said)))
    for numbas, plain in PLAIN:
        found = re.search(numbas, what)
        if found:
            return found.expand(plain)
    return what.rstrip(" :")


def _place(error: Exception, text: str, plugins: Sequence[ModuleType]) -> tuple[Path, int] | None:
    """Return the innermost line that Numba names in a file outside the package, or None."""
    files = source_files(plugins)
    names = {Path(str(plugin.__file__)).resolve() for plugin in plugins}
    own = [path for path in files if path in names or not path.is_relative_to(package_root())]
    own.sort(key=lambda path: path not in names)
    for name, line in _named(error, text):
        for path in own:
            if str(path) == name or path.name == Path(name).name:
                return path, line
    missing = re.search(r"(?:^|has no attribute )'(\w+)'$", text)
    if missing:  # Numba names no line
        return next(_lines(own, lambda node: getattr(node, "attr", "") == missing[1]), None)
    is_with = "with (context" in text
    return next(_lines(own, lambda node: is_with and isinstance(node, ast.With)), None)


def _named(error: Exception, text: str) -> Iterator[tuple[str, int]]:
    for pattern in PLACES:
        for name, line in pattern.findall(text):
            yield name, int(line)
    where = getattr(error, "loc", None)
    if where is not None:
        yield str(where.filename), int(where.line)


def _lines(files: Sequence[Path], wanted: Callable[[ast.AST], bool]) -> Iterator[tuple[Path, int]]:
    """Yield the lines of some nodes."""
    for path in files:
        for node in ast.walk(tree_of(str(path)) or ast.Module([], [])):
            if wanted(node):
                yield path, getattr(node, "lineno", 1)


# --- source of plugins ----------------------------------------------------------------------------

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
    """Yield all nodes of a function except nested functions and classes."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, (*Function.__args__, ast.ClassDef)):
            yield from inside(child)
