"""Jobs in AICB's files: ranks in Megatron's order, and the part of a job that fits in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from netsim.common.memory import require_room
from netsim.errors import InputError
from netsim.flows import Rng, TrafficContext, Workload
from netsim.frozen import frozen
from netsim.model.columns import Ints
from netsim.network import Network
from netsim.params import Param, Params
from netsim.workloads.collectives.steps import CollectiveOptions
from netsim.workloads.operations import Operations
from netsim.workloads.operations.operations import TASK_BYTES
from netsim.workloads.traffic._options import (
    COLLECTIVE_PARAMS,
    PLACEMENT_PARAMS,
    hosts_of,
    how_of,
    wires_of,
)

PS_PER_NS = 1000

IN_A_RUN = 5  # memory of a task and its flow in a run, relative to table building
SURELY = 40  # the same for transports and paths with much state per flow

Part = TypeVar("Part", bound="JobPart")

PARAMS = [
    Param("replicas", "count", None, "data-parallel ranks to simulate; default: all", minimum=1),
    *COLLECTIVE_PARAMS,
    *PLACEMENT_PARAMS,
]


@frozen
class JobPart(ABC):
    """The simulated part of a job: `dp` of `all_dp` replicas."""

    tp: int
    ep: int
    pp: int
    dp: int
    all_dp: int

    @property
    def n_ranks(self) -> int:
        return self.tp * self.dp * self.pp

    @cached_property
    def ranks(self) -> Ints:
        """int64[pp, dp, tp], in Megatron's order."""
        return np.arange(self.n_ranks).reshape(self.pp, self.dp, self.tp)

    def groups(self, stage: int) -> dict[str, Ints]:
        """int64[g, n]: the ranks of all groups within a stage, by AICB's and SimAI's names."""
        ranks = self.ranks[stage]
        experts = ranks.reshape(self.dp // self.ep, self.ep, self.tp)
        between = experts.transpose(1, 2, 0).reshape(-1, self.dp // self.ep)
        return {
            "tp": ranks,
            "dp": ranks.T,
            "ep": experts.transpose(0, 2, 1).reshape(-1, self.ep),
            "ep_dp": between,
            "dp_ep": between,
            "ep_tp": experts.reshape(-1, self.ep * self.tp),
        }

    def fewer_replicas(self) -> list[int]:
        """Return numbers of replicas, from this part's down."""
        found = [self.dp]
        while found[-1] > self.ep:
            found.append(max(found[-1] // 2 // self.ep, 1) * self.ep)
        return found

    @abstractmethod
    def rows_of_rank(self) -> int:
        """Return the number of rows of a rank, each of at least one task."""

    @abstractmethod
    def smaller(self: Part) -> Iterator[tuple[str, Part]]:
        """Yield smaller parts of the job with their settings, largest first."""


def replicas_of(
    sizes: tuple[int, int, int], n_ranks: int, dp: int | None, replicas: int | None, file: str
) -> tuple[int, int]:
    """Return the simulated replicas and all: `dp` if known, `replicas` if chosen. `sizes` are tp,
    ep and pp. Raises InputError if they are inconsistent."""
    tp, ep, pp = sizes
    all_dp = dp or n_ranks // (tp * pp)
    if tp * all_dp * pp != n_ranks or all_dp % ep:
        what = f"{n_ranks} ranks are not {tp} x {all_dp} x {pp} (tensor x data x pipeline)"
        raise InputError(what + f", experts {ep}" * (ep > 1), file=file)
    if replicas is not None and (replicas > all_dp or replicas % ep):
        hint = f"at most {all_dp}, a multiple of {ep}"
        raise InputError(f"{replicas} of {all_dp} replicas", key="traffic.replicas", hint=hint)
    return replicas or all_dp, all_dp


class JobOperations(ABC):
    """The operations of a part of a job, with options `hows` of collectives."""

    def __init__(self, part: JobPart, hows: Mapping[str, CollectiveOptions]) -> None:
        self.hows = hows
        self.ops = Operations(part.n_ranks)

    @abstractmethod
    def notes(self) -> Iterator[str]:
        """Yield notes on assumptions and omissions."""


def workload_of(
    part: Part,
    build: Callable[[Part, Mapping[str, CollectiveOptions]], JobOperations],
    whats: Iterable[str],
    params: Params,
    network: Network,
    rng: Rng,
    context: TrafficContext,
) -> Workload:
    """Return a part of a job, whose collectives are `whats`, as tasks and flows. Raises InputError,
    with a smaller part that fits, if it needs too many hosts or too much memory."""
    fits = network.n_hosts // (part.tp * part.pp * part.ep) * part.ep
    hint = f"a larger network, or replicas = {fits}" if fits else None
    hosts = hosts_of(params, part.n_ranks, network.n_hosts, context.directory, rng, hint)
    hows = {what: how_of(params, what) for what in whats}
    wires = wires_of(network, context)

    def fitting(one: Part, tables: int) -> JobOperations:
        """Return the operations of a part. Raises InputError if memory is too small."""
        n_bytes = tables * TASK_BYTES
        rows = one.n_ranks * one.rows_of_rank()
        require_room(n_bytes * rows, what=f"{rows:,} tasks")
        made = build(one, hows)
        tasks = made.ops.n_tasks(hosts, wires)
        require_room(n_bytes * tasks, what=f"{tasks:,} tasks")
        return made

    try:
        made = fitting(part, IN_A_RUN)
    except InputError as error:
        if error.file is not None:  # a row is wrong
            raise
        hint = None
        for text, one in part.smaller():
            with suppress(InputError):
                fitting(one, SURELY)
                hint = f"this part fits: {text}"
                break
        raise error.replace(file=None, key="traffic.file", hint=hint) from None
    load = made.ops.lower(hosts, reduction=network.reduction, wires=wires)
    return replace(load, notes=tuple(made.notes()))
