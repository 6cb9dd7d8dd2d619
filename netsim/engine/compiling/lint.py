"""Check plugins before each use for mistakes that would silently give wrong results.

A handler may set its file's own fields and a few engine fields, but the compiled engine would let
it set all of them. So this module checks what handlers, and functions they call, set. The kind of
record is known for arguments of handlers, for `env` and its members, and for variables with only
such values; otherwise the field's name decides. Other mistakes, such as unknown fields and names,
end compilation or the run with their line.
"""

from __future__ import annotations

import ast
import difflib
import dis
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from netsim.common.inputs import at_line
from netsim.engine.compiling.declarations import (
    DECLARATIONS,
    PROGRAM_DECLARATIONS,
    PROGRAM_SETTABLE,
    QUEUE_DECLARATIONS,
    QUEUE_SETTABLE,
    ROUTING_DECLARATIONS,
    ROUTING_SETTABLE,
    SETTABLE,
    functions_of,
    plugin_parameters,
    program_parameters,
    read_discipline,
    read_program,
    read_protocol,
    read_routing,
)
from netsim.engine.compiling.unsupported_code import inside, node_of, tree_of
from netsim.engine.kernels import fields
from netsim.engine.kernels.fields import RouterRecord, RoutingPortRecord
from netsim.engine.kernels.handlers import (
    COMING,
    HANDLERS,
    PROGRAM_HANDLERS,
    QUEUE_HANDLERS,
    ROUTING_HANDLERS,
    SENT,
    Handler,
    HandlerTable,
)
from netsim.engine.kernels.layout import fields_of
from netsim.errors import InputError, did_you_mean, raise_all
from netsim.model.workload import is_program
from netsim.plugins.registry import Plugin

CORRECT = ("netsim.engine.", "netsim.model.", "netsim.blocks.")
"""Modules that are not checked: their functions may do more, or are known to be correct."""

MAX_MISTAKES = 20
ALIKE = 0.85
"""Similarity at which two names count as alike."""

ENV = ast.Name("env", ast.Load())
CHANGED_BY = {"bits": "use bit_set and bit_clear", "timers": "use set_timer and cancel_timer"}


@dataclass(frozen=True)
class Rules:
    """Rules for the handlers of a kind of plugin.

    `engine` has the engine's record of each kind, of which the fields in `settable` may be set.
    `env` lists the fields of `env`, `sides` its arrays of records. `gives` has the kind
    of record that functions of the engine return. Own fields are in the declarations `state`.
    """

    read: Callable[..., Any]
    handlers: HandlerTable
    declarations: Collection[str]
    engine: Mapping[str, type[fields.Declared]]
    settable: Mapping[str, tuple[str, ...]]
    env: tuple[str, ...]
    state: tuple[str, ...]
    gives: Mapping[str, str]
    sides: tuple[str, ...] = ()

    def kinds(self, handler: Handler, function: FunctionType) -> dict[str, str]:
        """Return the kind of each handler argument that is a record."""
        known = {**{name: name for name in self.engine}, "env": "env", "pkt": handler.packet}
        arguments = zip(function.__code__.co_varnames, handler.arguments, strict=False)
        return {name: known[meant] for name, meant in arguments if meant in known}


RULES = {
    "transport": Rules(
        *(read_protocol, HANDLERS, DECLARATIONS),
        engine={
            "tx": fields.TxRecord, "rx": fields.RxRecord, "host": fields.HostRecord,
            "pkt": fields.PacketRecord, "port": fields.PortRecord, "queue": fields.QueueRecord,
        },
        settable=SETTABLE,
        env=("host", "par", "tx", "rx", "bits"),
        state=("TX_STATE", "RX_STATE", "HOST_STATE", "PACKET_FIELDS"),
        gives={"send": SENT},
        sides=("tx", "rx"),
    ),
    "queue": Rules(
        *(read_discipline, QUEUE_HANDLERS, QUEUE_DECLARATIONS),
        engine={
            "port": fields.PortRecord, "queue": fields.QueueRecord, "switch": fields.SwitchRecord,
            "pkt": fields.PacketRecord,
        },
        settable=QUEUE_SETTABLE,
        env=("par", "switch", "links"),
        state=("PORT_STATE", "CLASS_STATE", "SWITCH_STATE", "PACKET_FIELDS"),
        gives={"port_at": "port", "class_of": "queue", "peek": "pkt waiting", "pop_tail": COMING},
    ),
    "routing": Rules(
        *(read_routing, ROUTING_HANDLERS, ROUTING_DECLARATIONS),
        engine={
            "port": RoutingPortRecord, "out": RoutingPortRecord, "switch": RouterRecord,
            "side": fields.PortChoiceRecord, "row": fields.Declared, "pkt": fields.PacketRecord,
        },
        settable=ROUTING_SETTABLE,
        env=("par", "switch", "is_data"),
        state=("PORT_STATE", "SWITCH_STATE", "PLANE_STATE", "FLOW_TABLE", "PACKET_FIELDS"),
        gives={"egress": "out", "flow_row": "row"},
    ),
    "traffic": Rules(
        *(read_program, PROGRAM_HANDLERS, PROGRAM_DECLARATIONS),
        engine={"task": fields.ProgramTaskRecord, "host": fields.ProgramHostRecord},
        settable=PROGRAM_SETTABLE,
        env=("par", "host"),
        state=("HOST_STATE", "TASK_STATE"),
        gives={"task_at": "task"},
    ),
}  # fmt: skip


