"""Groups of arrays in compiled code: each is passed as one address.

Numba passes a tuple of arrays as seven numbers per array. A group does not change during a call,
so its numbers are in memory (`specialize.py`) and functions pass the address. Loads are marked
invariant, so that LLVM keeps a number in a register across stores to arrays that might alias.

Code that plugins share (`bindings.SHARED`) knows some fields of a record and not its size, so it
copies as many bytes as an item of the array has.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import register_default
from numba.core.datamodel.models import OpaqueModel
from numba.core.imputils import lower_builtin, lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import NativeValue, unbox
from numba.np import arrayobj

INT64 = ir.IntType(64)
ADDRESS = ir.IntType(8).as_pointer()


class Reference(types.Type):  # type: ignore[misc] # mypy skips Numba
    """The address of a group of arrays."""

    def __init__(self, group: types.BaseNamedTuple) -> None:
        self.group = group
        super().__init__(f"reference({group.instance_class.__name__})")

    @property
    def key(self) -> int:
        """Numba's number of the group's type, since comparing the types of its arrays is slow."""
        number: int = self.group._code
        return number


register_default(Reference)(OpaqueModel)


def interface_type(kind: types.Type) -> types.Type:
    """Return the type by which an entry point or a unit takes an argument."""
    kind = types.unliteral(kind)
    if isinstance(kind, types.Integer):
        return types.int64
    return Reference(kind) if isinstance(kind, types.BaseNamedTuple) else kind


@unbox(Reference)  # type: ignore[untyped-decorator]
def _address(_: Reference, number: Any, c: Any) -> NativeValue:
    """Python passes an address as an integer."""
    return NativeValue(c.pyapi.long_as_voidptr(number))


@infer_getattr
class _Members(AttributeTemplate):  # type: ignore[misc]
    """Type of ``links.pool``; a group within a group is a reference too."""

    key = Reference

    def generic_resolve(self, reference: Reference, name: str) -> types.Type | None:
        group = reference.group
        if name not in group.fields:
            return None
        return interface_type(group.types[group.fields.index(name)])


@lower_getattr_generic(Reference)  # type: ignore[untyped-decorator]
def _member(context: Any, builder: Any, reference: Reference, place: Any, name: str) -> Any:
    group = reference.group
    index = group.fields.index(name)
    kind = group.types[index]
    words = builder.bitcast(place, INT64.as_pointer())
    words = builder.gep(words, [ir.Constant(INT64, sum(map(_n_words, group.types[:index])))])
    if isinstance(kind, types.BaseNamedTuple):
        return builder.bitcast(words, ADDRESS)
    if not isinstance(kind, types.Array):
        return _load(builder, words, INT64)
    model = context.data_model_manager[kind]
    array = ir.Constant(model.get_value_type(), None)

    def put(word: int, field: str, *within: int) -> None:
        nonlocal array
        position = (model.get_field_position(field), *within)
        part = array.type
        for i in position:
            part = part.elements[i] if isinstance(part, ir.LiteralStructType) else part.element
        at = builder.gep(words, [ir.Constant(INT64, word)])
        array = builder.insert_value(array, _load(builder, at, part), position)

    put(0, "data")
    put(1, "nitems")
    put(2, "itemsize")
    for axis in range(kind.ndim):
        put(3 + axis, "shape", axis)
        put(3 + kind.ndim + axis, "strides", axis)
    return array


def _n_words(kind: types.Type) -> int:
    """Return how many numbers a member of a group has."""
    if isinstance(kind, types.BaseNamedTuple):
        return sum(map(_n_words, kind.types))
    return 3 + 2 * kind.ndim if isinstance(kind, types.Array) else 1


def _load(builder: Any, place: Any, kind: Any) -> Any:
    number = builder.load(builder.bitcast(place, kind.as_pointer()))
    number.set_metadata("invariant.load", builder.module.add_metadata([]))
    return number


@lower_builtin(  # type: ignore[untyped-decorator]
    operator.setitem, types.Array, types.Integer, types.Record
)
def _copy_record(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Copy a whole record. Shared code, whose arrays have any stride, knows only a part of it."""
    kind, index, _ = signature.args
    if kind.layout != "A":
        return arrayobj.setitem_array(context, builder, signature, args)
    array = arrayobj.make_array(kind)(context, builder, args[0])
    at = (kind, array, (index,), (args[1],))
    place, *_ = arrayobj.basic_indexing(
        context, builder, *at, boundscheck=context.enable_boundscheck
    )
    cgutils.raw_memmove(builder, place, args[2], ir.Constant(INT64, 1), array.itemsize)
    return context.get_dummy_value()
