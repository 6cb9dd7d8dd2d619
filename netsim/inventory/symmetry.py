"""Which nodes look alike: color refinement, which makes a large regular network a small one.

Nodes have one color as long as their cables, added up by the color of the far end, are the same.
The colors of a fat tree of any size are as many as it has tiers, and a few more where it is cut
in two.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netsim.model.network import Network

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

_STEP, _FIRST, _SECOND = (
    np.uint64(word) for word in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


def scattered(values: NDArray[np.integer]) -> Words:
    """A 64-bit word for each number, as if drawn by chance (SplitMix64)."""
    words: Words = (np.asarray(values).astype(np.uint64) + np.uint64(1)) * _STEP
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))


def refined(color: Ints, node: Ints, peer: Ints, label: NDArray[np.integer]) -> Ints:
    """The coarsest colors, from 0 on, that tell apart what `color` does, and are regular.

    Args:
        color: int64[n], the nodes' first colors.
        node, peer: int64[k], the two ends of each link, both directions of a cable among them.
        label: whole numbers [k]; what nodes of one color have in common is the sum of these over
            the links to each color.
    """
    label_words = label.astype(np.uint64)
    while True:
        known = int(color.max(initial=-1)) + 1
        seen = scattered(color)
        np.add.at(seen, node, label_words * scattered(scattered(color)[peer]))
        finer = np.unique(seen, return_inverse=True)[1].reshape(-1).astype(np.int64)
        if int(finer.max(initial=-1)) + 1 == known:
            return color
        color = finer


def kinds_of_networks(network: Network) -> list[Ints]:
    """The networks that hosts' ports lead to, those that are alike together, in order."""
    far = network.port_node[network.port_peer].astype(np.int64)
    start = network.tier.astype(np.int64) + 1
    cable = scattered(network.port_rate_bps) ^ scattered(scattered(network.port_delay_ps))
    color = refined(start, network.port_node.astype(np.int64), far, cable)
    makeup = np.zeros(int(network.switch_network.max()) + 1, np.uint64)
    np.add.at(makeup, network.switch_network, scattered(color[network.n_hosts :]))
    first = np.unique(makeup, return_index=True)[1]
    return [np.flatnonzero(makeup == makeup[one]) for one in np.sort(first).tolist()]
