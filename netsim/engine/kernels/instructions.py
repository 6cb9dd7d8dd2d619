"""What Numba has no name for, with stand-ins for plain Python: instructions and a clock.

`prefetch` asks the processor for a record before it is needed: a ring is read and written
in order, but a switch has hundreds of them, more than the processor's own prefetcher
follows, so that nearly every packet of a busy port would be waited for.

`lowest_bit` finds the first of a set of things that are bits of a word.

`take_tickets` hands out numbers to workers that run at the same time.

`read_clock_ns` is there for profiles (profile.py), `bit_length` and `word_of` for series
(series.py): which fields of a record are kept is known when a run begins, not when it is compiled.

`write_behind` is for the rows of a program's log, whose numbers may be of several types.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np


def prefetch(array: Any, index: int) -> None:
    """``array[index]`` will soon be read or written. In plain Python, nothing."""


def lowest_bit(bits: int) -> int:
    """The number of the lowest bit that is set; one has to be."""
    return (int(bits) & -int(bits)).bit_length() - 1


def take_tickets(tickets: Any, n: int) -> int:
    """``tickets[0]``, which is ``n`` more afterwards; no two workers get the same numbers."""
    first = int(tickets[0])
    tickets[0] = first + n
    return first


def read_clock_ns() -> int:
    """Nanoseconds on a clock that only goes forward, since some moment in the past."""
    return time.monotonic_ns()


def bit_length(number: int) -> int:
    """Bits of a number above 0, without those that are 0 in front."""
    return number.bit_length()


def word_of(records: Any, index: int, word: int) -> int:
    """The 64 bits of ``records[index]`` that begin at its byte ``8 * word``."""
    array = np.asarray(records)
    return int(array.view(np.int64)[index * (array.itemsize // 8) + word])


def write_behind(table: Any, row: int, values: Any) -> None:
    """Write whole numbers to a row of ``table``, behind its first column."""
    for column, value in enumerate(values, 1):
        table[row, column] = operator.index(value)


def _item_address(context: Any, builder: Any, array_type: Any, array: Any, *index: Any) -> Any:
    from numba.core import cgutils

    struct = context.make_array(array_type)(context, builder, array)
    return cgutils.get_item_pointer(context, builder, array_type, struct, index, wraparound=False)


@cache
def compiled_prefetch() -> Callable[..., Any]:
    """`prefetch` for compiled code."""
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
            # For writing, to be kept in all caches, data: the three operands after the address.
            operands = [ir.Constant(int32, value) for value in (1, 3, 1)]
            builder.call(function, [builder.bitcast(address, byte_pointer), *operands])
            return context.get_dummy_value()

        return types.void(array, types.int64), codegen

    chosen: Callable[..., Any] = instruction
    return chosen


@cache
def compiled_lowest_bit() -> Callable[..., Any]:
    """`lowest_bit` for compiled code."""
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
    """`take_tickets` for compiled code: one atomic addition."""
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
    """`read_clock_ns` for compiled code: one call of the C library, some 25 ns."""
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
    """`bit_length` for compiled code."""
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
    """`word_of` for compiled code: one load."""
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
    """`write_behind` for compiled code: a store for each number."""
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
"""What gives the instruction itself, in place of its stand-in."""
