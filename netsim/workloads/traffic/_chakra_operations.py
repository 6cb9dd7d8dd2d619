"""The nodes of Chakra traces as operations of ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.flows import Workload
from netsim.limits import HORIZON_PS, PS_BITS
from netsim.units import written
from netsim.workloads.importers.chakra import (
    COLLECTIVE,
    COLLECTIVES,
    COMP,
    MEM_LOAD,
    MEM_STORE,
    RECV,
    SEND,
    SUFFIX,
)
from netsim.workloads.importers.chakra_attributes import MISSING
from netsim.workloads.importers.matching import earliest
from netsim.workloads.operations import CollectiveOptions, Operations, Wires
from netsim.workloads.traffic._chakra_nodes import (
    OF_SHARDS,
    WHATS,
    Nodes,
    instances,
    messages,
    sized,
)

Ints = NDArray[np.int64]

CPU, GPU, COMMUNICATION = range(3)
"""Resources of a rank that run one node at a time; also stream numbers."""

ROOTED = ("REDUCE", "GATHER", "SCATTER", "BROADCAST")
"""Collectives with a root, which traces do not name."""

LABELED = 100_000
"""Largest number of operations that get their nodes' names as labels."""

P2P = "p2p"
"""Kind of point-to-point messages."""


@dataclass(frozen=True)
class ComputeRates:
    """Compute rates of a rank.

    Attributes:
        one_at_a_time: whether CPU, GPU and COMMUNICATION each run one node at a time.
        flops: operations per second; None: nodes take the time in the trace.
        memory_bps: memory bandwidth in bit/s; with `flops`.
        rate_bps: rate of hosts, to estimate the order in streams.
    """

    one_at_a_time: bool
    flops: float | None
    memory_bps: int | None
    rate_bps: int


