"""Torus (k-ary n-cube) or mesh of any dimensions, plain or twisted.

`shape = "8x8x8"`: switches in a grid, with a cable to the next one in each dimension and, unless
`wrap = false`, from the last to the first. A dimension of 2 has one cable. Hosts are numbered
switch by switch, and the last coordinate changes fastest: s0_0_1 is the second switch of "4x4x8".

`paths`: "dimension_order" takes the shortest way in the first dimension, then in the second, and
so on, and both ways where they are equally long; "minimal" takes all shortest paths.

`twist` (switches): the cable that wraps a dimension also shifts by `twist` in every dimension that
is longer. It shortens the paths of k x k x 2k and k x 2k x 2k with a twist of k, the twisted tori
of TPU v4 (Jouppi et al., "TPU v4: An Optically Reconfigurable Supercomputer for Machine Learning
with Hardware Support for Embeddings", ISCA 2023; Camara et al., "Twisted Torus Topologies for
Enhanced Interconnection Networks", IEEE TPDS 21(12), 2010).

Dally and Towles, "Principles and Practices of Interconnection Networks", chapter 5.
"""

from __future__ import annotations

import numpy as np

from netsim.errors import InputError
from netsim.model.columns import Ints
from netsim.network import Network
from netsim.params import REQUIRED, Param, Params
from netsim.topologies._direct import (
    DIMENSION_ORDER,
    LINKS,
    Cables,
    build_direct,
    names_of,
    numbers,
    paths_param,
    places,
)

PARAMS = [
    Param("shape", "text", REQUIRED, 'switches in each dimension, such as "4x4x8"'),
    Param("hosts_per_switch", "count", 1, "hosts at every switch", minimum=1),
    Param("wrap", "bool", True, "cables from the last to the first switch; false: a mesh"),
    Param("twist", "count", 0, "shift of wrapping cables in longer dimensions"),
    paths_param(DIMENSION_ORDER),
    *LINKS,
]  # fmt: skip


def build(params: Params) -> Network:
    """Return the network of `params` (see PARAMS). Raises InputError for a wrong shape or twist."""
    shape = numbers(params["shape"], "shape", 2)
    twist = params["twist"]
    if twist and not params["wrap"]:
        raise InputError("a mesh has no twist", key="topology.twist", hint="wrap = true")
    if twist >= max(shape):
        hint = f"less than the longest dimension, {max(shape)}"
        raise InputError(f"a twist of {twist}", key="topology.twist", hint=hint)
    in_order = params["paths"] == DIMENSION_ORDER
    cables = [
        Cables(_cables(shape, k, params["wrap"], twist), dimension=k if in_order else 0)
        for k in range(len(shape))
    ]
    names = names_of("s", places(shape))
    kind = "torus" if params["wrap"] else "mesh"
    return build_direct(
        f"{kind}_{params['shape']}", params, [names], params["hosts_per_switch"], cables, shape
    )


def _cables(shape: tuple[int, ...], dimension: int, wrap: bool, twist: int) -> Ints:
    """Return int64[n, 2], the switches that cables of a dimension connect."""
    at = places(shape)
    length = shape[dimension]
    wraps = at[:, dimension] == length - 1
    beyond = at.copy()
    beyond[:, dimension] += 1
    longer = np.array(shape) > length
    beyond[wraps] += twist * longer
    # A dimension of 2 without a twist would have two cables between the same switches.
    kept = ~wraps | (wrap and (length > 2 or bool(twist and longer.any())))
    to = np.ravel_multi_index(tuple((beyond % shape).T), shape)
    ends: Ints = np.stack([np.arange(len(at)), to], axis=1)[kept]
    return ends
