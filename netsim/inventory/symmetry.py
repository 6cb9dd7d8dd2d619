"""Color refinement: equivalent nodes, which reduce a large regular network to a small one.

Nodes keep one color while their cables, summed by the color of the far end, are equal. A fat tree
of any size has as many colors as tiers, and a few more if it is bisected.
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


def hash_words(values: NDArray[np.integer]) -> Words:
    """Return a pseudo-random 64-bit word for each number (SplitMix64)."""
    words: Words = (np.asarray(values).astype(np.uint64) + np.uint64(1)) * _STEP
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))


def refine_colors(color: Ints, node: Ints, peer: Ints, label: NDArray[np.integer]) -> Ints:
    """Return the coarsest regular refinement of `color`, numbered from 0.

    Args:
        color: int64[n], initial colors of nodes.
        node, peer: int64[k], both ends of each link, with both directions of a cable.
        label: integers [k]; nodes of one color have equal sums of labels over links to each color.
    """
    label_words = label.astype(np.uint64)
    while True:
        known = int(color.max(initial=-1)) + 1
        seen = hash_words(color)
        np.add.at(seen, node, label_words * hash_words(hash_words(color)[peer]))
        finer = np.unique(seen, return_inverse=True)[1].reshape(-1).astype(np.int64)
        if int(finer.max(initial=-1)) + 1 == known:
            return color
        color = finer


def kinds_of_networks(network: Network) -> list[Ints]:
    """Return the networks of hosts' ports, with equal ones grouped, in order."""
    far = network.port_node[network.port_peer].astype(np.int64)
    start = network.tier.astype(np.int64) + 1
    cable = hash_words(network.port_rate_bps) ^ hash_words(hash_words(network.port_delay_ps))
    color = refine_colors(start, network.port_node.astype(np.int64), far, cable)
    makeup = np.zeros(int(network.switch_network.max()) + 1, np.uint64)
    np.add.at(makeup, network.switch_network, hash_words(color[network.n_hosts :]))
    first = np.unique(makeup, return_index=True)[1]
    return [np.flatnonzero(makeup == makeup[one]) for one in np.sort(first).tolist()]
