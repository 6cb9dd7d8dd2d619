"""Report functions that cannot be specialized, with file and line, before Numba sees them.

Numba's own errors would point elsewhere, or it would compile something else.
"""

from __future__ import annotations

import dis
import inspect
import types
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from netsim.errors import InputError
from netsim.inputs import at_line

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
            raise _refused(function, what, hint)
    if code.co_kwonlyargcount:
        names = code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]
        hint = "remove the * in front of them"
        raise _refused(function, f"has keyword-only arguments: {', '.join(names)}", hint)
    for line, name in _set_outside(code):
        raise at_line(Path(code.co_filename), line, f"{name} cannot be set by a handler", STATE)


def calls_itself(function: types.FunctionType) -> InputError:
    """Return the error for direct or indirect recursion."""
    return _refused(function, "calls itself", LOOP)


def contents(function: types.FunctionType) -> tuple[object, ...]:
    """Return the contents of a function's closure. Raises InputError for a name without a value."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    found = []
    for name, cell in cells:
        try:
            found.append(cell.cell_contents)
        except ValueError:
            raise _refused(
                function, f"uses {name} before it has a value", "define it first"
            ) from None
    return tuple(found)


def _refused(function: types.FunctionType, what: str, hint: str) -> InputError:
    code = function.__code__
    place = Path(code.co_filename), code.co_firstlineno
    return at_line(*place, f"{function.__name__} {what}, which cannot be compiled", hint)


@cache
def _set_outside(code: types.CodeType) -> tuple[tuple[int, str], ...]:
    """Return the lines in which a function, or one within it, sets outer names, and the names.

    Cached, since each engine asks for all its functions.
    """
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
