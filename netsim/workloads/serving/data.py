"""What is fixed before a serving run begins: instances, requests, and their assignment.

An *instance* is a set of hosts, one GPU each, with one copy of a model; its first host is the
*leader*. It prefills and decodes (`MIXED`), or does only one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.model.workload import WorkloadPart

MIXED, PREFILL, DECODE = range(3)
ROLES = ("mixed", "prefill", "decode")
"""Roles of instances, and their names."""

EVENTS: tuple[str, ...] = (
    *("iteration", "prefill start", "first token", "kv transfer end", "decode start"),
    *("done", "lost", "down", "up"),
)
ITERATION, PREFILL_START, FIRST_TOKEN, KV_TRANSFER_END, DECODE_START = range(5)
DONE, LOST, DOWN, UP = range(5, 9)
"""Values of the log's column `event`, and their names."""

LOG: tuple[str, ...] = (
    *("event", "request", "start_ps", "decode_batch", "count"),
    *("context_tokens", "attention_pairs"),
)
"""Columns of the log, after the host and the time of each row.

`request` is -1 in rows of instances. `start_ps`, `decode_batch`, `context_tokens` and
`attention_pairs` describe an iteration and are 0 in other rows. `count` is the number of prompt
tokens of an iteration, generated tokens of a request, or GPUs in service of an instance.
"""


@dataclass(frozen=True, eq=False)
class ServingInstances:
    """A table of k instances; an instance is identified by its row."""

    role: NDArray[np.int8]  # int8[k], MIXED, PREFILL or DECODE
    # int64[k + 1], int32[m]; the hosts of instance i are `hosts[hosts_ptr[i] : hosts_ptr[i +
    # 1]]`
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
        """int64[k]: number of hosts of each instance."""
        return np.diff(self.hosts_ptr)

    def of(self, instances: NDArray[Any]) -> NDArray[np.int64]:
        """int64[n, tp]: the hosts of instances of equal size."""
        gpus = np.arange(self.size[instances[0]])
        return np.asarray(self.hosts[self.hosts_ptr[instances][:, None] + gpus], np.int64)

    def led_by(self, hosts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the instance that each of these leaders leads."""
        order = np.argsort(self.leader)
        return np.asarray(order[np.searchsorted(self.leader, hosts, sorter=order)])

    def name(self, instance: int) -> str:
        """Return the display name of an instance, such as "decode instance 5"."""
        return f"{ROLES[self.role[instance]]} instance {instance}"


@dataclass(frozen=True, eq=False)
class Requests:
    """A table of n requests, in order of arrival."""

    arrival_ps: NDArray[np.int64]  # int64[n], not decreasing
    # int64[n], at least 1 each
    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.arrival_ps.size)


@dataclass(frozen=True, eq=False)
class ServingPlan(WorkloadPart):
    """The assignment of requests to instances, the cost of iterations, and the SLO."""

    instances: ServingInstances
    requests: Requests
    prefill_instance: NDArray[np.int32]  # int32[n], the mixed or prefill instance of each request
    decode_instance: NDArray[np.int32]  # int32[n], the decode instance of each request; -1: none
    # the `IterationCost` of each role; None for roles without instances
    costs: tuple[Any, Any, Any]
    # SLO limits on the time to first token and between tokens; None: unlimited
    ttft_ps: int | None
    tbt_ps: int | None
    # int64[n], first flow and number of flows of each KV-cache transfer, numbered
    # consecutively; 0 flows without a transfer
    kv_first_flow: NDArray[np.int64]
    kv_flows: NDArray[np.int64]
    # when the router expects the last request to end, with no network except that of iterations
    # and no failures; 0: unknown
    expected_ps: int = 0
    assumption = "requests take as long as the router expects"
    stall_ps: int | None = None  # SLO limit on the longest gap between tokens; None: unlimited

    def moved(self, first_flow: int, first_task: int) -> ServingPlan:  # noqa: ARG002
        """Return the plan with flows numbered from `first_flow`."""
        return replace(self, kv_first_flow=self.kv_first_flow + first_flow)

    def progress(self, total: Callable[[str], int]) -> tuple[str, int, int]:
        """Return the number of finished requests."""
        return "requests", total("done"), len(self.requests)


def check_used(
    params: Mapping[str, Any], uses: Mapping[str, tuple[bool, str]], optional: Collection[str] = ()
) -> None:
    """Raise InputError if a parameter has no effect, or is used and missing unless `optional`.

    `uses` says of each parameter whether it is used, and when it would be.
    """
    for name, (used, when) in uses.items():
        if params[name] is not None and not used:
            hint = f"it is for {when}"
            raise InputError("has no effect", key=f"traffic.{name}", hint=hint, code="no_effect")
        if params[name] is None and used and name not in optional:
            hint = f"required by {when}"
            raise InputError("missing", key=f"traffic.{name}", hint=hint, code="missing")
