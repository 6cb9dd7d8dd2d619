"""Deadlocks of PFC: ports that wait for each other in a cycle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netsim.common.terminal import time_text
from netsim.model.deadlock import NAMED, link_names, short_cycle
from netsim.results.columns import TableSpec
from netsim.results.run_result import Run
from netsim.units import format_bytes

if TYPE_CHECKING:
    from netsim.engine.engine import Engine
    from netsim.engine.state_views import Pauses
    from netsim.results.run_result import Table

Ints = NDArray[np.int64]

DEADLOCK = TableSpec.of(
    "deadlock",
    """
    link             index  link that is stopped, in the order of the cycle
    port             -      name of the port that feeds it, such as leaf3:12
    traffic_class    -      traffic class that is paused
    waits_for_port   -      the next port: packets that came by the link wait there
    waits_for_class  -      traffic class in which they wait there
    held_bytes       B      those packets together
    paused_since_ps  ps     since when the link is paused
    """,
)

TABLES = (DEADLOCK,)
ORDER = 85


def deadlock_table(engine: Engine) -> Table | None:
    """Return a cycle of ports that wait for each other and never send again, None if there is none.

    A port is stuck if its neighbor pauses it, and all packets that the neighbor has from it wait
    for ports that are stuck.
    """
    found = engine.pauses()
    if found is None or not found.is_stopped.any():
        return None
    network, n_queues = engine.network, found.n_queues
    port, cls = np.divmod(found.came_by, n_queues)
    sent_by = network.port_peer[port].astype(np.int64) * n_queues + cls
    stuck = _stuck(found, sent_by)
    waits = stuck[sent_by] & stuck[found.leaves_by]
    key = sent_by[waits] * stuck.size + found.leaves_by[waits]
    key, which = np.unique(key, return_inverse=True)
    waiter, after = np.divmod(key, stuck.size)
    cycle = short_cycle(stuck.size, waiter, after)
    if not cycle.size:
        return None
    held = np.bincount(which, found.size_bytes[waits], minlength=key.size).astype(np.int64)
    following = np.roll(cycle, -1)
    ports, names = cycle // n_queues, link_names(network, cycle // n_queues)
    return {
        "link": ports,
        "port": names,
        "traffic_class": cycle % n_queues,
        "waits_for_port": np.roll(names, -1),
        "waits_for_class": following % n_queues,
        "held_bytes": held[np.searchsorted(key, cycle * stuck.size + following)],
        "paused_since_ps": found.since_ps[cycle],
    }


def _stuck(found: Pauses, sent_by: Ints) -> NDArray[np.bool_]:
    """Return bool[n_ports * classes], the ports that are stuck. `sent_by` are the ports that sent
    the waiting packets to their switches."""
    stuck = found.is_stopped & (np.bincount(sent_by, minlength=found.is_stopped.size) > 0)
    while True:
        free = sent_by[~stuck[found.leaves_by]]
        if not stuck[free].any():
            return stuck
        stuck[free] = False


def deadlock_text(engine: Engine) -> str:
    """Return the deadlock of a run in words, "" if there is none."""
    table = deadlock_table(engine)
    return "" if table is None else _text(_summary(table))


def _summary(table: Table) -> dict[str, Any]:
    return {
        "since_ps": int(table["paused_since_ps"].max()),
        "held_bytes": int(table["held_bytes"].sum()),
        "cycle": table["port"].tolist(),
    }


def _text(found: Mapping[str, Any]) -> str:
    cycle = found["cycle"]
    pairs = list(zip(cycle, cycle[1:] + cycle[:1], strict=True))
    waits = ", ".join(f"{port} waits for {after}" for port, after in pairs[:NAMED])
    waits += f" and {len(pairs) - NAMED} more" if len(pairs) > NAMED else ""
    held = format_bytes(found["held_bytes"], 4)
    return f"since {time_text(found['since_ps'])}, with {held} that never move: {waits}"


def report(run: Run) -> dict[str, Any]:
    """Add the table to a run that ended in a deadlock; return when it began, what it holds, and the
    ports."""
    table = None if run.engine is None or run.ending.complete else deadlock_table(run.engine)
    if table is None:
        return {}
    run.tables["deadlock"] = table
    return {"deadlock": _summary(table)}


def lines(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the deadlock in words."""
    if found := summary.get("deadlock"):
        yield "deadlock", _text(found)
