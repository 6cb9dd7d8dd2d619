"""Make the flows of a traffic pattern on small networks, and check them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from netsim.conformance.finding import ConformanceError
from netsim.conformance.testbed import Testbed
from netsim.errors import InputError
from netsim.experiment.scenario import traffic_rng
from netsim.limits import CLASSES
from netsim.model.flows import FlowTable, TrafficContext
from netsim.model.network import Network
from netsim.model.workload import Workload
from netsim.plugins.registry import PluginSpec

MOST_FLOWS = 2_000_000
"""Flows that a pattern may announce here."""

MORE_BYTES = 1 << 30
"""Memory that a pattern may take here."""


class RefusedError(Exception):
    """The pattern refuses a network or parameters, and says which."""


@dataclass(frozen=True)
class _Context(TrafficContext):
    """A context with little memory."""

    def reserve(self, n_flows: float, *, key: str = "traffic") -> None:
        if n_flows > MOST_FLOWS:
            raise InputError(f"{n_flows:,.0f} flows are too many here", key=key)


@dataclass(frozen=True)
class TrafficTestbed(Testbed):
    """A traffic pattern with its parameters, on small networks."""

    KIND = "traffic"

    def with_params(self, **params: Any) -> TrafficTestbed:
        """Return the testbed with some parameters changed; values are as a pattern gets them."""
        return replace(self, params={**self.params, **params})

    def load(self, network: Network, *, end_ps: int | None = None) -> Workload:
        """Return the pattern's flows and tasks on a network, at 4,096 bytes of payload and 64 of
        header in a packet; `end_ps` as with [measure].

        Raises RefusedError for an error of the pattern that names a file or key, ConformanceError
        for flows or tasks that are wrong or too much memory, and whatever else the pattern raises.
        """
        context = _Context(
            Path(), self.seed, network.host_rate_bps, n_traffic_classes=CLASSES, end_ps=end_ps
        )
        params = dict(self.params)
        try:
            with _memory_limit():
                made = self.plugin.module.flows(params, network, traffic_rng(self.seed), context)
        except InputError as error:
            if any(one.key is None and one.file is None for one in error.errors):
                raise ConformanceError(f"{error} (an error must name a key)") from None
            raise RefusedError(str(error)) from None
        except MemoryError:
            message = "takes over 1 GiB of memory: call context.reserve before making arrays"
            raise ConformanceError(message) from None
        if params != self.params:
            raise ConformanceError("flows() changes its parameters")
        if not isinstance(made, FlowTable | Workload):
            raise ConformanceError(f"flows() returned {type(made).__name__}, not a FlowTable")
        load = made if isinstance(made, Workload) else Workload(made)
        load = load.with_program(PluginSpec(self.plugin, self.params), network.n_hosts)
        try:
            load.validate(network.n_hosts)
        except InputError as error:
            raise ConformanceError(str(error)) from None
        return load

    def flows(self, network: Network, *, end_ps: int | None = None) -> FlowTable:
        """Return the flows of `load`."""
        return self.load(network, end_ps=end_ps).flows


@contextmanager
def _memory_limit() -> Iterator[None]:
    """Let the block raise MemoryError if it takes MORE_BYTES, where the system can do that."""
    try:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        most = pages * resource.getpagesize() + MORE_BYTES
    except (ImportError, OSError, ValueError):
        yield
        return
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def columns_of(load: Workload) -> dict[str, Any]:
    """Return all columns of a workload's flows and tasks, by name."""
    tables = {"flows": load.flows, "tasks": load.tasks}
    found = {
        f"{table}.{name}": value
        for table, of in tables.items()
        if of is not None
        for name, value in vars(of).items()
    }
    return {name: value for name, value in found.items() if isinstance(value, np.ndarray | list)}
