"""What the numbers are that kernels compute with: mypy tells them apart, to all else they are int.

A port has a number in the network and one at its node, a packet has a slot in the pool, a
timer one among the timers, and times and sizes are numbers as well; nothing goes wrong at once
where one is taken for another. So mypy sees a type for each, and knows what comes of their sums:
a node's first port and a local port make a port of the network, for instance. At run time every
one is the built-in ``int``, so that `Slot(n)` converts as ``int(n)`` does, in compiled code too,
and costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

if TYPE_CHECKING:
    from typing import SupportsIndex, SupportsInt

    Key = TypeVar("Key")
    Value = TypeVar("Value")

    class LocalPort(int):
        """A port counted among those of its node, from 0."""

    class GlobalPort:
        """A port counted among those of the network. No int: sums with one are mistakes."""

        def __init__(self, number: SupportsInt | SupportsIndex) -> None: ...
        def __index__(self) -> int: ...
        def __add__(self, local: LocalPort) -> GlobalPort: ...
        def __sub__(self, first: GlobalPort) -> LocalPort: ...
        def __lt__(self, other: GlobalPort) -> bool: ...

    class Address(int):
        """A port of a host by one routing table: what packets are addressed to."""

    class QueueId(int):
        """The queue of one class at one port; see `indices.queue_of`."""

    class Slot(int):
        """Where a packet lies in the pool."""

        def __add__(self, slots: int, /) -> Slot: ...

    class TimerSlot(int):
        """A timer, counted among those of all hosts."""

        def __add__(self, timers: int, /) -> TimerSlot: ...
        def __sub__(self, timers: int, /) -> TimerSlot: ...

    class FlowId(int):
        """A flow."""

    class TaskId(int):
        """A task; those of a host are side by side."""

    class NodeId(int):
        """A host or a switch; hosts come first."""

        def __add__(self, nodes: int, /) -> NodeId: ...

    class HostId(NodeId):
        """A host, which is a node."""

    class NicId(int):
        """A NIC, counted among those of all hosts."""

    class Ps(int):
        """A time or a duration in picoseconds."""

        def __add__(self, duration: int, /) -> Ps: ...
        def __sub__(self, other: int, /) -> Ps: ...

    class Bytes(int):
        """Bytes, on the wire unless something else is said."""

        def __add__(self, other: int, /) -> Bytes: ...
        def __sub__(self, other: int, /) -> Bytes: ...

    class Narrow:
        """What a packet's field reads as: to be made an int (a `Slot`, ...) before it is used."""

        def __int__(self) -> int: ...

    class I4:
        """A packet's field of 32 bits with a sign."""

        def __get__(self, packet: object, kind: object) -> Narrow: ...
        def __set__(self, packet: object, number: int) -> None: ...

    class U2(I4):
        """A packet's field of 16 bits."""

    class U1(I4):
        """A packet's field of 8 bits."""

    class Numbers(np.ndarray[Any, np.dtype[Any]], Generic[Key, Value]):
        """An array of numbers, a ``Value`` for each ``Key``."""

        @overload  # type: ignore[override]
        def __getitem__(self, key: Key, /) -> Value: ...
        @overload
        def __getitem__(self, key: slice | Array, /) -> Array: ...
        def __getitem__(self, key: Any, /) -> Any: ...
        def __setitem__(self, key: Key | slice, value: Value | Array, /) -> None: ...  # type: ignore[override]

    class Records(np.ndarray[Any, np.dtype[Any]], Generic[Key, Value]):
        """An array of records, one for each ``Key``; a name gives a field of all of them."""

        @overload  # type: ignore[override]
        def __getitem__(self, key: Key, /) -> Value: ...
        @overload
        def __getitem__(self, key: str | slice | Array, /) -> Array: ...
        def __getitem__(self, key: Any, /) -> Any: ...
        def __setitem__(self, key: Key | slice, value: Value | Array, /) -> None: ...  # type: ignore[override]

    class span(Iterable[Key]):  # noqa: N801
        """``range``, of numbers that are more than int."""

        def __init__(self, first: Key, end: Key) -> None: ...
        def __iter__(self) -> Iterator[Key]: ...

else:
    LocalPort = GlobalPort = Address = QueueId = Slot = TimerSlot = FlowId = TaskId = NodeId = int
    HostId = NicId = int
    Ps = Bytes = I4 = U2 = U1 = int
    Numbers = Records = np.ndarray
    span = range

NO_PORT = LocalPort(-1)
NO_TIMER = TimerSlot(-1)
NO_SLOT = Slot(-1)
NO_FLOW = FlowId(-1)
NO_TASK = TaskId(-1)
"""None of them."""
