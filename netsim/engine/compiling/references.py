"""Groups of arrays are handed from function to function by reference.

Numba passes a tuple of arrays as some seven numbers for each array. A kernel that takes all groups
had more than four hundred arguments: half of what a first run took went into compiling these, and
each call that is not inlined copied them. Groups do not change during a call, so one that a kernel
is called with is written down once, and from there on functions hand on where. To their text it is
what it was: ``wires.pool`` is an array.

What is read by a reference is marked as never changing, so that LLVM keeps it in a register beyond
writes to arrays that might be the same memory, for all it knows. That holds only from when it was
written: LLVM is not told that the address it is given is that of what it has just written.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import register_default
from numba.core.datamodel.models import OpaqueModel
from numba.core.imputils import lower_cast, lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr

from netsim.engine.kernels.layout import Clock, Ends, Net, Scratch, Wires
from netsim.engine.kernels.trace import Trace

GROUPS = (Net, Wires, Ends, Clock, Scratch, Trace)

ADDRESS = ir.IntType(8).as_pointer()

OF_NUMBA = 2
"""The first two fields of an array in compiled code, for who frees it; kernels never do."""


class Reference(types.Type):  # type: ignore[misc] # mypy skips Numba
    """Where a group of arrays stands."""

    def __init__(self, group: types.NamedTuple) -> None:
        self.group = group
        super().__init__(f"reference({group.instance_class.__name__})")

    @property
    def key(self) -> int:
        """Numba's number for the type of the group: to compare its arrays' types takes long."""
        number: int = self.group._code
        return number


register_default(Reference)(OpaqueModel)


def by_reference(kind: types.Type) -> types.Type:
    """The type by which a function is handed a value of type ``kind``."""
    is_group = isinstance(kind, types.NamedTuple) and kind.instance_class in GROUPS
    return Reference(kind) if is_group else kind


@infer_getattr
class _Members(AttributeTemplate):  # type: ignore[misc]
    """What ``wires.pool`` is; a group within a group is a reference again."""

    key = Reference

    def generic_resolve(self, reference: Reference, name: str) -> types.Type | None:
        group = reference.group
        if name not in group.fields:
            return None
        return by_reference(group.types[group.fields.index(name)])


@lower_getattr_generic(Reference)  # type: ignore[untyped-decorator]
def _member(context: Any, builder: Any, reference: Reference, place: Any, name: str) -> Any:
    group = reference.group
    index = group.fields.index(name)
    kind = group.types[index]
    members = builder.bitcast(place, context.get_value_type(group).as_pointer())
    member = cgutils.gep_inbounds(builder, members, 0, index)
    if isinstance(by_reference(kind), Reference):
        return builder.bitcast(member, ADDRESS)
    return _read(builder, member, OF_NUMBA if isinstance(kind, types.Array) else 0)


def _read(builder: Any, place: Any, first: int = 0) -> Any:
    """What stands at an address, number by number: those that are not used will not be read.

    The fields before the ``first`` are left empty.
    """
    kind = place.type.pointee
    if not isinstance(kind, ir.LiteralStructType | ir.ArrayType):
        number = builder.load(place)
        number.set_metadata("invariant.load", builder.module.add_metadata([]))
        return number
    value = ir.Constant(kind, None)
    for i in range(first, len(kind)):
        part = _read(builder, cgutils.gep_inbounds(builder, place, 0, i))
        value = builder.insert_value(value, part, i)
    return value


@lower_cast(types.NamedTuple, Reference)  # type: ignore[untyped-decorator]
def _refer(context: Any, builder: Any, group: types.NamedTuple, _: Reference, value: Any) -> Any:
    """Write a group down; what comes back is its address, of which LLVM knows nothing."""
    place = cgutils.alloca_once(builder, context.get_value_type(group))
    builder.store(value, place)
    same = ir.FunctionType(ADDRESS, [ADDRESS])
    address = builder.bitcast(place, ADDRESS)
    return builder.asm(same, "", "=r,0,~{memory}", [address], side_effect=True)
