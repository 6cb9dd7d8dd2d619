"""Why does a run not get on? Names the flows that wait and, under PFC, a circle of paused ports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from netsim.limits import INT64
from netsim.model.circuit_times import longest_period_ps
from netsim.model.fabric import PATH_FOR_LIFE
from netsim.model.lanes import ENTROPY, HASH
from netsim.model.routing import NEVER
from netsim.model.schedules import NONE
from netsim.reports.circuits import circuits_so_far, waiting_slot
from netsim.running.stuck_tasks import stuck
from netsim.units import format_time

if TYPE_CHECKING:
    from netsim.engine.engine import Engine
    from netsim.engine.state_views import Counts, Ints
    from netsim.model.network import Network

NAMED = 5
"""Flows that a message names; of more it gives the number."""

PATIENCE_PS = 100 * 10**9
"""Simulated time without a delivered byte, while flows are under way, that counts as a stall ..."""

PATIENCE_RTTS = PATIENCE_PERIODS = 20
"""... or this many of the longest round trips, or periods of circuit switches, if that is more."""

AGAIN = 0.9
"""Share of the data packets sent that had been sent before, from which on it is told."""


def patience_ps(engine: Engine) -> int:
    """Simulated time without progress after which a run is stalled."""
    rtt = int(engine.flow_states().base_rtt_ps.max(initial=0))
    period = longest_period_ps(engine.network.circuits)
    return max(PATIENCE_PS, PATIENCE_RTTS * rtt, PATIENCE_PERIODS * period)


@dataclass
class Patience:
    """Is lost when nothing has moved for more than so much simulated time, or so many windows.

    `since_ps` is when something last did.
    """

    most_ps: int
    most_windows: int | None = None
    moved: int = -1
    since_ps: int = 0
    since_windows: int = 0

    def noted(self) -> dict[str, int]:
        """What it has seen of the run so far, for a run that goes on in another process."""
        return {
            "moved": self.moved,
            "since_ps": self.since_ps,
            "since_windows": self.since_windows,
        }

    def go_on(self, noted: Mapping[str, int]) -> None:
        """Have seen what was `noted`."""
        self.moved, self.since_ps = noted["moved"], noted["since_ps"]
        self.since_windows = noted["since_windows"]

    def lost(self, now: Counts, moved: int) -> bool:
        """Whether that is so `now`. `moved` is a number that changes whenever something moves."""
        if moved != self.moved:
            self.moved, self.since_ps, self.since_windows = moved, now.now_ps, now.windows
        waited_ps, waited_windows = now.now_ps - self.since_ps, now.windows - self.since_windows
        too_many = self.most_windows is not None and waited_windows > self.most_windows
        return waited_ps > self.most_ps or too_many


def hopes(engine: Engine) -> bool:
    """May what has not moved for long move again? A link or a circuit may come, or new routes, or
    hosts may notice that a port of theirs is down.

    Also if one just did, less than the run's patience ago.
    """
    faults, circuits = engine.faults, circuits_so_far(engine)
    since_ps = engine.now_ps - patience_ps(engine)
    if circuits is not None and (circuits.days_ps[:, 0] > since_ps).any():
        return True
    if faults is None:
        return False
    down, up = faults.outages_ps.T
    if ((down <= engine.now_ps) & (up > since_ps) & (up < INT64)).any():
        return True
    if faults.carrier is not None:
        changes = faults.outages_ps[faults.outages_ps < INT64]
        delays = {faults.carrier.own_ps, faults.carrier.other_ps} - {NEVER}
        if any((changes + delay > since_ps).any() for delay in delays):
            return True
    return faults.routes is not None and bool((faults.routes.row_from_ps > since_ps).any())


def under_way(engine: Engine) -> Ints:
    """Flows that have started and are not delivered."""
    flows = engine.flow_states()
    started = (flows.start_ps <= engine.now_ps) & (flows.waits_for == 0)
    return np.flatnonzero(started & (flows.done_ps < 0))


def undelivered(engine: Engine) -> Ints:
    """Flows that are not delivered, whether they have started or not."""
    return np.flatnonzero(engine.flow_states().done_ps < 0)


def missing(engine: Engine, may_lose: np.ndarray) -> Ints:
    """Flows that are not delivered, without those of which nothing more can be expected.

    Where `may_lose` (bool[n_flows]) the transport is not reliable: once its sender has finished
    and the network is empty, what is lost stays lost; it is not while packets wait for circuits.
    What a program has not started, it may never.
    """
    flows = engine.flow_states()
    given_up = may_lose & (flows.finished != 0) & (not _at_circuits(engine).size)
    left = (flows.waits_for > 0) & engine.has_program
    return np.flatnonzero((flows.done_ps < 0) & ~given_up & ~left)


def unaware(engine: Engine) -> Ints:
    """Flows that are delivered and whose sender has not finished."""
    flows = engine.flow_states()
    return np.flatnonzero((flows.done_ps >= 0) & (flows.finished == 0))


def overdue(engine: Engine, deadline_ps: int) -> Ints:
    """Flows under way for longer than ``deadline_ps``."""
    flows = under_way(engine)
    return flows[engine.now_ps - engine.flow_states().start_ps[flows] > deadline_ps]


def explain(engine: Engine, flows: Ints, what: str) -> str:
    """One message: what happened, to which flows, the tasks that wait, and a circle of pauses."""
    table, states = engine.flows, engine.flow_states()
    named = [
        f"flow {f} (host {table.src[f]} to host {table.dst[f]}, "
        f"{states.received_bytes[f]} of {states.size_bytes[f]} bytes)"
        for f in flows[:NAMED].tolist()
    ]
    if flows.size > NAMED:
        named.append(f"and {flows.size - NAMED} more")
    text = f"{what} at {format_time(engine.now_ps, 4)}: {', '.join(named) or 'no flow is left'}"
    if engine.faults is not None and engine.faults.routes is not None:
        text += _cut_off(engine.network, engine.faults.routes.cut_off)
    text += _unserved_circuits(engine)
    if slot := waiting_slot(engine):
        text += f"; {slot}"
    if again := sent_again(engine):
        text += f"; {again}"
    if tasks := stuck(engine):
        text += f"; {tasks}"
    circle = pause_cycle(engine.network, engine.paused_classes())
    if circle:
        names = " -> ".join(engine.network.port_name(p) for p in circle)
        text += f"; ports paused in a circle: {names}"
    return text


def sent_again(engine: Engine) -> str:
    """That nearly all data packets are sent again, and why that may be; "" if they are not."""
    flows = engine.flow_states()
    sent, again = int(flows.sent_packets.sum()), int(flows.retransmits.sum())
    if not again or again < AGAIN * sent:
        return ""
    text = f"{again / sent:.1%} of {sent:,} data packets had been sent before"
    fabric = engine.fabric
    ways = []
    if engine.network.has_several_ports and fabric.plane_balancing not in (HASH, ENTROPY):
        ways.append(f"fabric.plane_balancing = {fabric.plane_balancing}")
    if fabric.load_balancing not in PATH_FOR_LIFE:
        ways.append(f"fabric.load_balancing = {fabric.load_balancing}")
    if ways:
        text += f"; packets overtake each other ({', '.join(ways)}): does the transport bear that?"
    return text


def _cut_off(network: Network, hosts: Ints) -> str:
    """That some hosts were without a way to all others for a time."""
    if not hosts.size:
        return ""
    names = [network.node_name(host) for host in hosts[:NAMED].tolist()]
    more = [f"and {hosts.size - NAMED} more"] if hosts.size > NAMED else []
    return f"; cut off for a time: {', '.join([*names, *more])}"


def _at_circuits(engine: Engine) -> Ints:
    """Ports of circuits at which packets wait."""
    circuits = engine.network.circuits
    if circuits is None:
        return np.zeros(0, np.int64)
    return np.flatnonzero((engine.waiting_classes() != 0) & (circuits.calendar != NONE))


def _unserved_circuits(engine: Engine) -> str:
    """Where packets wait for circuits."""
    ports = _at_circuits(engine)
    if not ports.size:
        return ""
    names = [engine.network.port_name(port) for port in ports[:NAMED].tolist()]
    more = [f"and {ports.size - NAMED} more"] if ports.size > NAMED else []
    return f"; packets wait for circuits: {', '.join([*names, *more])}"


def pause_cycle(network: Network, paused: Ints) -> list[int]:
    """A circle of paused ports, or an empty list.

    Port p, paused, waits for the switch at its far end to send; that switch is held up
    by its own paused ports. A circle among these is a deadlock.
    """
    stopped = paused != 0
    waits_for: dict[int, list[int]] = {}
    for p in np.flatnonzero(stopped).tolist():
        node = int(network.port_node[network.port_peer[p]])
        ports = range(int(network.node_first_port[node]), int(network.node_first_port[node + 1]))
        back = int(network.port_peer[p])
        waits_for[p] = [q for q in ports if stopped[q] and q != back and node >= network.n_hosts]
    # Whoever waits for nobody will go on; what then remains stands in or before a circle.
    changed = True
    while changed:
        free = [p for p, others in waits_for.items() if not any(q in waits_for for q in others)]
        changed = bool(free)
        for p in free:
            del waits_for[p]
    if not waits_for:
        return []
    seen: list[int] = []
    p = next(iter(waits_for))
    while p not in seen:
        seen.append(p)
        p = next(q for q in waits_for[p] if q in waits_for)
    return [*seen[seen.index(p) :], p]
