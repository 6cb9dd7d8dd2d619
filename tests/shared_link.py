"""Measure long flows that share one link."""

from dataclasses import dataclass

import numpy as np
from engine_runs import dumbbell
from numpy.typing import NDArray

from netsim.engine.engine import Engine
from netsim.engine.kernels.layout import RUNNING
from netsim.model.network import Network

US = 1_000_000


def even_dumbbell(hosts: int, rate: str) -> Network:
    """Return a dumbbell with one rate for all links and cables of 1 us."""
    delays = {"host_delay": "1us", "bottleneck_delay": "1us"}
    return dumbbell(hosts=hosts, host_rate=rate, bottleneck_rate=rate, **delays)


def bottleneck(network: Network) -> int:
    """Return the left switch's port to the right switch, which follows its host ports."""
    return int(network.node_first_port[network.n_hosts]) + network.n_hosts // 2


@dataclass(frozen=True)
class Measured:
    """Data bytes on the wire of each flow over a time, and bytes queued at the port."""

    sent: NDArray[np.float64]
    held: NDArray[np.int64]
    time_ps: int

    @property
    def rate_bps(self) -> float:
        """Return the rate of all flows together."""
        return float(self.sent.sum()) * 8e12 / self.time_ps

    @property
    def jain(self) -> float:
        """Return Jain's fairness index: 1 for equal shares, 1/n if one flow gets everything."""
        return float(self.sent.sum()) ** 2 / (len(self.sent) * float((self.sent**2).sum()))


def measure(
    engine: Engine, port: int, start_ps: int, end_ps: int, step_ps: int, traffic_class: int = 0
) -> Measured:
    """Run to ``end_ps``; from ``start_ps`` on, sample the port's class every ``step_ps``."""
    _run_to(engine, start_ps)
    before = np.array(engine.flow_states().received_bytes)
    queue = port * engine.fabric.n_traffic_classes + traffic_class
    held = []
    for t in range(start_ps + step_ps, end_ps + 1, step_ps):
        _run_to(engine, t)
        held.append(int(engine.link_counters().queue_bytes[queue]))
    payload = np.array(engine.flow_states().received_bytes) - before
    par = engine.state.hosts.pars["transport0"][0]
    full, header = int(par["payload_bytes"]), int(par["header_bytes"])
    return Measured(payload * (1 + header / full), np.array(held), end_ps - start_ps)


def _run_to(engine: Engine, t: int) -> None:
    while engine.advance(1000, t) == RUNNING:
        pass
