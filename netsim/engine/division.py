"""Divide the nodes of a network among workers.

Each worker gets a range of nodes in the order of their cables: a switch comes amid the nodes below
it. So most cables join nodes of one worker, and their packets stay in its core's cache. The
ranges are equal in packets that arrived so far, and follow them between calls of the engine.
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


def _divide(crew: Crew, weights: Array) -> None:
    """Give every worker a range of nodes of about the same weight. Weights are positive."""
    n_workers = crew.left.shape[0]
    ordered = weights[crew.order]
    middle = np.cumsum(ordered) - ordered / 2
    np.asarray(crew.owner)[crew.order] = middle * n_workers // ordered.sum()
    counts = np.bincount(crew.owner, minlength=n_workers)
    crew.first[1:] = np.cumsum(counts)[:-1]


def _positions(net: Net) -> Array:
    """Return float64[n_nodes]: hosts in a row, a switch in the middle of the nodes below it."""
    n_nodes = net.first_port.shape[0] - 1
    near, far = net.port_node, net.port_node[net.port_peer]
    found = np.full(n_nodes, np.nan)
    found[: net.n_hosts] = np.arange(net.n_hosts)
    while True:
        new = np.isnan(found[near]) & ~np.isnan(found[far])
        if not new.any():
            return np.nan_to_num(found, nan=net.n_hosts / 2)
        n_below = np.bincount(near[new], minlength=n_nodes)
        total = np.bincount(near[new], found[far[new]], n_nodes)
        found = np.where(n_below > 0, total / np.maximum(1, n_below), found)
