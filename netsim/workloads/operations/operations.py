"""Operations of ranks, added in calls of one or many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError
from netsim.model.network import Reduction
from netsim.model.workload import Workload
from netsim.workloads.collectives import CollectiveOptions, check_algorithm
from netsim.workloads.operations.lower import lower
from netsim.workloads.operations.noted import UNIT, Collective, Messages, NotedOperations
from netsim.workloads.operations.wires import Wires

Ints = NDArray[np.int64]

IN_NETWORK = "in_network"
"""The algorithm that needs a reduction unit."""


class Operations(NotedOperations):
    """The operations of `n_ranks` ranks.

    Operations of one stream of a rank (0 and up) run in sequence, in the order in which they were
    added unless `set_order` changes it; those of stream -1 run when their dependencies are done. A
    stream may mix operations of all types.

    Arguments per operation are arrays of one shape, or single values for all; methods return
    operation indices in that shape. Times are in ps, sizes in bytes. A `label` is one text, or one
    per operation. Most errors are reported by `lower`.
    """

    def compute(
        self,
        rank: ArrayLike,
        duration_ps: ArrayLike,
        stream: ArrayLike = 0,
        label: str | Sequence[str] = "",
        kind: str = "",
    ) -> Any:
        """Add computations of `duration_ps`. Returns int64, the operations."""
        rank, duration_ps, stream = np.broadcast_arrays(rank, duration_ps, stream)
        return self._add(
            rank, what="compute", stream=stream, duration_ps=duration_ps, kind=kind, label=label
        )

    def join(self, rank: ArrayLike, stream: ArrayLike = -1, label: str | Sequence[str] = "") -> Any:
        """Add operations that take no time and end with their dependencies. Returns int64."""
        rank, stream = np.broadcast_arrays(rank, stream)
        return self._add(rank, what="join", stream=stream, label=label)

    def send(
        self,
        src: ArrayLike,
        dst: ArrayLike,
        size_bytes: ArrayLike,
        stream: ArrayLike = -1,
        receive_stream: ArrayLike = -1,
        kind: str = "pp",
        latency_ps: ArrayLike = 0,
        label: str | Sequence[str] = "",
    ) -> tuple[Any, Any]:
        """Add messages from ranks `src` to ranks `dst`.

        `latency_ps` is the software time before a message. Returns int64 twice: operations at the
        source, which end when the message has left, and at the destination, which end with its
        delivery.
        """
        src, dst, size_bytes, stream, receive_stream, latency_ps = np.broadcast_arrays(
            src, dst, size_bytes, stream, receive_stream, latency_ps
        )
        common: dict[str, Any] = {"kind": kind, "label": label, "size_bytes": size_bytes, "n": 2}
        common["group"] = self._new_groups(src.size).reshape(src.shape)
        sent = self._add(src, what="send", stream=stream, duration_ps=latency_ps, **common)
        received = self._add(dst, what="receive", stream=receive_stream, **common)
        first, batch = len(self) - 2 * src.size, len(self._batches) - 2
        self.messages.append(Messages(first, src.size, batch))
        return sent, received

    def collective(
        self,
        what: str,
        groups: ArrayLike,
        size_bytes: ArrayLike,
        how: CollectiveOptions | str = "auto",
        stream: ArrayLike = -1,
        kind: str = "",
        duration_ps: ArrayLike | None = None,
        label: str | Sequence[str] = "",
    ) -> Any:
        """Add collectives of `groups`, int[g, n] (or int[n], one group).

        `size_bytes` (see `netsim.workloads.collectives`) is one value or int64[g]. For an
        all-to-all, int64[n, n] or int64[g, n, n] give the bytes between each pair of positions; 0
        sends no message. `how` is the name of an algorithm, or all options. With `duration_ps` no
        packets are sent: each rank is busy for that time in its stream.

        Returns int64 in the shape of `groups`, each rank's operation: it begins when its
        dependencies at that rank are done, and ends when everything for the rank is delivered and
        all of its sends have left.
        """
        how = CollectiveOptions(how) if isinstance(how, str) else how
        ranks = np.asarray(groups, np.int64)
        of_group = np.atleast_2d(ranks)
        g, n = of_group.shape
        sizes = np.asarray(size_bytes, np.int64)
        if sizes.ndim > 1 and (what != "all_to_all" or sizes.shape[-2:] != (n, n)):
            shape = "x".join(map(str, sizes.shape))
            raise InputError(f"sizes of {shape} for a {what} of {n} ranks")
        check_algorithm(what, how)
        has_unit = how.algorithm == IN_NETWORK and n > 1 and duration_ps is None
        stream = np.broadcast_to(stream, of_group.shape)
        if has_unit:
            of_group, stream = _with_unit(of_group, UNIT), _with_unit(stream, -1)
            if not isinstance(label, str):
                label = _with_unit(np.array(label, object).reshape(g, n), "").reshape(-1).tolist()
        of_rank = sizes.sum(-1) if sizes.ndim > 1 else sizes[..., None]
        made = self._add(
            of_group,
            what=what,
            stream=stream,
            duration_ps=0 if duration_ps is None else np.broadcast_to(duration_ps, of_group.shape),
            kind=kind,
            label=label,
            size_bytes=np.broadcast_to(of_rank, of_group.shape),
            n=n,
            group=np.broadcast_to(self._new_groups(g)[:, None], of_group.shape),
        )
        if duration_ps is None:
            first, batch = len(self) - made.size, len(self._batches) - 1
            self.collectives.append(Collective(first, batch, what, g, n, sizes, how, has_unit))
        return made[:, :n].reshape(ranks.shape)

    def after(self, first: ArrayLike, then: ArrayLike) -> None:
        """Make operations `then` start after `first` end, each pair at one rank."""
        self.ends.append(_pairs(first, then))

    def after_start(self, first: ArrayLike, then: ArrayLike) -> None:
        """Make operations `then` start after `first` start, each pair at one rank."""
        self.starts.append(_pairs(first, then))

    def set_order(self, operations: ArrayLike, order: ArrayLike) -> None:
        """Run operations of a stream by ascending `order`, 0 by default, ties as added."""
        self.orders.append(_pairs(operations, order))

    def lower(
        self,
        hosts: ArrayLike,
        classes: Mapping[str, int] | None = None,
        reduction: Reduction | None = None,
        wires: Wires | None = None,
    ) -> Workload:
        """Return all operations as tasks and flows, rank r at `hosts[r]` and kind k in class
        `classes[k]`.

        `reduction` describes the network's units for "in_network" collectives; `wires` lets "auto"
        choose for the network.

        Raises InputError, naming the operation, for invalid operations and dependency cycles.
        """
        return lower(self, hosts, classes or {}, reduction, wires)


def _with_unit(ranks: NDArray[Any], of_unit: Any) -> NDArray[Any]:
    """Append a unit's column to those of a group's ranks."""
    return np.concatenate([ranks, np.full((len(ranks), 1), of_unit, ranks.dtype)], axis=1)


def _pairs(one: ArrayLike, other: ArrayLike) -> tuple[Ints, Ints]:
    first, then = np.broadcast_arrays(np.asarray(one, np.int64), np.asarray(other, np.int64))
    return first.reshape(-1), then.reshape(-1)
