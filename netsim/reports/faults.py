"""Faults of links and changes of routes: the table and its metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.limits import INT64
from netsim.model.faults import NOMINAL, LinkFaults
from netsim.model.routing import NO_ROUTE
from netsim.results.columns import TableSpec
from netsim.results.run_result import Run, Table

if TYPE_CHECKING:
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

TABLES = (FAULTS,)
ORDER = 80


DOWN, RATE, LOSS, REROUTE = KINDS = ("down", "rate", "loss", "reroute")
"""Values of the column `event`."""

NONE = -1


def fault_table(network: Network, faults: LinkFaults, end_ps: int) -> Table:
    """Return the faults up to `end_ps`, in order of time."""
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
    network: Network, what: str, node: np.ndarray, link: np.ndarray, **times: np.ndarray
) -> Table:
    names = np.array([network.node_name(n) for n in range(network.n_nodes)])
    to = np.where(link >= 0, names[network.port_node[network.port_peer[link]]], "")
    return {
        "event": np.full(node.size, what),
        "link": link,
        "node": node,
        "node_name": names[node],
        "to_name": to,
        **times,
    }


def _outages(network: Network, faults: LinkFaults) -> Table:
    port = np.repeat(np.arange(network.n_ports), np.diff(faults.outage_ptr))
    times = faults.outages_ps[: port.size]
    until = np.where(times[:, 1] >= INT64, NONE, times[:, 1])
    value = np.full(port.size, np.nan)
    node = network.port_node[port]
    return _rows(network, DOWN, node, port, start_ps=times[:, 0], end_ps=until, value=value)


def _intervals(network: Network, faults: LinkFaults) -> list[Table]:
    """Return intervals with another rate or with loss; each ends where its link's next one begins.

    The value of loss is the loss probability of a packet of one byte.
    """
    n = faults.interval_start_ps.size
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
        rows = np.arange(n)[some]
        found.append(
            _rows(
                network,
                what,
                network.port_node[port[rows]],
                port[rows],
                start_ps=faults.interval_start_ps[rows],
                end_ps=until[rows],
                value=value[rows],
            )
        )
    return found


def _reroutes(network: Network, faults: LinkFaults) -> Table:
    """Return route changes; their value is the number of edge switches without a route."""
    routes = faults.routes
    if routes is None:
        empty_ids = np.zeros(0, np.int64)
        empty = {"start_ps": empty_ids, "end_ps": empty_ids, "value": np.zeros(0)}
        return _rows(network, REROUTE, empty_ids, empty_ids, **empty)
    switch = np.repeat(np.arange(network.n_switches), np.diff(routes.row_ptr))
    ends = np.append(routes.row_first[1:], routes.route.size)
    gone = np.concatenate([[0], np.cumsum(routes.route == NO_ROUTE)])
    without = gone[ends] - gone[routes.row_first]
    until = np.append(routes.row_from_ps[1:], NONE)
    until[routes.row_ptr[1:] - 1] = NONE
    changed = np.ones(switch.size, bool)
    changed[routes.row_ptr[:-1]] = False
    return _rows(
        network,
        REROUTE,
        network.n_hosts + switch[changed],
        np.full(int(changed.sum()), NONE),
        start_ps=routes.row_from_ps[changed],
        end_ps=until[changed],
        value=without[changed].astype(float),
    )


TITLES = {"down": "outages", "rate": "other rates", "loss": "losses", "reroute": "new routes"}
"""Printed names of kinds."""


def report(run: Run) -> dict[str, Any]:
    """Add the table of faults; return the number of each kind."""
    engine = run.engine
    if engine is None or engine.faults is None:
        return {}
    table = run.tables["faults"] = fault_table(engine.network, engine.faults, engine.counts.now_ps)
    return {"faults": fault_metrics(table, engine.network, engine.faults)}


def lines(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the number of faults by kind."""
    if found := summary.get("faults"):
        text = ", ".join(f"{name}: {found[kind]:,}" for kind, name in TITLES.items() if found[kind])
        yield "faults", text or "none yet"
