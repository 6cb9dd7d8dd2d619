"""Divide the nodes of a network among workers, and among ranks.

Each gets a range of nodes in the order of their cables: a switch comes amid the hosts below it, and
several switches above the same hosts come at even distances among them. So most cables join nodes
of one worker, and their packets stay in its core's cache; ranks have leaves with their hosts and a
share of the switches above. The ranges of workers are equal in packets that arrived so far, and
follow them between calls of the engine; those of ranks are equal in ports.
"""

from __future__ import annotations

import numpy as np

from netsim.engine.kernels.ids import Array
from netsim.engine.kernels.layout import CACHE_LINE, Crew, LinkState, Net, grouped
from netsim.engine.records import aligned_zeros

PAIR = 2 * CACHE_LINE // 8  # int64 in two cache lines


def worker_rows(n_workers: int, n: int) -> Array:
    """Return int64[n_workers, at least n], zeros. No two workers write to a pair of cache lines,
    which processors load together."""
    length = -(-n // PAIR) * PAIR
    return aligned_zeros(n_workers * length, np.dtype(np.int64)).reshape(n_workers, length)


def build_crew(net: Net, n_workers: int) -> Crew:
    """Return the division before a run: every port weighs the same."""
    n_nodes = net.first_port.shape[0] - 1
    crew = grouped(
        Crew,
        owner=np.zeros(n_nodes, np.int32),
        order=np.argsort(_positions(net), kind="stable"),
        first=np.zeros(n_workers, np.int64),
        ends=np.zeros(n_workers, np.int64),
        nodes=np.zeros(n_nodes, np.int64),
        dealt=worker_rows(1, 1)[0],
        left=worker_rows(n_workers, 1),
        done=worker_rows(n_workers, 1),
        pace=np.array([1, 0]),
        ending=worker_rows(1, 1)[0],
    )
    _divide(crew, np.diff(net.first_port) + 1)
    return crew


def rebalance(net: Net, links: LinkState, crew: Crew) -> None:
    """Divide the nodes by the packets that arrived so far."""
    arrived = np.concatenate([[0], np.cumsum(links.readers["head"])])
    _divide(crew, np.diff(arrived[net.first_port]) + 1)


def divide(net: Net, n_parts: int) -> Array:
    """Return int32[n_nodes]: the part of each node."""
    order = np.argsort(_positions(net), kind="stable")
    return _parts(order, np.diff(net.first_port) + 1, n_parts)


def _divide(crew: Crew, weights: Array) -> None:
    """Give every worker a range of nodes of about the same weight. Weights are positive."""
    n_workers = crew.left.shape[0]
    np.asarray(crew.owner)[:] = _parts(np.asarray(crew.order), weights, n_workers)
    counts = np.bincount(crew.owner, minlength=n_workers)
    crew.first[1:] = np.cumsum(counts)[:-1]


def _parts(order: Array, weights: Array, n_parts: int) -> Array:
    ordered = weights[order]
    middle = np.cumsum(ordered) - ordered / 2
    parts = np.empty(order.size, np.int32)
    parts[order] = middle * n_parts // ordered.sum()
    return parts


def _positions(net: Net) -> Array:
    """Return float64[n_nodes]: hosts in a row, switches among the hosts below them."""
    n_nodes = net.first_port.shape[0] - 1
    near, far = net.port_node, net.port_node[net.port_peer]
    low, high = np.full(n_nodes, np.inf), np.full(n_nodes, -np.inf)
    low[: net.n_hosts] = high[: net.n_hosts] = np.arange(net.n_hosts)
    positions = np.full(n_nodes, net.n_hosts / 2)
    positions[: net.n_hosts] = low[: net.n_hosts]
    while True:
        new = np.isinf(low[near]) & ~np.isinf(low[far])
        if not new.any():
            return positions
        above, below = near[new], far[new]
        first, last = low[below], high[below]
        np.minimum.at(low, above, first)
        np.maximum.at(high, above, last)
        tier = np.unique(above)
        positions[tier] = _spread(low[tier], high[tier])


def _spread(low: Array, high: Array) -> Array:
    """Return a position in each range; those in equal ranges are at even distances."""
    _, group, counts = np.unique(
        np.stack([low, high]), axis=1, return_inverse=True, return_counts=True
    )
    group = group.reshape(-1)
    order = np.argsort(group, kind="stable")
    number = np.empty(order.size, np.int64)
    number[order] = np.arange(order.size) - np.repeat(np.cumsum(counts) - counts, counts)
    share: Array = low + (number + 0.5) / counts[group] * (high - low)
    return share
