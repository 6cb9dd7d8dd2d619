"""Numba patch: compile functions for 64-bit integers and for references to groups of arrays.

Numba compiles a function again for each constant and each narrower integer that a caller passes,
and passes a tuple of arrays as seven numbers per array. Groups do not change during a call, so a
group is written to memory once, and functions pass its address.

Loads through a reference are marked invariant, so that LLVM keeps the value in a register across
stores to arrays that might alias. That holds only after the group is written, so LLVM must not see
where the address comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import register_default
from numba.core.datamodel.models import OpaqueModel
from numba.core.dispatcher import Dispatcher
from numba.core.imputils import lower_cast, lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr

from netsim.engine.kernels.layout import Clock, Crew, HostState, LinkState, Net, Scratch
from netsim.engine.kernels.trace import Trace

GROUPS: tuple[type, ...] = (Net, LinkState, HostState, Clock, Crew, Scratch, Trace)

ADDRESS = ir.IntType(8).as_pointer()

OF_NUMBA = 2  # an array's first two fields in compiled code are for its owner; kernels free nothing


class Reference(types.Type):  # type: ignore[misc] # mypy skips Numba
    """The address of a group of arrays."""

    def __init__(self, group: types.NamedTuple) -> None:
        self.group = group
        super().__init__(f"reference({group.instance_class.__name__})")

    @property
    def key(self) -> int:
        """Numba's number of the group's type: comparing the types of its arrays is slow."""
        number: int = self.group._code
        return number


register_default(Reference)(OpaqueModel)


def by_reference(kind: types.Type) -> types.Type:
    """Return the type by which a value of type ``kind`` is passed."""
    is_group = isinstance(kind, types.NamedTuple) and kind.instance_class in GROUPS
    return Reference(kind) if is_group else kind


def interface_type(kind: types.Type) -> types.Type:
    """Return the type by which a unit takes an argument: an address, or an int64."""
    kind = by_reference(types.unliteral(kind))
    return kind if isinstance(kind, Reference) else types.int64


@infer_getattr
class _Members(AttributeTemplate):  # type: ignore[misc]
    """Type of ``links.pool``; a group within a group is a reference too."""

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
    """Load the value at an address number by number, so that unused numbers are not loaded. The
    fields before ``first`` stay empty."""
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
    """Store a group and return its address, with its origin hidden from LLVM."""
    place = cgutils.alloca_once(builder, context.get_value_type(group))
    builder.store(value, place)
    same = ir.FunctionType(ADDRESS, [ADDRESS])
    address = builder.bitcast(place, ADDRESS)
    return builder.asm(same, "", "=r,0,~{memory}", [address], side_effect=True)


def is_supported() -> bool:
    """Return whether this Numba has what the patch replaces."""
    return hasattr(Dispatcher, "get_call_template")


@contextmanager
def also_by_reference(group: type) -> Iterator[None]:
    """Pass another kind of group by reference."""
    global GROUPS  # noqa: PLW0603
    before, GROUPS = GROUPS, (*GROUPS, group)
    try:
        yield
    finally:
        GROUPS = before


def widen_arguments(dispatcher: Any) -> None:
    """Compile a function once for all integer types of its callers, and for references."""
    template: Callable[..., Any] = dispatcher.get_call_template

    def wide_template(args: Any, kws: Any) -> Any:
        return template(tuple(map(_wide, args)), {k: _wide(v) for k, v in kws.items()})

    dispatcher.get_call_template = wide_template


def _wide(arg: Any) -> Any:
    """Return the type to compile for: int64 for every integer type that fits in it."""
    arg = types.unliteral(arg)
    narrower = isinstance(arg, types.Integer) and arg != types.uint64
    return types.int64 if narrower else by_reference(arg)
