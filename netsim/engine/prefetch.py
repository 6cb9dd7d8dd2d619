"""Ask the processor for a record before it is needed.

A ring is read and written in order, but a switch has hundreds of them, more than the
processor's own prefetcher follows, so that nearly every packet of a busy port would be
waited for. In plain Python `prefetch` does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any


def prefetch(array: Any, index: int) -> None:
    """``array[index]`` will soon be read or written."""


@cache
def compiled_prefetch() -> Callable[..., Any]:
    """The same as one machine instruction, for compiled code."""
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    @intrinsic
    def instruction(typing_context, array, index):  # type: ignore[no-untyped-def]
        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            struct = context.make_array(signature.args[0])(context, builder, args[0])
            address = cgutils.get_item_pointer(
                context, builder, signature.args[0], struct, [args[1]], wraparound=False
            )
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