class ChakraOperations:
    """Nodes as `Operations`; `made` is the operation of each, int64[N]."""

    def __init__(
        self, nodes: Nodes, rates: ComputeRates, hows: Mapping[str, CollectiveOptions]
    ) -> None:
        self.nodes, self.rates, self.hows = nodes, rates, hows
        self.name = written(nodes.traces[0].path.name.removesuffix(SUFFIX))
        self.ops = Operations(len(nodes.traces))
        self.made = np.full(len(nodes), -1, np.int64)
        self.collectives = instances(nodes)
        self.send, self.receive = messages(nodes)
        self.size = sized(nodes)
        self.duration_ps, self.by_roofline = self._durations()
        self.labels = self._labels()
        self._compute()
        self._exchange()
        for rows in self.collectives:
            self._communicate(rows)
        self.ops.after(self.made[nodes.first], self.made[nodes.then])
        if rates.one_at_a_time:
            self._share()

    def lower(self, hosts: Ints, wires: Wires) -> Workload:
        """Lower to tasks and flows. Raises InputError, with the nodes, for cycles."""
        load = self.ops.lower(hosts, reduction=wires.network.reduction, wires=wires)
        return replace(load, notes=tuple(self._notes()))

    def _durations(self) -> tuple[Ints, NDArray[np.bool_]]:
        """int64[N], compute times, and which of them come from the roofline."""
        of, rates = self.nodes, self.rates
        compute = of.kind == COMP
        lasts = np.where(compute, of.duration_ps, 0)
        by_roofline = compute & (of.numbers["num_ops"] > 0)
        if rates.flops is None:
            return lasts, by_roofline & False
        seconds = of.numbers["num_ops"] / rates.flops
        if rates.memory_bps is not None:
            moved = np.maximum(of.numbers["tensor_size"], 0) * 8 / rates.memory_bps
            seconds = np.maximum(seconds, moved)
        took = np.where(by_roofline, seconds, 0) * 1e12
        of.fail(took >= HORIZON_PS, "take 20 h or more by traffic.tflops")
        return np.where(by_roofline, np.rint(took).astype(np.int64), lasts), by_roofline

    def _stream(self, which: Ints) -> Any:
        """Return the stream of nodes that compute or communicate."""
        if not self.rates.one_at_a_time:
            return -1
        of = self.nodes
        on_cpu = of.numbers["is_cpu_op"][which] > 0
        return np.where(on_cpu, CPU, np.where(of.kind[which] == COMP, GPU, COMMUNICATION))

    def _compute(self) -> None:
        """Add nodes that compute, and those that only connect others."""
        of = self.nodes
        alone = ~np.isin(of.kind, (SEND, RECV, COLLECTIVE))
        lasts = np.flatnonzero(alone & (self.duration_ps > 0))
        self.made[lasts] = self.ops.compute(
            of.rank[lasts], self.duration_ps[lasts], self._stream(lasts), self._label(lasts)
        )
        joins = np.flatnonzero(alone & (self.duration_ps == 0))
        self.made[joins] = self.ops.join(of.rank[joins], label=self._label(joins))

    def _exchange(self) -> None:
        of = self.nodes
        far = of.rank[self.send] != of.rank[self.receive]
        send, receive = self.send[far], self.receive[far]
        self.made[send], self.made[receive] = self.ops.send(
            of.rank[send],
            of.rank[receive],
            np.maximum(self.size[send], 1),
            stream=self._stream(send),
            kind=P2P,
            label=self._label(send),
        )
        for which in (self.send[~far], self.receive[~far]):
            self.made[which] = self.ops.join(of.rank[which], label=self._label(which))
        self.ops.after(self.made[self.send[~far]], self.made[self.receive[~far]])

    def _communicate(self, rows: Ints) -> None:
        """Add the collectives of a process group: int64[g, n], each rank's node."""
        of, names = self.nodes, np.array(COLLECTIVES)
        kinds = names[of.numbers["comm_type"][rows[:, 0]]]
        for kind in dict.fromkeys(kinds.tolist()):
            these = rows[kinds == kind]
            what = WHATS[kind]
            shards = rows.shape[1] if kind in OF_SHARDS else 1
            self.made[these] = self.ops.collective(
                what,
                of.rank[these],
                self.size[these[:, 0]] * shards,
                self.hows[what],
                self._stream(these),
                what,
                label=self._label(these.reshape(-1)),
            )

    def _share(self) -> None:
        """Order nodes of streams by their earliest start without contention.

        The collectives of a group have the same order at all ranks, so that none deadlocks.
        """
        of, n = self.nodes, len(self.nodes)
        instance = np.arange(n)
        lag = self.duration_ps.copy()
        flight = np.maximum(self.size, 0) * (PS_BITS / self.rates.rate_bps)
        lag[self.send] = flight[self.send]
        begins = []
        for rows in self.collectives:
            own = n + np.arange(len(rows))
            n += len(rows)
            instance[rows] = own[:, None]
            begins.append((rows.reshape(-1), np.repeat(own, rows.shape[1])))
            lag = np.concatenate([lag, flight[rows[:, 0]].astype(np.int64)])
        first = instance[of.first]
        edges = [(first, of.then, lag[first]), (self.send, self.receive, lag[self.send])]
        edges += [(one, then, np.zeros(one.size, np.int64)) for one, then in begins]
        start, place = earliest(n, *(np.concatenate(side) for side in zip(*edges, strict=True)))
        order = np.empty(n, np.int64)
        order[np.lexsort((place, start))] = np.arange(n)
        self.ops.set_order(self.made, order[instance])

    def _labels(self) -> list[str] | None:
        if len(self.nodes) > LABELED:
            return None
        of = self.nodes
        names = [trace.labels() for trace in of.traces]
        places = zip(of.rank.tolist(), of.local.tolist(), strict=True)
        return [names[rank][local] for rank, local in places]

    def _label(self, which: Ints) -> str | list[str]:
        return "" if self.labels is None else [self.labels[node] for node in which.tolist()]

    def _notes(self) -> Iterator[str]:
        """Yield notes on nodes that are simulated differently."""
        of, total = self.nodes, len(self.nodes)
        counts = {
            "access memory, which takes no time": np.isin(of.kind, (MEM_LOAD, MEM_STORE)),
            "compute on the GPU in no time (see traffic.tflops)": (of.kind == COMP)
            & (self.duration_ps == 0)
            & (of.numbers["is_cpu_op"] <= 0),
            "send 0 bytes, simulated as 1 byte": (of.kind == SEND) & (self.size == 0),
            "are collectives with a root, assumed to be the group's first": (of.kind == COLLECTIVE)
            & np.isin(of.numbers["comm_type"], [COLLECTIVES.index(name) for name in ROOTED]),
        }
        if self.rates.flops is not None:
            has_none = of.numbers["num_ops"] == MISSING
            counts["have no num_ops and take the time in the trace"] = (
                (of.kind == COMP) & has_none & (of.duration_ps > 0)
            )
        for what, which in counts.items():
            if which.any():
                yield f"{self.name}: {int(which.sum()):,} of {total:,} nodes {what}"
