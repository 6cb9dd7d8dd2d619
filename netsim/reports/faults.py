"""Interruptions of flows: link faults, reroutes and recovery, PFC deadlocks and storms.

A sampled flow recovers when it receives again after a link went down. In a deadlock, ports wait for
each other in a cycle. A storm is a pause of a class that lasts until the port's watchdog acts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netsim.common.terminal import Column as Cells
from netsim.common.terminal import any_of, count, time_columns, time_text
from netsim.limits import INT64
from netsim.model.columns import Floats, Ints
from netsim.model.deadlock import NAMED, link_names, short_cycle
from netsim.model.faults import NOMINAL, LinkFaults
from netsim.model.routing import NO_ROUTE
from netsim.results.columns import Metric, TableSpec
from netsim.results.run_result import Run, Table
from netsim.units import format_bytes, listed

if TYPE_CHECKING:
    from netsim.engine.engine import Engine
    from netsim.engine.state_views import Pauses
    from netsim.model.network import Network

FAULTS = TableSpec.of(
    "faults",
    """
    event      -      down: the link was down; rate: it had another rate; loss: it lost packets;
        reroute: a switch had new routes
    link?      index  link; null for a switch
    node       node   node whose port feeds the link, or the switch
    node_name  -      name of node
    to_name    -      name of the node at the end of the link
    start_ps   ps     start
    end_ps?    ps     end; null without one
    value      1      rate: bit/s; loss: probability for a packet of one byte; reroute: edge
        switches without a route
    """,
)

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

STORMS = TableSpec.of(
    "storms",
    """
    link           index    link whose class the node at its end paused without end
    port           -        name of the port that feeds it, such as leaf3:12
    traffic_class  index    the class
    storms         storms   how often the watchdog noticed
    first_ps       ps       when it noticed for the first time
    total_ps       ps       time until it found the class normal again, or the run ended, over all
        storms
    dropped        packets  packets that it dropped, or that came during a storm and were dropped
    """,
)

TABLES = (FAULTS, DEADLOCK, STORMS)
ORDER = 80

SWEEP = Metric.each("""
silent_flows      flows  recovery.flows   sampled flows that retransmitted, and received nothing for
    longer than a round trip after a link went down
recovery_p50_ps#  ps     recovery.p50_ps  median over these flows of their longest silence
recovery_max_ps#  ps     recovery.max_ps  longest of these silences
""")


DOWN, RATE, LOSS, REROUTE = KINDS = ("down", "rate", "loss", "reroute")
"""Values of the column `event`."""

NONE = -1


def fault_table(network: Network, faults: LinkFaults, end_ps: int) -> Table:
    """Return the faults up to `end_ps`, in time order."""
    parts = [_outages(network, faults), *_intervals(network, faults), _reroutes(network, faults)]
    table = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    happened = np.flatnonzero(table["start_ps"] < end_ps)
    order = happened[np.lexsort((table["link"][happened], table["start_ps"][happened]))]
    return {name: column[order] for name, column in table.items()}


def fault_metrics(table: Table, network: Network, faults: LinkFaults) -> dict[str, Any]:
    """Return the number of rows of each kind and the hosts that were cut off."""
    counts = {kind: int((table["event"] == kind).sum()) for kind in KINDS}
    cut_off = np.zeros(0, np.int64) if faults.routes is None else faults.routes.cut_off
    hosts = [network.node_name(host) for host in cut_off.tolist()]
    return {**counts, "hosts_cut_off": hosts}


def _rows(
    network: Network,
    what: str,
    node: np.ndarray,
    link: np.ndarray,
    times_ps: tuple[np.ndarray, np.ndarray],
    value: Floats,
) -> Table:
    """Return rows of one kind; `times_ps` are starts and ends."""
    names = np.array([network.node_name(n) for n in range(network.n_nodes)])
    to = np.where(link >= 0, names[network.port_node[network.port_peer[link]]], "")
    return {
        "event": np.full(node.size, what),
        "link": link,
        "node": node,
        "node_name": names[node],
        "to_name": to,
        "start_ps": times_ps[0],
        "end_ps": times_ps[1],
        "value": value,
    }


def _outages(network: Network, faults: LinkFaults) -> Table:
    port = np.repeat(np.arange(network.n_ports), np.diff(faults.outage_ptr))
    times = faults.outages_ps[: port.size]
    until = np.where(times[:, 1] >= INT64, NONE, times[:, 1])
    value = np.full(port.size, np.nan)
    return _rows(network, DOWN, network.port_node[port], port, (times[:, 0], until), value)


def _intervals(network: Network, faults: LinkFaults) -> list[Table]:
    """Return the intervals in which a link has a changed rate or loses packets. Each ends when the
    link's next interval starts. The value of a loss is the probability of losing a packet of one
    byte."""
    port = np.repeat(np.arange(network.n_ports), np.diff(faults.interval_ptr))
    until = np.append(faults.interval_start_ps[1:], NONE)
    until[faults.interval_ptr[1:] - 1] = NONE
    rates = faults.interval_rate_bps.astype(float)
    chances = faults.loss_table[faults.interval_profile, 1] / 2**32
    found = []
    for what, value, some in (
        (RATE, rates, faults.interval_rate_bps != NOMINAL),
        (LOSS, chances, faults.interval_profile != 0),
    ):
        times = faults.interval_start_ps[some], until[some]
        node = network.port_node[port[some]]
        found.append(_rows(network, what, node, port[some], times, value[some]))
    return found


def _reroutes(network: Network, faults: LinkFaults) -> Table:
    """Return route changes; their value is the number of edge switches without a route."""
    routes = faults.routes
    if routes is None:
        none = np.zeros(0, np.int64)
        return _rows(network, REROUTE, none, none, (none, none), np.zeros(0))
    switch = np.repeat(np.arange(network.n_switches), np.diff(routes.row_ptr))
    ends = np.append(routes.row_first[1:], routes.route.size)
    gone = np.concatenate([[0], np.cumsum(routes.route == NO_ROUTE)])
    without = gone[ends] - gone[routes.row_first]
    until = np.append(routes.row_from_ps[1:], NONE)
    until[routes.row_ptr[1:] - 1] = NONE
    changed = np.ones(switch.size, bool)
    changed[routes.row_ptr[:-1]] = False
    node = network.n_hosts + switch[changed]
    times = routes.row_from_ps[changed], until[changed]
    value = without[changed].astype(float)
    return _rows(network, REROUTE, node, np.full(node.size, NONE), times, value)


# --- deadlocks of PFC -----------------------------------------------------------------------------


def deadlock_table(engine: Engine) -> Table | None:
    """Return a cycle of ports that wait for each other and never send again, None if there is none.

    A port is stuck if its neighbor pauses it, and all packets that the neighbor holds from it wait
    for stuck ports.
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
    """Describe the deadlock of a run; "" if there is none."""
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
    waits = listed([f"{port} waits for {after}" for port, after in pairs], NAMED)
    held = format_bytes(found["held_bytes"], 4)
    return f"since {time_text(found['since_ps'])}, with {held} that never move: {waits}"


