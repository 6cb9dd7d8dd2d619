"""Types of the kernels' numbers: distinct for mypy, plain int at run time.

A wrong kind of number (a local port for a global one, a pool slot for a timer) would cause no
error. mypy knows a type for each, and the type of their sums: a node's first port plus a local port
is a global port. `Slot(n)` converts like ``int(n)``, also in compiled code, and costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar, overload

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

Constant = TypeVar("Constant")
Fixed = Annotated[Constant, "fixed"]
"""A field or an array that no run changes: a snapshot must have what the engine has."""

if TYPE_CHECKING:
    from typing import SupportsIndex, SupportsInt

    Key = TypeVar("Key")
    Value = TypeVar("Value")

    class LocalPort(int):
        """A port of a node, from 0."""

    class Origin(int):
        """How a packet came in: ``port * CLASSES + class``, with a local port."""

    class GlobalPort:
        """A port of the whole network. Not an int, because most sums with one are mistakes."""

        def __init__(self, number: SupportsInt | SupportsIndex) -> None: ...
        def __index__(self) -> int: ...
        def __add__(self, local: LocalPort) -> GlobalPort: ...
        def __sub__(self, first: GlobalPort) -> LocalPort: ...
        def __lt__(self, other: GlobalPort) -> bool: ...

    class Address(int):
        """A port of a host by one routing table: a packet's destination."""

    class QueueId(int):
        """The queue of one class at one port (`indexing.queue_of`)."""

    class Slot(int):
        """A packet's slot in the pool."""

        def __add__(self, slots: int, /) -> Slot: ...

    class Block(int):
        """A block of slots of the pool."""

    class TimerSlot(int):
        """A timer, among those of all hosts."""

        def __add__(self, timers: int, /) -> TimerSlot: ...
        def __sub__(self, timers: int, /) -> TimerSlot: ...

    class FlowId(int):
        """A flow."""

    class TaskId(int):
        """A task; a host's tasks are consecutive."""

    class NodeId(int):
        """A host or a switch; hosts come first."""

        def __add__(self, nodes: int, /) -> NodeId: ...

    class HostId(NodeId):
        """A host, which is a node."""

    class NicId(int):
        """A NIC, among those of all hosts."""

    class Ps(int):
        """A time or a duration in picoseconds."""

        def __add__(self, duration: int, /) -> Ps: ...
        def __sub__(self, other: int, /) -> Ps: ...

    class Bytes(int):
        """Bytes, on the wire unless stated otherwise."""

        def __add__(self, other: int, /) -> Bytes: ...
        def __sub__(self, other: int, /) -> Bytes: ...

    class Narrow:
        """A packet field as read: convert it to an int (a `Slot`, ...) before use."""

        def __int__(self) -> int: ...

    class I4:
        """A signed 32-bit packet field."""

        def __get__(self, packet: object, kind: object) -> Narrow: ...
        def __set__(self, packet: object, number: int) -> None: ...

    class U2(I4):
        """A 16-bit packet field."""

    class U1(I4):
        """An 8-bit packet field."""

    class Numbers(np.ndarray[Any, np.dtype[Any]], Generic[Key, Value]):
        """An array of numbers: a ``Value`` for each ``Key``."""

        @overload  # type: ignore[override]
        def __getitem__(self, key: Key, /) -> Value: ...
        @overload
        def __getitem__(self, key: slice | Array, /) -> Array: ...
        def __getitem__(self, key: Any, /) -> Any: ...
        def __setitem__(self, key: Key | slice, value: Value | Array, /) -> None: ...  # type: ignore[override]

    class Records(np.ndarray[Any, np.dtype[Any]], Generic[Key, Value]):
        """An array of records, one for each ``Key``; a field name selects a column."""

        @overload  # type: ignore[override]
        def __getitem__(self, key: Key, /) -> Value: ...
        @overload
        def __getitem__(self, key: str | slice | Array, /) -> Array: ...
        def __getitem__(self, key: Any, /) -> Any: ...
        def __setitem__(self, key: Key | slice, value: Value | Array, /) -> None: ...  # type: ignore[override]

    class span(Iterable[Key]):  # noqa: N801
        """``range`` over typed numbers."""

        def __init__(self, first: Key, end: Key) -> None: ...
        def __iter__(self) -> Iterator[Key]: ...

else:
    LocalPort = Origin = GlobalPort = Address = QueueId = Slot = Block = TimerSlot = int
    FlowId = TaskId = NodeId = HostId = NicId = int
    Ps = Bytes = I4 = U2 = U1 = int
    Numbers = Records = np.ndarray
    span = range

NO_PORT = LocalPort(-1)
NO_TIMER = TimerSlot(-1)
NO_FLOW = FlowId(-1)
NO_TASK = TaskId(-1)  # none of each kind
