"""Check what handlers do with their records, without running them.

A plugin may set its own fields and a few of the engine's. The compiled engine would let it set all
of them, and the result would be silently wrong. So this follows the handlers, and every function of
the file that they call, through their syntax trees. For each variable it tracks the kinds of record
that the variable may refer to (`Ref`) on any path. It reports a mistake only if it is one for all
of these kinds, so valid code is never refused. It does not follow indexing or tuples.

Functions of `netsim.transport` and `netsim.queue` may do what handlers may not, and are not
followed.
"""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from netsim.common.inputs import at_line
from netsim.engine.compiling.lint_records import NOTHING, Records, Ref, Value, arguments
from netsim.engine.kernels.handlers import HandlerTable
from netsim.errors import InputError, did_you_mean
from netsim.plugins.source import Function, node_of, without_value

ENGINE_MODULES = ("netsim.engine.", "netsim.model.")
"""Modules of the functions that plugins import from `netsim.transport` and `netsim.queue`."""

BLOCKS = "netsim.blocks."
MAX_MISTAKES = 20
"""Maximum number of mistakes reported at once."""


class _Unknown:
    """A value that cannot be known without running the code."""


UNKNOWN = _Unknown()


class Violation(NamedTuple):
    """A mistake of a plugin, with its file and line."""

    path: str
    line: int
    error: InputError

    def placed(self) -> InputError:
        """Return the error with its place."""
        return at_line(Path(self.path), self.line, self.error.message, self.error.hint)


def mistakes(
    handlers: Mapping[str, FunctionType], table: HandlerTable, records: Records
) -> list[InputError]:
    """Return the mistakes of a file's handlers, which are those of `table`."""
    checker = _CallChecker(table, records)
    found = [mistake for name, one in handlers.items() for mistake in checker.handler(name, one)]
    found.sort(key=lambda mistake: (mistake.path, mistake.line))
    errors = {str(mistake.placed()): mistake.placed() for mistake in found}
    return list(errors.values())[:MAX_MISTAKES]


class _CallChecker:
    """Follows handlers and the functions they call, once per combination of arguments."""

    def __init__(self, table: HandlerTable, records: Records) -> None:
        self.table, self.records = table, records
        self.call_stack: list[FunctionType] = []
        self._known: dict[
            tuple[FunctionType, tuple[Value, ...]], tuple[Value, list[Violation]]
        ] = {}

    def handler(self, name: str, function: FunctionType) -> list[Violation]:
        row = self.table[name]
        if function is row.default:
            return []
        node = node_of(function)
        found = list(self.call(function, arguments(row))[1])
        end = without_value(node) if node is not None and row.returns else None
        if end is not None:
            what = "ends without returning" if end is node else "returns nothing"
            error = InputError(f"{name} {what}", hint=f"it must return {row.returns}")
            found.append(Violation(function.__code__.co_filename, _line(end), error))
        return found

    def call(
        self, function: FunctionType, given: tuple[Value, ...]
    ) -> tuple[Value, list[Violation]]:
        """Return what a function returns, and its mistakes."""
        key = (function, given)
        if key not in self._known:
            self._known[key] = (NOTHING, [])
            node = node_of(function)
            if node is not None:
                self.call_stack.append(function)
                self._known[key] = _Body(self, function, node, given).follow()
                self.call_stack.pop()
        return self._known[key]


