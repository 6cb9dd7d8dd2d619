"""HyperX (flattened butterfly, Hamming graph): a full mesh in every dimension.

`shape = "8x8"`: switches in a grid; each has `bundle` cables to every switch that differs in one
coordinate only. One dimension is a full mesh of all switches. Hosts are numbered switch by switch,
and the last coordinate changes fastest.

`paths`: "dimension_order" corrects the first coordinate, then the second, and so on, by a single
path; "minimal" takes all shortest paths.

Ahn et al., "HyperX: Topology, Routing, and Packaging of Efficient Large-Scale Networks", SC 2009;
Kim, Dally and Abts, "Flattened Butterfly: A Cost-Efficient Topology for High-Radix Networks", ISCA
2007.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from netsim.model.columns import Ints
from netsim.network import Network
from netsim.params import REQUIRED, Param, Params
from netsim.topologies._direct import (
    DIMENSION_ORDER,
    LINKS,
    MINIMAL,
    Cables,
    build_direct,
    names_of,
    numbers,
    paths_param,
    places,
)

PARAMS = [
    Param("shape", "text", REQUIRED, 'switches in each dimension, such as "8x8"'),
    Param("hosts_per_switch", "count", 1, "hosts at every switch", minimum=1),
    Param("bundle", "count", 1, "parallel cables between two switches", minimum=1),
    paths_param(MINIMAL),
    *LINKS,
]  # fmt: skip


def build(params: Params) -> Network:
    """Return the network of `params` (see PARAMS). Raises InputError for a wrong shape."""
    shape = numbers(params["shape"], "shape", 1)
    in_order = params["paths"] == DIMENSION_ORDER
    cables = [
        Cables(np.repeat(_cables(shape, k), params["bundle"], axis=0), dimension=k * in_order)
        for k in range(len(shape))
    ]
    names = names_of("s", places(shape))
    name = f"hyperx_{params['shape']}"
    return build_direct(name, params, [names], params["hosts_per_switch"], cables, shape)


def _cables(shape: tuple[int, ...], dimension: int) -> Ints:
    """Return int64[n, 2], all pairs of switches that differ in one dimension only."""
    number = np.arange(np.prod(shape)).reshape(shape)
    lines = np.moveaxis(number, dimension, -1).reshape(-1, shape[dimension])
    pairs = np.array(list(combinations(range(shape[dimension]), 2)), np.int64).reshape(-1, 2)
    return lines[:, pairs].reshape(-1, 2)
