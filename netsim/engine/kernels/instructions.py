"""Machine instructions and a clock that Numba lacks, with stand-ins for plain Python.

`prefetch` loads a record early: a switch has more rings than a processor's prefetcher follows, so
nearly every packet of a busy port would be a cache miss. `word_of` reads a field that is chosen
only when a run begins.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np


def prefetch(array: Any, index: int) -> None:
    """Prefetch ``array[index]``; a no-op in plain Python."""


def lowest_bit(bits: int) -> int:
    """Return the index of the lowest set bit of a nonzero word."""
    return (int(bits) & -int(bits)).bit_length() - 1


def take_tickets(tickets: Any, n: int) -> int:
    """Add ``n`` to ``tickets[0]`` atomically; return the old value."""
    first = int(tickets[0])
    tickets[0] = first + n
    return first


def read_clock_ns() -> int:
    """Return a monotonic clock in nanoseconds."""
    return time.monotonic_ns()


def bit_length(number: int) -> int:
    """Return the number of bits of a positive number."""
    return number.bit_length()


def word_of(records: Any, index: int, word: int) -> int:
    """Return the 64 bits of ``records[index]`` from byte ``8 * word`` on."""
    array = np.asarray(records)
    return int(array.view(np.int64)[index * (array.itemsize // 8) + word])


def write_behind(table: Any, row: int, values: Any) -> None:
    """Write whole numbers, of any types, to a row of ``table`` after its first column."""
    for column, value in enumerate(values, 1):
        table[row, column] = operator.index(value)


def _item_address(context: Any, builder: Any, array_type: Any, array: Any, *index: Any) -> Any:
    from numba.core import cgutils

    struct = context.make_array(array_type)(context, builder, array)
    return cgutils.get_item_pointer(context, builder, array_type, struct, index, wraparound=False)


@cache
def compiled_prefetch() -> Callable[..., Any]:
    """Return `prefetch` for compiled code."""
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator] # mypy skips Numba
    def instruction(typing_context: Any, array: Any, index: Any) -> tuple[Any, Any]:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            address = _item_address(context, builder, signature.args[0], *args)
            byte_pointer = ir.IntType(8).as_pointer()
            int32 = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [byte_pointer, int32, int32, int32])
            function = builder.module.declare_intrinsic("llvm.prefetch", [byte_pointer], kind)
            # For writing, keep in all caches, data: the operands after the address.
            operands = [ir.Constant(int32, value) for value in (1, 3, 1)]
            builder.call(function, [builder.bitcast(address, byte_pointer), *operands])
            return context.get_dummy_value()

        return types.void(array, types.int64), codegen

    chosen: Callable[..., Any] = instruction
    return chosen


@cache
def compiled_lowest_bit() -> Callable[..., Any]:
    """Return `lowest_bit` for compiled code."""
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator] # mypy skips Numba
    def instruction(typing_context: Any, bits: Any) -> tuple[Any, Any]:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            of_zero_too = ir.Constant(ir.IntType(1), 0)
            return builder.cttz(args[0], of_zero_too)

        return types.int64(types.int64), codegen

    chosen: Callable[..., Any] = instruction
    return chosen


@cache
def compiled_take_tickets() -> Callable[..., Any]:
    """Return `take_tickets` for compiled code: one atomic addition."""
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator] # mypy skips Numba
    def instruction(typing_context: Any, tickets: Any, n: Any) -> tuple[Any, Any]:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            first = ir.Constant(ir.IntType(64), 0)
            address = _item_address(context, builder, signature.args[0], args[0], first)
            return builder.atomic_rmw("add", address, args[1], "monotonic")

        return types.int64(tickets, types.int64), codegen

    chosen: Callable[..., Any] = instruction
    return chosen


@cache
def compiled_read_clock_ns() -> Callable[..., Any]:
    """Return `read_clock_ns` for compiled code: one call of the C library, about 25 ns."""
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator] # mypy skips Numba
    def instruction(typing_context: Any) -> tuple[Any, Any]:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            int32, int64 = ir.IntType(32), ir.IntType(64)
            moment = cgutils.alloca_once(builder, ir.ArrayType(int64, 2))
            kind = ir.FunctionType(int32, [int32, moment.type])
            function = cgutils.get_or_insert_function(builder.module, kind, "clock_gettime")
            builder.call(function, [ir.Constant(int32, time.CLOCK_MONOTONIC), moment])
            seconds, nanoseconds = (
                builder.load(cgutils.gep_inbounds(builder, moment, 0, index)) for index in (0, 1)
            )
            return builder.add(builder.mul(seconds, ir.Constant(int64, 10**9)), nanoseconds)

        return types.int64(), codegen

    chosen: Callable[..., Any] = instruction
    return chosen


@cache
def compiled_bit_length() -> Callable[..., Any]:
    """Return `bit_length` for compiled code."""
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator] # mypy skips Numba
    def instruction(typing_context: Any, number: Any) -> tuple[Any, Any]:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            int64 = ir.IntType(64)
            never_zero = ir.Constant(ir.IntType(1), 1)
            return builder.sub(ir.Constant(int64, 64), builder.ctlz(args[0], never_zero))

        return types.int64(types.int64), codegen

    chosen: Callable[..., Any] = instruction
    return chosen


@cache
def compiled_word_of() -> Callable[..., Any]:
    """Return `word_of` for compiled code: one load."""
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator] # mypy skips Numba
    def instruction(typing_context: Any, records: Any, index: Any, word: Any) -> tuple[Any, Any]:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            record = _item_address(context, builder, signature.args[0], *args[:2])
            words = builder.bitcast(record, ir.IntType(64).as_pointer())
            return builder.load(builder.gep(words, [args[2]]))

        return types.int64(records, types.int64, types.int64), codegen

    chosen: Callable[..., Any] = instruction
    return chosen


@cache
def compiled_write_behind() -> Callable[..., Any]:
    """Return `write_behind` for compiled code: a store per number."""
    from llvmlite import ir
    from numba import types
    from numba.core.errors import TypingError
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator] # mypy skips Numba
    def instruction(typing_context: Any, table: Any, row: Any, values: Any) -> tuple[Any, Any]:
        if not all(isinstance(kind, types.Integer | types.Boolean) for kind in values):
            raise TypingError("log_row() is given what is no whole number")

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            for k, kind in enumerate(values):
                column = ir.Constant(ir.IntType(64), k + 1)
                address = _item_address(context, builder, table, args[0], args[1], column)
                value = builder.extract_value(args[2], k)
                builder.store(context.cast(builder, value, kind, types.int64), address)
            return context.get_dummy_value()

        return types.void(table, types.int64, values), codegen

    chosen: Callable[..., Any] = instruction
    return chosen


INSTRUCTIONS: dict[Callable[..., Any], Callable[[], Callable[..., Any]]] = {
    bit_length: compiled_bit_length,
    lowest_bit: compiled_lowest_bit,
    prefetch: compiled_prefetch,
    read_clock_ns: compiled_read_clock_ns,
    take_tickets: compiled_take_tickets,
    word_of: compiled_word_of,
    write_behind: compiled_write_behind,
}
"""Stand-in -> function that returns its compiled form."""
