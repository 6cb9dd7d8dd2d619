"""Slim Fly: switches of diameter two, after the graphs of McKay, Miller and Siran.

For a prime `q` = 4w + 1 (5, 13, 17, 29, 37, ...) there are 2 q^2 switches, each with (3q - 1)/2
cables to others. Any two switches are at most two cables apart. Switch a_x_y is connected to
a_x_z if y - z is an even power of a primitive element of the field of q numbers, b_m_c to b_m_z if
c - z is an odd one, and a_x_y to b_m_c if y = m x + c.

Packets take all shortest paths. Hosts are numbered switch by switch.

Besta and Hoefler, "Slim Fly: A Cost Effective Low-Diameter Network Topology", SC 2014.
"""

from __future__ import annotations

import numpy as np

from netsim.errors import InputError
from netsim.model.columns import Ints
from netsim.network import Network
from netsim.params import REQUIRED, Param, Params
from netsim.topologies._direct import LINKS, Cables, build_direct

LARGEST = 1000

PARAMS = [
    Param("q", "count", REQUIRED, "a prime of the form 4w + 1", minimum=5, maximum=LARGEST),
    Param(
        "hosts_per_switch", "count", None,
        "hosts at every switch; default: half its cables to others, rounded up", minimum=1,
    ),
    *LINKS,
]  # fmt: skip


def build(params: Params) -> Network:
    """Return the network of `params` (see PARAMS). Raises InputError if q is not such a prime."""
    q = params["q"]
    if q % 4 != 1 or any(q % k == 0 for k in range(2, q)):
        hint = "5, 13, 17, 29, 37 or another prime that leaves 1 if divided by 4"
        raise InputError(f"{q} is not a prime of the form 4w + 1", key="topology.q", hint=hint)
    hosts = params["hosts_per_switch"] or -(-((3 * q - 1) // 2) // 2)
    powers = _powers(q)
    number = np.arange(2 * q * q).reshape(2, q, q)
    within = [_pairs(number[side], powers[side::2]) for side in (0, 1)]
    x, m, c = (one.reshape(-1) for one in np.indices((q, q, q)))
    across = np.stack([number[0, x, (m * x + c) % q], number[1, m, c]], axis=1)
    names = [f"{side}_{x}_{y}" for side in "ab" for x in range(q) for y in range(q)]
    cables = [Cables(np.concatenate([*within, across]))]
    return build_direct(f"slim_fly_{q}", params, [names], hosts, cables, (2, q, q))


def _powers(q: int) -> list[int]:
    """Return the powers of a primitive element of the field of q numbers, from 0 on."""
    for element in range(2, q):
        powers = [pow(element, k, q) for k in range(q - 1)]
        if len(set(powers)) == q - 1:
            return powers
    raise AssertionError(q)


def _pairs(number: Ints, differences: list[int]) -> Ints:
    """Return int64[n, 2], the switches of a row that differ by one of ``differences``."""
    y, z = np.triu_indices(len(number), 1)
    joined = np.isin(z - y, differences)
    y, z = y[joined], z[joined]
    return np.stack([number[:, y], number[:, z]], axis=-1).reshape(-1, 2)
