"""Operations of ranks, noted one call after the other, with many in a call."""

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
from netsim.workloads.operations.noted import UNIT, Collective, Messages, Noted
from netsim.workloads.operations.wires import Wires

Ints = NDArray[np.int64]

IN_NETWORK = "in_network"
"""The algorithm that takes a reduction unit."""


class Operations:
    """What `n_ranks` ranks do.

    Operations of one stream of a rank (0 and more) run one after the other, in the order in which
    they were noted unless `set_order` says otherwise; those of stream -1 whenever what they wait
    for is done. A stream may hold operations of all sorts.

    Arguments that are of each operation are arrays of one shape, or lone values for all; what comes
    back are the numbers of the operations, in that shape. Times are in ps, sizes in bytes. A
    `label` is one text, or one for each operation. Most mistakes are told when all is lowered.
    """

    def __init__(self, n_ranks: int) -> None:
        self._noted = Noted(n_ranks)

    @property
    def n_ranks(self) -> int:
        return self._noted.n_ranks

    def __len__(self) -> int:
        return self._noted.n_operations

    def compute(
        self,
        rank: ArrayLike,
        duration_ps: ArrayLike,
        stream: ArrayLike = 0,
        label: str | Sequence[str] = "",
        kind: str = "",
    ) -> Any:
        """Ranks compute for so long. Returns int64, the operations."""
        rank, duration_ps, stream = np.broadcast_arrays(rank, duration_ps, stream)
        return self._noted.add(
            rank, what="compute", stream=stream, duration_ps=duration_ps, kind=kind, label=label
        )

    def join(self, rank: ArrayLike, stream: ArrayLike = -1, label: str | Sequence[str] = "") -> Any:
        """What takes no time: it is done when all that it waits for is. Returns int64."""
        rank, stream = np.broadcast_arrays(rank, stream)
        return self._noted.add(rank, what="join", stream=stream, label=label)

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
        """Ranks `src` send a message each to ranks `dst`.

        `latency_ps`, the time that software takes, pass before a message goes. Returns int64, the
        operations at the source, which end as the message is handed over to the network, and those
        at the destination, which end as it is delivered.
        """
        src, dst, size_bytes, stream, receive_stream, latency_ps = np.broadcast_arrays(
            src, dst, size_bytes, stream, receive_stream, latency_ps
        )
        common: dict[str, Any] = {"kind": kind, "label": label, "size_bytes": size_bytes, "n": 2}
        common["group"] = self._noted.new_groups(src.size).reshape(src.shape)
        sent = self._noted.add(src, what="send", stream=stream, duration_ps=latency_ps, **common)
        received = self._noted.add(dst, what="receive", stream=receive_stream, **common)
        self._noted.messages.append(
            Messages(
                self._noted.n_operations - 2 * src.size, src.size, len(self._noted.batches) - 2
            )
        )
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
        """The ranks of each of `groups`, int[g, n] (or int[n], one group), do `what` together.

        `size_bytes` (see `netsim.workloads.collectives`) is of all groups or int64[g] of each; of
        an
        all-to-all int64[n, n] or int64[g, n, n] say what goes from each position to each other one,
        and where that is nothing no message goes. `how` is the name of an algorithm, or all
        options.

        With `duration_ps` no packets are sent: each rank is busy for so long in that stream.

        Returns int64 of the shape of `groups`, the operation of each rank: it begins when what it
        waits for at that rank is done, and ends as everything for the rank has been delivered and
        all that it sends is handed over to the network.
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
        made = self._noted.add(
            of_group,
            what=what,
            stream=stream,
            duration_ps=0 if duration_ps is None else np.broadcast_to(duration_ps, of_group.shape),
            kind=kind,
            label=label,
            size_bytes=np.broadcast_to(of_rank, of_group.shape),
            n=n,
            group=np.broadcast_to(self._noted.new_groups(g)[:, None], of_group.shape),
        )
        if duration_ps is None:
            batch = len(self._noted.batches) - 1
            call = Collective(batch, what, g, n, sizes, how, has_unit)
            self._noted.collectives.append(call)
        return made[:, :n].reshape(ranks.shape)

    def after(self, first: ArrayLike, then: ArrayLike) -> None:
        """Operations `then` start after `first` have ended, of the same rank each."""
        self._noted.after.append(_pairs(first, then))

    def after_start(self, first: ArrayLike, then: ArrayLike) -> None:
        """Operations `then` start after `first` have started, of the same rank each."""
        self._noted.after_start.append(_pairs(first, then))

    def set_order(self, operations: ArrayLike, order: ArrayLike) -> None:
        """In their streams, operations run by ascending `order`, which is 0 of all others.

        Those of one order run as they were noted.
        """
        self._noted.order.append(_pairs(operations, order))

    def lower(
        self,
        hosts: ArrayLike,
        classes: Mapping[str, int] | None = None,
        reduction: Reduction | None = None,
        wires: Wires | None = None,
    ) -> Workload:
        """All of it as tasks and flows, rank r at `hosts[r]` and kind k in class `classes[k]`.

        Collectives of algorithm "in_network" take `reduction`, what the network has for them, and
        those of "auto" what is fastest on the network's `wires`.

        Raises:
            InputError: naming the operation at fault and what is wrong with it: also if operations
                wait, through streams and messages, for one another.
        """
        return lower(self._noted, hosts, classes or {}, reduction, wires)


def _with_unit(ranks: NDArray[Any], of_unit: Any) -> NDArray[Any]:
    """Columns of each rank of a group and, behind them, that of its unit."""
    return np.concatenate([ranks, np.full((len(ranks), 1), of_unit, ranks.dtype)], axis=1)


def _pairs(one: ArrayLike, other: ArrayLike) -> tuple[Ints, Ints]:
    first, then = np.broadcast_arrays(np.asarray(one, np.int64), np.asarray(other, np.int64))
    return first.reshape(-1), then.reshape(-1)