def check(plugin: Plugin, params: Mapping[str, Any]) -> None:
    """Check a plugin's declarations and handlers, if it has any; `params` are resolved.

    Raises InputError with the file and line of each mistake.
    """
    numbers: Mapping[str, Any]
    if plugin.kind not in RULES or getattr(plugin.module, "CLOSED_FORM", False):
        return
    if plugin.kind != "traffic":
        numbers = plugin_parameters(plugin, params)
    elif is_program(plugin.module):
        numbers = program_parameters(plugin, params)
    else:
        return
    types = tuple((name, type(value)) for name, value in numbers.items())
    raise_all(_errors(plugin.kind, plugin.module, plugin.name, types))


@lru_cache(maxsize=192)
def _errors(
    kind: str, module: ModuleType, name: str, types: tuple[tuple[str, type], ...]
) -> tuple[InputError, ...]:
    """Return the mistakes in a file. Cached: parameter types rarely differ within a sweep."""
    rules = RULES[kind]
    functions = (*rules.handlers, "flows") if kind == "traffic" else rules.handlers
    found = list(_lookalikes(module, functions, rules.declarations))
    try:
        plugin = rules.read(module, {param: number() for param, number in types}, name)
        own = {handler: function for handler, function in plugin.handlers.items()
               if function is not rules.handlers[handler].default}  # fmt: skip
        for function in functions_of(module, own.values()):
            if isinstance(function, FunctionType) and not function.__module__.startswith(CORRECT):
                names = [handler for handler, one in own.items() if one is function]
                row = rules.handlers[names[0]] if names else None
                found += _Function(rules, plugin, module, function, row).mistakes()
    except InputError as error:
        found += error.errors
    except RecursionError:
        hint = "split the statement"
        found.append(InputError("is nested too deeply", file=module.__file__, hint=hint))
    return tuple(sorted(found, key=_by_line)[:MAX_MISTAKES])


def _by_line(error: InputError) -> tuple[int, str]:
    return len(str(error.file)), str(error.file)


