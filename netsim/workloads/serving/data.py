"""What is known of a serving run before it begins: instances, requests, and who serves which.

A *instance* is hosts, of one GPU each, that hold one copy of a model and compute together. Its
first host is its *leader*. An instance prefills prompts and decodes (`MIXED`), or does one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.model.workload import WorkloadPart

MIXED, PREFILL, DECODE = range(3)
ROLES = ("mixed", "prefill", "decode")
"""What instances do, and its names."""

ITERATION, STARTED, FIRST_TOKEN, KV_THERE, JOINED, DONE, LOST, DOWN, UP = range(9)
EVENTS = (
    "iteration",
    "started",
    "first token",
    "kv there",
    "joined",
    "done",
    "lost",
    "down",
    "up",
)
"""What the rows of a serving run's log tell, in its column `event`, and their names."""

LOG = ("event", "request", "start_ps", "batch", "tokens", "context", "pairs")
"""Columns of the log, after the host and the time of each row. `request` is -1 where a row is of
none. `start_ps`, `batch`, `context` and `pairs` are of iterations, else 0: when it began, how many
sequences get a token that decode, the sum of their contexts in tokens, and the query-key pairs of
the prompts' tokens. `tokens` are the prompts' of an iteration, the output tokens that a request was
told by then in each of its rows, and the GPUs at work in those of an instance, down and up."""


@dataclass(frozen=True, eq=False)
class ServingInstances:
    """A table of k instances; an instance is known by its row.

    Attributes:
        role: int8[k], MIXED, PREFILL or DECODE.
        hosts_ptr, hosts: int64[k + 1], int32[m]; instance i has the hosts from `hosts_ptr[i]` to
            before `hosts_ptr[i + 1]`.
    """

    role: NDArray[np.int8]
    hosts_ptr: NDArray[np.int64]
    hosts: NDArray[np.int32]

    def __len__(self) -> int:
        return int(self.role.size)

    @property
    def leader(self) -> NDArray[np.int32]:
        """int32[k]: the first host of each instance."""
        return self.hosts[self.hosts_ptr[:-1]]

    @property
    def size(self) -> NDArray[np.int64]:
        """int64[k]: how many hosts each instance has."""
        return np.diff(self.hosts_ptr)

    def of(self, instance: int) -> NDArray[np.int32]:
        """int32[tp]: the hosts of an instance."""
        return self.hosts[self.hosts_ptr[instance] : self.hosts_ptr[instance + 1]]

    def name(self, instance: int) -> str:
        """What an instance is called: "decode instance 5"."""
        return f"{ROLES[self.role[instance]]} instance {instance}"


@dataclass(frozen=True, eq=False)
class Requests:
    """A table of n requests, in the order of their arrival.

    Attributes:
        arrival_ps: int64[n], not falling.
        prompt_tokens, output_tokens: int64[n], at least 1 each.
    """

    arrival_ps: NDArray[np.int64]
    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.arrival_ps.size)


@dataclass(frozen=True, eq=False)
class ServingPlan(WorkloadPart):
    """Which instances serve which requests, and what they cost.

    Attributes:
        instances: all of them.
        requests: all of them.
        prefill_instance: int32[n], the mixed or prefill instance of each request.
        decode_instance: int32[n], its decode instance; -1: there is none.
        costs: of each role in ROLES that has instances, what an iteration costs (an `IterationCost`
            of `netsim.workloads.inference`); of others None.
        ttft_ps: the SLO: longest time to the first token; None if there is none.
        tbt_ps: longest time between tokens; None if there is none.
        kv_first_flow, kv_flows: int64[n], the flows of each request's KV cache: the number of the
            first, and how many there are, one behind the other; 0 flows where nothing is sent.
        expected_ps: when all requests would be done by the router's estimate, with no network but
            that of iterations, and no failures; 0: it has none.
        stall_ps: the SLO's: no gap between tokens is longer; None: any may be.
    """

    instances: ServingInstances
    requests: Requests
    prefill_instance: NDArray[np.int32]
    decode_instance: NDArray[np.int32]
    costs: tuple[Any, Any, Any]
    ttft_ps: int | None
    tbt_ps: int | None
    kv_first_flow: NDArray[np.int64]
    kv_flows: NDArray[np.int64]
    expected_ps: int = 0
    assumption = "requests are served for as long as their router expects"
    stall_ps: int | None = None

    def moved(self, first_flow: int, first_task: int) -> ServingPlan:  # noqa: ARG002
        """The same plan in a workload in which its flows are numbered from `first_flow` on."""
        return replace(self, kv_first_flow=self.kv_first_flow + first_flow)

    def progress(self, total: Callable[[str], int]) -> tuple[str, int, int]:
        """The requests that are done."""
        return "requests", total("done"), len(self.requests)