# --- storms of PFC --------------------------------------------------------------------------------


def storm_table(engine: Engine) -> Table | None:
    """Return the storms that a watchdog detected, None if there were none. A discipline has a
    watchdog if its classes have a field ``n_storms``, as in `queues/pfc.py`."""
    fields = engine.class_fields(
        "n_storms", "first_storm_ps", "storm", "storm_began_ps", "storm_ps", "storm_drops"
    )
    if fields is None or not fields["n_storms"].any():
        return None
    struck = np.flatnonzero(fields["n_storms"])
    ports, cls = np.divmod(struck, engine.fabric.n_link_classes)
    storms = {name: values[struck] for name, values in fields.items()}
    lasting = np.where(storms["storm"] == 1, engine.now_ps - storms["storm_began_ps"], 0)
    return {
        "link": ports,
        "port": link_names(engine.network, ports),
        "traffic_class": cls,
        "storms": storms["n_storms"],
        "first_ps": storms["first_storm_ps"],
        "total_ps": storms["storm_ps"] + lasting,
        "dropped": storms["storm_drops"],
    }


def storm_note(engine: Engine) -> str:
    """Return a note on the storms of a run, "" if there were none."""
    table = storm_table(engine)
    return "" if table is None else f"PFC storms: {_storm_text(_storm_summary(table))}"


def _storm_summary(table: Table) -> dict[str, Any]:
    return {
        "storms": int(table["storms"].sum()),
        "first_ps": int(table["first_ps"].min()),
        "dropped": int(table["dropped"].sum()),
        "ports": np.unique(table["port"]).tolist(),
    }


def _storm_text(found: Mapping[str, Any]) -> str:
    ports, first = listed(found["ports"], NAMED), time_text(found["first_ps"])
    return f"{found['storms']} at {ports}, first at {first}; {found['dropped']:,} packets dropped"


# --- recovery -------------------------------------------------------------------------------------


