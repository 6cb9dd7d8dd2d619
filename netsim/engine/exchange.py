"""What leaves one part of a network for others, and what reaches it (`cut.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.engine.kernels.ids import Array
from netsim.engine.partition import FEW, Partition
from netsim.engine.records import RecordArray, aligned_zeros

if TYPE_CHECKING:
    from netsim.engine.engine import Engine
    from netsim.engine.ranks import Ranks

HAND_OVER, TAKE_OVER, LIST_DELIVERED, NOTE_DELIVERED = range(4)
"""Entry points of cut.py."""

SIZES = ("size_bytes", "n_packets", "last_bytes")
"""Fields of a flow that a program may set."""


class Exchange:
    """The exchange of a rank with its neighbors; with ``has_news`` with all others."""

    def __init__(
        self, engine: Engine, partition: Partition, ranks: Ranks, *, has_news: bool
    ) -> None:
        self._state, self._ranks, self._jit = engine.state, ranks, engine.jit
        self._entries, self._resizes = engine.of_cut, engine.program.resizes
        self._phase_driven = engine.feature_set.phase_driven
        self._cut, self._neighbors = partition.cut(), partition.neighbors(has_news=has_news)
        for box in ("outbox", "inbox"):
            self._make_room(box, FEW)

    def begin(self) -> None:
        """Begin with a new state: sizes in it are known to all."""
        self._sizes, self._n_begun = np.array(self._state.hosts.tx["size_bytes"]), -1

    def run(self) -> None:
        """Send what left this part to the ranks that it reaches, and receive what they send."""
        s, cut, ranks = self._state, self._cut, self._ranks
        if (n := self._run_cut(HAND_OVER, s.net, s.links, cut)) < 0:
            self._make_room("outbox", -n)
            cut = self._cut
            self._run_cut(HAND_OVER, s.net, s.links, cut)
        flows = cut.flows[: self._run_cut(LIST_DELIVERED, s.hosts, s.clock, cut)]
        delivered = np.stack([flows, np.asarray(s.hosts.rx)["done_ps"][flows]], axis=1)
        sizes = self._new_sizes()
        begins = np.concatenate([[0], np.cumsum(cut.sent)])
        headers, packets = {}, {}
        for rank, links in self._neighbors:
            counts = cut.sent[links]
            busy = np.flatnonzero(counts)
            lengths = [busy.size, busy.size, delivered.size, sizes.size]
            parts = (busy, counts[busy], delivered.reshape(-1), sizes.reshape(-1))
            headers[rank] = np.concatenate([lengths, *parts])
            packets[rank] = cut.outbox[begins[links.start] : begins[links.stop]]
        self._receive(ranks.swap(headers), packets)

    def _receive(self, headers: Mapping[int, Array], packets: Mapping[int, Array]) -> None:
        """Receive the packets that messages with ``headers`` announce, and send ``packets``."""
        s, cut = self._state, self._cut
        cut.received[:] = 0
        delivered = [np.zeros((0, 2), np.int64)]
        for rank, links in self._neighbors:
            lengths, rest = np.split(headers[rank], [4])
            busy, counts, flows, sizes = np.split(rest, np.cumsum(lengths)[:-1])
            cut.received[links][busy] = counts
            delivered.append(flows.reshape(-1, 2))
            self._set_sizes(sizes.reshape(-1, 1 + len(SIZES)))
        ends = np.concatenate([[0], np.cumsum(cut.received)])
        if ends[-1] > cut.inbox.shape[0]:
            self._make_room("inbox", int(ends[-1]))
            cut = self._cut
        into = {rank: cut.inbox[ends[of.start] : ends[of.stop]] for rank, of in self._neighbors}
        self._ranks.fill(_bytes(packets), _bytes(into))
        self._run_cut(TAKE_OVER, s.net, s.links, s.clock, cut)
        every = np.concatenate(delivered)
        if every.size or self._phase_driven:
            self._run_cut(NOTE_DELIVERED, s.net, s.links, s.hosts, s.clock, cut, every)

    def _new_sizes(self) -> Array:
        """Return the flows whose sizes the program has set here, with these sizes. It sets them
        before a flow starts, and receivers learn them when its first packet arrives."""
        n_begun = int(self._state.clock.clock["expected"][0])
        if not self._resizes or n_begun == self._n_begun:
            return np.zeros((0, 1 + len(SIZES)), np.int64)
        self._n_begun = n_begun
        tx = np.asarray(self._state.hosts.tx)
        changed = np.flatnonzero(tx["size_bytes"] != self._sizes)
        self._sizes[changed] = tx["size_bytes"][changed]
        return np.stack([changed, *(tx[name][changed] for name in SIZES)], axis=1)

    def _set_sizes(self, sizes: Array) -> None:
        """Learn sizes that other ranks have set."""
        tx = np.asarray(self._state.hosts.tx)
        for name, column in zip(SIZES, sizes.T[1:], strict=True):
            tx[name][sizes[:, 0]] = column
        if self._resizes:
            self._sizes[sizes[:, 0]] = sizes[:, 1]

    def _run_cut(self, number: int, *arguments: Any) -> Any:
        run = self._entries[number].run
        assert run is not None
        return run(*arguments)

    def load(self) -> None:
        """Load or compile the code of cut.py."""
        s, cut, none = self._state, self._cut, np.zeros((0, 2), np.int64)
        of_links = s.net, s.links, s.clock, cut
        of_flows = s.hosts, s.clock, cut
        arguments = (s.net, s.links, cut), of_links, of_flows, (s.net, s.links, *of_flows, none)
        for entry, given in zip(self._entries, arguments, strict=True):
            entry.prepare(*given)

    def _make_room(self, box: str, n: int) -> None:
        """Make room for ``n`` packets in the outbox or the inbox."""
        packets = aligned_zeros(1 << (n - 1).bit_length(), self._cut.outbox.dtype)
        given: Any = packets if self._jit else packets.view(RecordArray)
        self._cut = self._cut._replace(**{box: given})


def _bytes(packets: Mapping[int, Array]) -> dict[int, Array]:
    """Return the memory of packets as uint8[...], where there are any."""
    return {rank: one.view(np.uint8) for rank, one in packets.items() if one.size}