class _Function:
    """A handler, or a function that handlers call."""

    def __init__(
        self,
        rules: Rules,
        plugin: Any,
        module: ModuleType,
        function: FunctionType,
        row: Handler | None,
    ) -> None:
        self.rules, self.row, self.node = rules, row, node_of(function)
        self.path = Path(function.__code__.co_filename)
        self.without_value = _returns_nothing(function)
        self.kinds = {"env": "env"} if row is None else rules.kinds(row, function)
        declared = [field for name in rules.state for field in getattr(module, name, ())]
        self.own = {field if isinstance(field, str) else field[0] for field in declared}
        self.settable = dict(rules.settable)
        self.hidden: set[str] = set()
        if "out" in rules.engine:  # the state of another port is known if ports are coupled
            self.hidden = set() if plugin.coupled else self.own
            self.settable |= {"out": rules.settable["port"]} if plugin.coupled else {}

    def mistakes(self) -> Iterator[InputError]:
        """Yield the function's mistakes."""
        if self.node is None:
            return
        parts = list(inside(self.node))
        self._learn(parts)
        for part in parts:
            match part:
                case ast.Attribute(value=base, attr=name, ctx=ast.Load()):
                    yield from self._read(part, base, name)
                case (
                    ast.Attribute(value=base, attr=name)
                    | ast.Subscript(
                        value=base, slice=ast.Constant(value=str(name)), ctx=ast.Store()
                    )
                ):
                    yield from self._set(part, base, name)
                case ast.Subscript(value=ast.Attribute(value=base, attr=name), ctx=ast.Store()):
                    yield from self._set(part, base, name)
                case ast.Subscript(value=base, ctx=ast.Store()):
                    if self.kind(base).startswith("env."):
                        yield from self._set(part, ENV, self.kind(base).removeprefix("env."))
        if self.row is not None and self.row.returns and self.without_value:
            returns = (part for part in parts if isinstance(part, ast.Return))
            end = next((part for part in returns if part.lineno in self.without_value), self.node)
            how = "ends without returning" if end is self.node else "returns nothing"
            hint = f"it must return {self.row.returns}"
            yield self._wrong(end, f"{self.row.name} {how}", hint)

    def _learn(self, parts: list[ast.AST]) -> None:
        """Note the kinds of variables whose values are all of one kind."""
        for part in parts:
            match part:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.NamedExpr(target=ast.Name(id=name), value=value)
                ):
                    kind = self.kind(value)
                    self.kinds[name] = kind if self.kinds.get(name, kind) == kind else ""

    def kind(self, node: ast.expr) -> str:
        """Return the kind of record of an expression, "env.NAME" for an array of `env`, or "" if
        unknown."""
        match node:
            case ast.Name(id=name):
                return self.kinds.get(name, "")
            case ast.Attribute(value=base, attr=name) if self.kind(base) == "env":
                is_record = name in (*self.rules.engine, "par") and name not in self.rules.sides
                return name if is_record else f"env.{name}"
            case ast.Subscript(value=base):
                side = self.kind(base).removeprefix("env.")
                return side if side in self.rules.sides else ""
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                return self.rules.gives.get(name, "")
            case ast.NamedExpr(value=value):
                return self.kind(value)
        return ""

    def _read(self, part: ast.expr, base: ast.expr, name: str) -> Iterator[InputError]:
        kind = self.kind(base)
        if kind == "env" and name not in self.rules.env:
            yield self._wrong(part, f"env has no {name}", f"it has {', '.join(self.rules.env)}")
        if kind == "out" and name in self.hidden:
            yield self._wrong(part, f"the output has no field {name}", "COUPLED = True")

    def _set(self, part: ast.expr, base: ast.expr, name: str) -> Iterator[InputError]:
        kind, written = self.kind(base), f"{ast.unparse(base)}.{name}"
        if kind == "env":
            hint = CHANGED_BY.get(name, "only fields of records can be set")
            yield self._wrong(part, f"env.{name} belongs to the engine", hint)
        elif kind == "par":
            hint = f"keep state in {', '.join(self.rules.state)}"
            yield self._wrong(part, f"{written} is constant in a run", hint)
        elif name in self._forbidden(kind):
            allowed = (*self.settable.get(kind, ()), "the fields that the file declares")
            hint = f"a handler may set {', '.join(allowed)}"
            yield self._wrong(part, f"{written} belongs to the engine", hint)
        else:
            yield from self._read(part, base, name)

    def _forbidden(self, kind: str) -> set[str]:
        """Return the fields of a record that must not be set; of an unknown record, the fields that
        must not be set in any record."""
        records = self.rules.engine
        if kind:
            record = records.get(kind.partition(" ")[0])
            return set(fields_of(record) if record else ()) - set(self.settable.get(kind, ()))
        every = {name for record in records.values() for name in fields_of(record)}
        return every - self.own - {name for names in self.settable.values() for name in names}

    def _wrong(self, part: ast.AST, message: str, hint: str) -> InputError:
        return at_line(self.path, getattr(part, "lineno", 1), message, hint)


def _returns_nothing(function: FunctionType) -> set[int | None]:
    """Return the lines in which a function returns None. Python has removed unreachable code."""
    steps = list(dis.get_instructions(function))
    return {
        step.positions and step.positions.lineno
        for before, step in pairwise(steps)
        if (step.opname == "RETURN_CONST" and step.argval is None)
        or (step.opname, before.opname, before.argval) == ("RETURN_VALUE", "LOAD_CONST", None)
    }


def _lookalikes(
    module: ModuleType, handlers: Collection[str], declarations: Collection[str]
) -> Iterator[InputError]:
    """Yield errors for unused functions and constants named almost like the engine's, which would
    ignore them. Names that begin with an underscore are never errors."""
    path = str(module.__file__)
    tree = tree_of(path) or ast.Module([], [])
    used = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    for name, line, is_function in _defined(tree):
        known = handlers if is_function else declarations
        if name in used or name in known or name.startswith("_"):
            continue
        plain = {_plain(other): other for other in known}
        close = difflib.get_close_matches(_plain(name), plain, n=1, cutoff=ALIKE)
        if close or (is_function and name.startswith("on_")):
            what = "handler" if is_function else "declaration"
            hint = did_you_mean(name, [plain[close[0]]] if close else known)
            yield at_line(Path(path), line, f"{name} is not a {what} and is unused", hint)


def _defined(tree: ast.Module) -> Iterator[tuple[str, int, bool]]:
    """Yield the name and line of each module-level definition, and whether it is a function."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, True
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for name in (one for target in targets for one in ast.walk(target)):
                if isinstance(name, ast.Name):
                    yield name.id, name.lineno, False


def _plain(name: str) -> str:
    return name.lower().replace("_", "")
