"""The compiled form of each function of `kernels/instructions.py`."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

from netsim.engine.compiling.cache import variable_of
from netsim.engine.compiling.groups import interface_type
from netsim.engine.kernels import instructions

INSTRUCTIONS: dict[Callable[..., Any], Any] = {}  # stand-in -> compiled form
INT1, INT32, INT64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
BYTES = ir.IntType(8).as_pointer()


def _instead_of(
    stand_in: Callable[..., Any], signature: Callable[..., Any]
) -> Callable[[Callable[..., Any]], None]:
    """Compile a function of `kernels/instructions.py` to the instructions that the decorated
    function writes. ``signature`` returns its type for Numba's context and the types of its
    arguments."""

    def declare(codegen: Callable[..., Any]) -> None:
        @intrinsic  # type: ignore[untyped-decorator] # mypy skips Numba
        @wraps(signature)  # Numba counts its arguments
        def form(*given: Any) -> tuple[Any, Any]:
            return signature(*given), codegen

        INSTRUCTIONS[stand_in] = form

    return declare


def unit_call(name: str, tag: str) -> Any:
    """Return a function that calls the unit ``name`` through a variable of the code ``tag``, which
    is set when the code is loaded."""

    def call(_: Any, a: Any, b: Any, c: Any, d: Any, worker: Any, node: Any) -> tuple[Any, Any]:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            of_result, of_args = signature.return_type, signature.args
            kind = context.call_conv.get_function_type(of_result, of_args)
            unit = _through_variable(builder.module, kind, variable_of(name, tag))
            status, result = context.call_conv.call_function(
                builder, unit, of_result, of_args, args
            )
            with cgutils.if_unlikely(builder, status.is_error):
                context.call_conv.return_status_propagate(builder, status)
            return result

        return types.int64(*map(interface_type, (a, b, c, d, worker, node))), codegen

    return intrinsic(call)


def _through_variable(module: Any, kind: Any, name: str) -> Any:
    """Return a function of type ``kind`` that calls the one at the address in a variable."""
    if (known := module.globals.get(f"{name}.call")) is not None:
        return known
    variable = cgutils.add_global_variable(module, kind.as_pointer(), name)
    variable.linkage = "common"  # so that LLVM assumes neither its value nor that it is unused
    variable.initializer = cgutils.get_null_value(kind.as_pointer())
    function = ir.Function(module, kind, f"{name}.call")
    function.linkage = "linkonce_odr"
    builder = ir.IRBuilder(function.append_basic_block())
    builder.ret(builder.call(builder.load(variable), function.args))
    return function


def _item_address(context: Any, builder: Any, array_type: Any, array: Any, *index: Any) -> Any:
    struct = context.make_array(array_type)(context, builder, array)
    return cgutils.get_item_pointer(context, builder, array_type, struct, index, wraparound=False)


def _first(context: Any, builder: Any, array_type: Any, array: Any) -> Any:
    """Return the address of an array's first entry."""
    return _item_address(context, builder, array_type, array, ir.Constant(INT64, 0))


@_instead_of(instructions.prefetch, lambda _, array, _index: types.void(array, types.int64))
def _prefetch(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    address = _item_address(context, builder, signature.args[0], *args)
    kind = ir.FunctionType(ir.VoidType(), [BYTES, INT32, INT32, INT32])
    function = builder.module.declare_intrinsic("llvm.prefetch", [BYTES], kind)
    # The operands after the address: for writing, all caches, data.
    operands = [ir.Constant(INT32, value) for value in (1, 3, 1)]
    builder.call(function, [builder.bitcast(address, BYTES), *operands])
    return context.get_dummy_value()


@_instead_of(instructions.lowest_bit, lambda _, _number: types.int64(types.int64))
def _lowest_bit(_: Any, builder: Any, __: Any, args: Any) -> Any:
    of_zero_too = ir.Constant(INT1, 0)
    return builder.cttz(args[0], of_zero_too)


@_instead_of(instructions.bit_length, lambda _, _number: types.int64(types.int64))
def _bit_length(_: Any, builder: Any, __: Any, args: Any) -> Any:
    never_zero = ir.Constant(INT1, 1)
    return builder.sub(ir.Constant(INT64, 64), builder.ctlz(args[0], never_zero))


@_instead_of(instructions.take_tickets, lambda _, tickets, _n: types.int64(tickets, types.int64))
def _take_tickets(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """One atomic addition."""
    address = _first(context, builder, signature.args[0], args[0])
    return builder.atomic_rmw("add", address, args[1], "seq_cst")


@_instead_of(instructions.read_shared, lambda _, numbers: types.int64(numbers))
def _read_shared(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """One atomic load."""
    address = _first(context, builder, signature.args[0], args[0])
    return builder.load_atomic(address, "seq_cst", 8)


@_instead_of(instructions.write_shared, lambda _, numbers, _value: types.void(numbers, types.int64))
def _write_shared(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """One atomic store."""
    address = _first(context, builder, signature.args[0], args[0])
    builder.store_atomic(args[1], address, "seq_cst", 8)
    return context.get_dummy_value()


@_instead_of(instructions.sleep_ns, lambda _, _ns: types.void(types.int64))
def _sleep_ns(context: Any, builder: Any, _: Any, args: Any) -> Any:
    """One call of the C library."""
    moment = cgutils.alloca_once(builder, ir.ArrayType(INT64, 2))
    for index, value in enumerate((ir.Constant(INT64, 0), args[0])):
        builder.store(value, cgutils.gep_inbounds(builder, moment, 0, index))
    kind = ir.FunctionType(INT32, [moment.type, moment.type])
    function = cgutils.get_or_insert_function(builder.module, kind, "nanosleep")
    builder.call(function, [moment, ir.Constant(moment.type, None)])
    return context.get_dummy_value()


@_instead_of(instructions.read_clock_ns, lambda _: types.int64())
def _read_clock_ns(_: Any, builder: Any, __: Any, ___: Any) -> Any:
    """One call of the C library, about 25 ns."""
    moment = cgutils.alloca_once(builder, ir.ArrayType(INT64, 2))
    kind = ir.FunctionType(INT32, [INT32, moment.type])
    function = cgutils.get_or_insert_function(builder.module, kind, "clock_gettime")
    builder.call(function, [ir.Constant(INT32, time.CLOCK_MONOTONIC), moment])
    seconds, nanoseconds = (
        builder.load(cgutils.gep_inbounds(builder, moment, 0, index)) for index in (0, 1)
    )
    return builder.add(builder.mul(seconds, ir.Constant(INT64, 10**9)), nanoseconds)


@_instead_of(
    instructions.word_of,
    lambda _, records, _index, _word: types.int64(records, types.int64, types.int64),
)
def _word_of(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """One load."""
    record = _item_address(context, builder, signature.args[0], *args[:2])
    words = builder.bitcast(record, INT64.as_pointer())
    return builder.load(builder.gep(words, [args[2]]))


def _of_row(_: Any, table: Any, row: Any, values: Any) -> Any:
    if not all(isinstance(kind, types.Integer | types.Boolean) for kind in values):
        raise TypingError("log_row() takes whole numbers only")
    return types.void(table, types.int64, values)


@_instead_of(instructions.write_behind, _of_row)
def _write_behind(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """A store per number."""
    table, _, values = signature.args
    for k, kind in enumerate(values):
        column = ir.Constant(INT64, k + 1)
        address = _item_address(context, builder, table, args[0], args[1], column)
        value = builder.extract_value(args[2], k)
        builder.store(context.cast(builder, value, kind, types.int64), address)
    return context.get_dummy_value()