def recovery_metrics(engine: Engine) -> dict[str, Any]:
    """Return the summary of recovery, if links went down and flows were sampled.

    A flow is silent if it receives no payload for longer than its base round-trip time. For each
    flow that retransmitted or is unfinished, its longest silence after a link failure counts,
    measured from the last failure before it.
    """
    found, faults = engine.series(), engine.faults
    if found is None or faults is None or not found.flows.things.size:
        return {}
    downs = np.unique(faults.outages_ps[: faults.outage_ptr[-1], 0])
    downs = downs[downs < engine.now_ps]
    if not downs.size:
        return {}
    states = engine.flow_states()
    times, never = [], 0
    series = found.flows.values["delivered_bytes"].T
    for flow, delivered in zip(found.flows.things.tolist(), series, strict=True):
        lost_nothing = states.retransmits[flow] == 0 and states.done_ps[flow] >= 0
        if states.waits_for[flow] > 0 or lost_nothing:
            continue
        some = np.flatnonzero(delivered)
        begin = np.concatenate([states.start_ps[flow : flow + 1], found.end_ps[some]])
        end = np.append(found.end_ps[some - 1] * (some > 0), engine.now_ps)
        if states.done_ps[flow] >= 0:
            begin, end = begin[:-1], end[:-1]
        silence = longest_silence(begin, end, downs, int(states.base_rtt_ps[flow]))
        if silence is None:
            continue
        if silence[1] == engine.now_ps and states.done_ps[flow] < 0:
            never += 1
        else:
            times.append(silence[1] - silence[0])
    return {
        "recovery": {
            "interval_ps": found.interval_ps,
            "flows": len(times) + never,
            "flows_not_back": never,
            "p50_ps": int(np.median(times)) if times else None,
            "max_ps": max(times) if times else None,
        }
    }


def longest_silence(
    begin: Ints, end: Ints, downs: Ints, more_than_ps: int
) -> tuple[int, int] | None:
    """Return the failure before the longest silence and the end of that silence, as times in ps.

    `downs` are the ascending times at which links went down. A silence belongs to the last
    failure before it, or else the first within it. Return None if none exceeds `more_than_ps`.
    """
    before = np.searchsorted(downs, begin, side="right") - 1
    down = downs[np.maximum(before, 0)]
    length = end - np.maximum(begin, down)
    length[(end - begin <= more_than_ps) | (down >= end)] = 0
    if not length.any():
        return None
    longest = int(length.argmax())
    return int(down[longest]), int(end[longest])


# --- the report -----------------------------------------------------------------------------------

TITLES = {"down": "outages", "rate": "other rates", "loss": "losses", "reroute": "new routes"}
"""Printed names of kinds."""


def report(run: Run) -> dict[str, Any]:
    """Add the tables of faults, of storms, and of a deadlock that ended the run; return fault
    counts by kind, the deadlock, the storms and the recovery."""
    engine = run.engine
    if engine is None:
        return {}
    figures: dict[str, Any] = {}
    if engine.faults is not None:
        table = fault_table(engine.network, engine.faults, engine.counts.now_ps)
        run.tables["faults"] = table
        figures["faults"] = fault_metrics(table, engine.network, engine.faults)
    if not run.ending.complete and (cycle := deadlock_table(engine)) is not None:
        run.tables["deadlock"] = cycle
        figures["deadlock"] = _summary(cycle)
    if (storms := storm_table(engine)) is not None:
        run.tables["storms"] = storms
        figures["storms"] = _storm_summary(storms)
    return figures | recovery_metrics(engine)


def lines(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the number of faults by kind, the deadlock, the storms and the recovery."""
    if found := summary.get("faults"):
        text = ", ".join(f"{name}: {found[kind]:,}" for kind, name in TITLES.items() if found[kind])
        yield "faults", text or "none yet"
    if found := summary.get("deadlock"):
        yield "deadlock", _text(found)
    if found := summary.get("storms"):
        yield "PFC storms", _storm_text(found)
    if "recovery" in summary:
        yield "recovery", _recovery(summary["recovery"])


def sweep_columns(rows: Sequence[Mapping[str, Any]]) -> Iterator[Cells]:
    """Yield silent flows and recovery times of each point."""
    if not any_of(rows, "silent_flows"):
        return
    yield Cells("silent\nflows", [count(row.get("silent_flows")) for row in rows], 4)
    yield from time_columns(
        (f"recovery\n{name}", [row.get(f"recovery_{name}_ps") for row in rows], 3)
        for name in ("p50", "max")
    )


def _recovery(found: Mapping[str, Any]) -> str:
    if not found["flows"]:
        return "no flow was silent"
    text = f"{found['flows']:,} flows were silent"
    if found["flows_not_back"]:
        text += f", {found['flows_not_back']:,} of them to the end"
    if found["max_ps"] is not None:
        median, longest = (time_text(found[name], 4) for name in ("p50_ps", "max_ps"))
        text += f"; recovered after {median} (median), {longest} (max)"
    return text
