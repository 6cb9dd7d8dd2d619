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

EVENTS: tuple[str, ...] = (
    "iteration",
    "prefill start",
    "first token",
    "kv transfer end",
    "decode start",
)
EVENTS += ("done", "lost", "down", "up")
ITERATION, PREFILL_START, FIRST_TOKEN, KV_TRANSFER_END, DECODE_START = range(5)
DONE, LOST, DOWN, UP = range(5, 9)
"""Values of the log's column `event`, and their names."""

LOG: tuple[str, ...] = ("event", "request", "start_ps", "decode_batch", "count")
LOG += ("context_tokens", "attention_pairs")
"""Columns of the log, after the host and the time of each row.

`request` is -1 in rows of instances. `start_ps`, `decode_batch`, `context_tokens` and
`attention_pairs` describe an iteration and are 0 in other rows. `count` is the number of prompt
tokens of an iteration, generated tokens of a request, or GPUs in service of an instance.
"""


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