class _Body:
    """One function with one combination of arguments."""

    def __init__(
        self,
        checker: _CallChecker,
        function: FunctionType,
        node: Function,
        given: tuple[Value, ...],
    ) -> None:
        self.checker, self.function, self.node = checker, function, node
        code = function.__code__
        self.path = code.co_filename
        self.variables = dict.fromkeys((*code.co_varnames, *code.co_cellvars), NOTHING)
        self.variables |= dict(zip(code.co_varnames, given, strict=False))
        self.cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        self.returned: Value = NOTHING
        self.found: list[Violation] = []

    def follow(self) -> tuple[Value, list[Violation]]:
        """Follow the function until nothing new is learned about its variables."""
        before: tuple[Any, ...] = ()
        while before != (before := (dict(self.variables), self.returned)):
            self.found = []
            if isinstance(self.node, ast.Lambda):
                self.returned = self.value(self.node.body)
            else:
                self._all(self.node.body)
        return self.returned, self.found

    def _all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self._visit(node)

    def _visit(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assign(target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, value)
            case ast.AugAssign(target=target, value=value):
                self.value(value)
                self._store(target, NOTHING)
            case ast.For(target=target, iter=values, body=body, orelse=orelse):
                items = self._each(self.value(values), self.checker.records.item, node)
                self._store(target, items)
                self._all([*body, *orelse])
            case ast.Return(value=ast.expr() as value):
                self.returned |= self.value(value)
            case ast.expr():
                self.value(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                pass
            case _:
                self._all(ast.iter_child_nodes(node))

    # -- assignments -------------------------------------------------------------------------

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        both = (target, value)
        if all(isinstance(side, ast.Tuple) for side in both):
            inner, values = target.elts, value.elts  # type: ignore[attr-defined]
            if len(inner) == len(values):
                for one, its_value in zip(inner, values, strict=True):
                    self._assign(one, its_value)
                return
        self._store(target, self.value(value))

    def _store(self, target: ast.expr, value: Value) -> None:
        records = self.checker.records
        match target:
            case ast.Name(id=name):
                self.variables[name] = self.variables.get(name, NOTHING) | value
            case ast.Attribute(value=base, attr=name):
                self._each(self.value(base), lambda ref: records.may_set(ref, name), target)
            case ast.Subscript(value=base, slice=index):
                refs = self.value(base)
                self.value(index)
                match index:
                    case ast.Constant(value=str(name)):
                        self._each(refs, lambda ref: records.may_set(ref, name), target)
                    case _:
                        self._each(refs, records.may_set_item, target)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                for element in elements:
                    self._store(element, NOTHING)
            case ast.Starred(value=inner):
                self._store(inner, NOTHING)

    # -- expressions -------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Value:
        """Return what an expression may refer to."""
        records = self.checker.records
        match node:
            case ast.Name(id=name):
                if self._static(node) is UNKNOWN and name not in self.variables:
                    self._report(node, self._undefined(name))
                return self.variables.get(name, NOTHING)
            case ast.Attribute(value=base, attr=name):
                module = self._static(base)
                if isinstance(module, ModuleType):
                    if name not in vars(module):
                        self._report(node, _lacks(module, name))
                    return NOTHING
                return self._each(self.value(base), lambda ref: records.get(ref, name), node)
            case ast.Subscript(value=base, slice=index):
                refs = self.value(base)
                self.value(index)
                match index:
                    case ast.Constant(value=str(name)):
                        return self._each(refs, lambda ref: records.get(ref, name), node)
                return self._each(refs, records.item, node)
            case ast.Call():
                return self._call(node)
            case ast.IfExp(test=test, body=first, orelse=second):
                self.value(test)
                return self.value(first) | self.value(second)
            case ast.NamedExpr(target=target, value=value):
                refs = self.value(value)
                self._store(target, refs)
                return refs
            case (
                ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp()
            ):
                return NOTHING
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.value(child)
                return NOTHING

    def _call(self, node: ast.Call) -> Value:
        given = [self.value(argument) for argument in node.args]
        named = {keyword.arg: self.value(keyword.value) for keyword in node.keywords}
        callee = self._static(node.func)
        if callee is UNKNOWN:
            self.value(node.func)
            return NOTHING
        callee = getattr(callee, "py_func", callee)  # unwrap numba.njit
        if callee is setattr or callee is getattr:
            return self._by_name(callee, node, given)
        if not isinstance(callee, FunctionType):
            return NOTHING
        starred = any(isinstance(argument, ast.Starred) for argument in node.args)
        if starred or None in named:
            return NOTHING
        values = self._bound(node, callee, given, named)
        if values is None:
            return NOTHING
        if callee.__module__.startswith(ENGINE_MODULES):
            try:
                self.checker.records.may_call(callee.__name__, len(given))
            except InputError as wrong:
                self._report(node, wrong)
            return self.checker.records.returned_by(callee.__name__)
        if callee in self.checker.call_stack:
            return NOTHING  # the compiler refuses recursion
        returned, found = self.checker.call(callee, values)
        if _is_block(callee) and not _is_block(self.function):
            # A block is correct: the mistake is in its arguments.
            name = f"{callee.__module__.rpartition('.')[2]}.{callee.__name__}"
            for mistake in found:
                error = mistake.error
                self._report(node, InputError(f"{name}: {error.message}", hint=error.hint))
        else:
            self.found += found
        return returned

    def _bound(
        self,
        node: ast.Call,
        callee: FunctionType,
        given: Sequence[Value],
        named: dict[str | None, Value],
    ) -> tuple[Value, ...] | None:
        """Return the arguments in the order of the parameters; None if they do not fit."""
        signature = _signature(callee)
        try:
            bound = signature.bind(*given, **{str(name): value for name, value in named.items()})
        except TypeError as error:
            takes = f"its signature is {callee.__name__}{signature}"
            self._report(node, InputError(f"{callee.__name__}(): {error}", hint=takes))
            return None
        found = (bound.arguments.get(name, NOTHING) for name in signature.parameters)
        return tuple(value if isinstance(value, frozenset) else NOTHING for value in found)

    def _by_name(self, callee: Callable[..., Any], node: ast.Call, given: Sequence[Value]) -> Value:
        """Check setattr(record, "field", value) or getattr(record, "field")."""
        match node.args[1:2]:
            case [ast.Constant(value=str(name))]:
                records = self.checker.records
                if callee is getattr:
                    return self._each(given[0], lambda ref: records.get(ref, name), node)
                self._each(given[0], lambda ref: records.may_set(ref, name), node)
        return NOTHING

    def _static(self, node: ast.expr) -> Any:
        """Return what a name, or a name in a module, means before anything runs; else UNKNOWN."""
        match node:
            case ast.Name(id=name) if name not in self.variables:
                if name in self.cells:
                    return self.cells[name].cell_contents
                for names in (self.function.__globals__, vars(builtins)):
                    if name in names:
                        return names[name]
            case ast.Attribute(value=base, attr=name):
                module = self._static(base)
                if isinstance(module, ModuleType):
                    return vars(module).get(name, UNKNOWN)
        return UNKNOWN

    # -- mistakes ----------------------------------------------------------------------------

    def _each(self, refs: Value, look: Callable[[Ref], Value | None], node: ast.AST) -> Value:
        """Return all that `look` returns for `refs`; an error only if all of them raise."""
        given: set[Ref] = set()
        errors = []
        for ref in sorted(refs, key=str):
            try:
                given |= look(ref) or NOTHING
            except InputError as error:
                errors.append(error)
        if errors and len(errors) == len(refs):
            self._report(node, errors[0])
        return frozenset(given)

    def _report(self, node: ast.AST, error: InputError) -> None:
        self.found.append(Violation(self.path, _line(node), error))

    def _undefined(self, name: str) -> InputError:
        known = [*self.variables, *self.function.__globals__, *vars(builtins)]
        return InputError(f"{name} is not defined", hint=_new_or_close(name, known))


@cache
def _signature(function: FunctionType) -> inspect.Signature:
    return inspect.signature(function)


def _line(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 1))


def _is_block(function: FunctionType) -> bool:
    return function.__module__.startswith(BLOCKS)


def _lacks(module: ModuleType, name: str) -> InputError:
    known = [name for name in vars(module) if not name.startswith("__")]
    return InputError(f"{module.__name__} has no {name}", hint=_new_or_close(name, known))


def _new_or_close(name: str, known: list[str]) -> str | None:
    """Return the hint for an unknown name; None if no name is similar."""
    hint = did_you_mean(name, known)
    return hint if hint.startswith("did you mean") else None
