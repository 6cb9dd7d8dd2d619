"""Flows: sources, destinations, sizes, start times and dependencies."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.common.memory import require_room
from netsim.errors import InputError
from netsim.frozen import frozen
from netsim.model.columns import (
    Flags,
    Ints,
    Waiting,
    column_of,
    find_cycle,
    first_of,
    join_names,
)

FLOW_BYTES = 200  # memory per flow while its table is built: six columns and their sources


@frozen
class TrafficContext:
    """Data for a traffic pattern in addition to its parameters and the network."""

    directory: Path  # of the experiment file; relative file names are relative to it
    seed: int  # of the run
    host_rate_bps: int  # line rate of a host
    # payload_bytes, header_bytes: of a full data packet
    payload_bytes: int = 4096
    header_bytes: int = 64
    n_traffic_classes: int | None = None  # traffic classes of the fabric, None if unknown
    # end of the run, if it is measured ([measure]): until then, open-loop traffic starts flows
    end_ps: int | None = None
    # whether links lose packets, or fail or change their rate during the run
    has_faults: bool = False

    def reserve(self, n_flows: float, *, key: str = "traffic") -> None:
        """Announce a number of flows before creating arrays of that size. Raises InputError,
        naming `key`, if they do not fit into memory."""
        require_room(n_flows * FLOW_BYTES, what=f"{n_flows:,.0f} flows", key=key)


COLUMNS = ("src", "dst", "size_bytes", "start_ps", "cls", "nic")  # columns of every table of flows


class FlowTable(Waiting):
    """A table of n flows; a flow is identified by its row.

    The constructor takes integers of any type. Sources are an array or list of n; everywhere else a
    single number applies to all flows.

    Attributes:
        src, dst: int32[n], hosts.
        size_bytes: int64[n], payload.
        start_ps: int64[n], start; for a flow that waits for others, the delay after the last of
            them.
        after_ptr, after: int64[n + 1], int64[m], or None if no flow waits. Flow f starts when all
            of `after[after_ptr[f]:after_ptr[f + 1]]` are complete.
        cls: int16[n], traffic class.
        nic: int16[n], source NIC; -1 (default, see `use_nics`): the fastest that reaches the
            destination.
        kind, kinds: int16[n] and names; flow f is of kind `kinds[kind[f]]`, such as "tp", by which
            an experiment may choose its transport. None and () unless `use_kinds` is called.
        table, tables: int16[n] and names; the data of flow f uses the network's routing table
            `tables[table[f]]`, or if that is "" the one that the network's rules choose. None and
            () unless `use_tables` is called.
        label: a text for each flow, or None.
        queue_pairs: int64[2, n], for messages sent over several flows: the first flow of each
            flow's message, and its number among them, from 0. None if each message is a flow.
        unanswered: bool[n], flows of transports that send nothing back and need no route there;
            None unless `need_no_answers` is called.
    """

    noun = "flow"

    def __init__(
        self,
        src: ArrayLike,
        dst: ArrayLike,
        size_bytes: ArrayLike,
        start_ps: ArrayLike = 0,
        after_ptr: ArrayLike | None = None,
        after: ArrayLike | None = None,
        cls: ArrayLike = 0,
        label: Sequence[str] | None = None,
    ) -> None:
        def column(values: ArrayLike, dtype: type, name: str, size: int) -> Any:
            return column_of(values, size, dtype, f"flow table: {name}")

        n = np.asarray(src).size
        self.src: NDArray[np.int32] = column(np.atleast_1d(src), np.int32, "src", n)
        self.dst: NDArray[np.int32] = column(dst, np.int32, "dst", n)
        self.size_bytes: Ints = column(size_bytes, np.int64, "size_bytes", n)
        self.start_ps: Ints = column(start_ps, np.int64, "start_ps", n)
        self.cls: NDArray[np.int16] = column(cls, np.int16, "cls", n)
        self.use_nics(-1)
        self.kind: NDArray[np.int16] | None = None
        self.kinds: tuple[str, ...] = ()
        self.table: NDArray[np.int16] | None = None
        self.tables: tuple[str, ...] = ()
        self.queue_pairs: Ints | None = None
        self.unanswered: Flags | None = None
        if (after_ptr is None) != (after is None):
            raise InputError("a flow table needs both after_ptr and after, or neither")
        if after_ptr is not None and after is not None:
            self.after_ptr = column(after_ptr, np.int64, "after_ptr", n + 1)
            self.after = column(after, np.int64, "after", np.size(after))
        if label is not None and len(label) != n:
            raise InputError(f"a flow table has {len(label)} labels for {n} flows")
        self.label: Sequence[str] | None = label

    @staticmethod
    def join(tables: Sequence[FlowTable]) -> FlowTable:
        """Concatenate tables; flows wait for flows of their own table."""
        if len(tables) == 1:
            return tables[0]
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(table, name) for table in tables]) for name in COLUMNS
        }
        nics = columns.pop("nic")
        joined = FlowTable(**columns)
        joined.use_nics(nics)
        if any(table.kind is not None for table in tables):
            joined.use_kinds(*join_names([table.named_kinds() for table in tables]))
        if any(table.table is not None for table in tables):
            joined.use_tables(*join_names([table.named_tables() for table in tables]))
        if any(table.label is not None for table in tables):
            joined.label = [text for table in tables for text in (table.label or [""] * len(table))]
        if any(table.after_ptr is not None for table in tables):
            first = np.cumsum([0, *map(len, tables)]).tolist()
            edges = [np.add(table.edges(), k) for table, k in zip(tables, first, strict=False)]
            joined.wait_for_pairs(*np.concatenate(edges, axis=1))
        return joined

    def with_sizes(self, size_bytes: Ints) -> FlowTable:
        """Return the flows with other sizes, int64[n]; the same table if no size changes."""
        if np.array_equal(size_bytes, self.size_bytes):
            return self
        table = copy(self)
        table.size_bytes = np.array(size_bytes)
        return table

    def take(self, rows: Ints) -> FlowTable:
        """Return a table of some flows, int64[n], without their dependencies."""
        table = copy(self)
        table.after_ptr = table.after = None
        for name in COLUMNS:
            setattr(table, name, getattr(self, name)[rows])
        for name in ("kind", "table", "unanswered"):
            column = getattr(self, name)
            setattr(table, name, None if column is None else column[rows])
        table.label = None if self.label is None else [self.label[k] for k in rows.tolist()]
        return table

    def __len__(self) -> int:
        return int(self.src.size)

    @property
    def n_flows(self) -> int:
        return len(self)

    @property
    def total_bytes(self) -> int:
        return int(self.size_bytes.sum())

    def waits_at_source(self) -> Flags:
        """Return, for each of `after`, whether its flow waits only for deliveries at its
        own source. The source can then start it without a message."""
        awaited, waiter = self.edges()
        away = waiter[self.dst[awaited] != self.src[waiter]]
        here: Flags = np.bincount(away, minlength=len(self))[waiter] == 0
        return here

    def starts_at_time(self) -> Flags:
        """Return bool[n], whether a flow waits for no other."""
        waits = self.after_ptr is not None and np.diff(self.after_ptr) > 0
        return np.broadcast_to(~np.asarray(waits), len(self)).copy()

    def need_no_answers(self, which: ArrayLike) -> None:
        """Set which flows (bool[n]) have transports that send nothing back."""
        which = np.asarray(which, bool)
        self.unanswered = which if which.any() else None

    def use_nics(self, nic: ArrayLike) -> None:
        """Set the source NIC of each flow; -1: the fastest."""
        self.nic: NDArray[np.int16] = column_of(nic, len(self), np.int16, "flow table: nic")

    def use_kinds(self, kind: ArrayLike, kinds: Sequence[str]) -> None:
        """Set the kind of each flow f to `kinds[kind[f]]`."""
        self.kind = self._of_names(kind, kinds, "kind")
        self.kinds = tuple(kinds)

    def use_tables(self, table: ArrayLike, tables: Sequence[str]) -> None:
        """Set the routing table of the data of each flow f to `tables[table[f]]`; "" sets none."""
        self.table = self._of_names(table, tables, "table")
        self.tables = tuple(tables)

    def _of_names(self, index: ArrayLike, names: Sequence[str], what: str) -> NDArray[np.int16]:
        """Return a column of indices into names. Raises InputError if one has no name."""
        column: NDArray[np.int16] = column_of(index, len(self), np.int16, f"flow table: {what}")
        for flow in first_of((column < 0) | (column >= len(names))):
            raise InputError(f"flow {flow}: {what} {column[flow]} has no name")
        return column

    def named_kinds(self) -> tuple[NDArray[np.int16], tuple[str, ...]]:
        """Return the kind of each flow and the names of kinds; flows without one have ""."""
        if self.kind is None:
            return np.zeros(len(self), np.int16), ("",)
        return self.kind, self.kinds

    def named_tables(self) -> tuple[NDArray[np.int16], tuple[str, ...]]:
        """Return the routing table of each flow and the names of tables; "" for flows that name
        none."""
        if self.table is None:
            return np.zeros(len(self), np.int16), ("",)
        return self.table, self.tables

    def validate(self, n_hosts: int) -> None:
        """Raise InputError for the first flow that is invalid in a network of n_hosts hosts."""
        if not len(self):
            raise InputError("the traffic has no flows")
        for column, what in ((self.src, "source"), (self.dst, "destination")):
            for flow in first_of((column < 0) | (column >= n_hosts)):
                raise InputError(
                    f"flow {flow}: {what} {column[flow]} does not exist "
                    f"(hosts are 0..{n_hosts - 1})"
                )
        for flow in first_of(self.src == self.dst):
            raise InputError(f"flow {flow}: sends to itself (host {self.src[flow]})")
        for flow in first_of(self.size_bytes < 1):
            raise InputError(f"flow {flow}: size must be positive, not {self.size_bytes[flow]}")
        for flow in first_of(self.start_ps < 0):
            raise InputError(f"flow {flow}: start is negative ({self.start_ps[flow]} ps)")
        for flow in first_of(self.nic < -1):
            raise InputError(f"flow {flow}: NIC {self.nic[flow]} does not exist")
        for flow in first_of((self.cls < 0) | (self.cls > 7)):
            raise InputError(f"flow {flow}: traffic class {self.cls[flow]} is out of range (0..7)")
        self.check_edges()
        # Flows that wait only for earlier ones form no cycle.
        after, waiter = self.edges()
        if (after >= waiter).any():
            for stuck in find_cycle(len(self), waiter, after)[:1]:
                raise InputError(f"flow {stuck}: waits for itself through other flows")
