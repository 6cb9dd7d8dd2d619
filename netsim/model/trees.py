"""Fat trees of any number of tiers: shape, construction, and counts by formula.

A tree of n tiers is several trees of n - 1 tiers with additional switches above: two tiers are a
pod, pods and cores make three tiers, and so on. Every switch of a tier has the same number of
switches above it, in its own subtree only, with the same number of parallel cables to each. There
is one path down from a switch to each leaf below it, except for parallel cables; the choice is on
the way up. (In the literature: extended generalized fat tree, XGFT(n; children; 1, parents).)

The fully provisioned tree of n tiers of switches with k ports, half of them up except at the top,
has one host for each choice of ports on the way down:

    hosts = 2 (k/2)^n                                       k^2/2, k^3/4, k^4/8

Each host's share is two ports of a switch in every tier (one at the top), and one cable between
adjacent tiers. N hosts, even if the tree is not full, need

    switches = (2n - 1) N / k,    cables between switches = (n - 1) N,    and N cables to hosts

p planes divide a host's port into p ports of 1/p of its rate, and a switch chip then has p times as
many ports: fewer tiers suffice. Rails divide the hosts among separate networks. After "I've Got 99
Problems But FLOPS Ain't One" (HotNets 2024), section 6.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import prod

import numpy as np
from numpy.typing import NDArray

from netsim.model.builder import NetworkBuilder

TIERS = ("leaf", "spine", "core", "supercore")
"""Names of the switches of each tier, from the hosts up."""


@dataclass(frozen=True)
class Tree:
    """The settled shape of a tree. All tuples start at the leaves.

    Attributes:
        children: n counts: hosts of a leaf, then subtrees below a switch of each further tier, in
            each of which it is connected to one switch.
        parents: n - 1 counts: switches above a switch that it is connected to.
        bundles: n - 1 counts: parallel cables between a switch and each of its parents.
        rates_bps, delays_ps: n values: of the cables below each tier; the first are those to hosts.
        latencies_ps: n values: of the switches of each tier.
    """

    children: tuple[int, ...]
    parents: tuple[int, ...]
    bundles: tuple[int, ...]
    rates_bps: tuple[int, ...]
    delays_ps: tuple[int, ...]
    latencies_ps: tuple[int, ...]

    @property
    def tiers(self) -> int:
        return len(self.children)

    @property
    def n_hosts(self) -> int:
        return prod(self.children)

    @property
    def switches(self) -> tuple[int, ...]:
        return tuple(
            prod(self.children[tier + 1 :]) * prod(self.parents[:tier])
            for tier in range(self.tiers)
        )

    @property
    def cables(self) -> tuple[int, ...]:
        """Number of cables below each tier; the first are those to hosts."""
        above = zip(self.switches[:-1], self.uplinks, strict=True)
        return (self.n_hosts, *map(prod, above))

    @property
    def ports(self) -> tuple[int, ...]:
        return tuple(map(sum, zip(self.downlinks, (*self.uplinks, 0), strict=True)))

    @property
    def downlinks(self) -> tuple[int, ...]:
        return tuple(map(prod, zip(self.children, (1, *self.bundles), strict=True)))

    @property
    def uplinks(self) -> tuple[int, ...]:
        return tuple(map(prod, zip(self.parents, self.bundles, strict=True)))


def reserve_trees(builder: NetworkBuilder, tree: Tree, planes: int = 1) -> None:
    """Announce `planes` equal trees and their hosts to the builder. Raises InputError if they
    cannot be built or do not fit into memory."""
    builder.reserve(
        hosts=tree.n_hosts,
        switches=planes * sum(tree.switches),
        cables=planes * sum(tree.cables),
        ports=max(planes, *tree.ports),
    )


def add_tree(
    builder: NetworkBuilder, tree: Tree, hosts: NDArray[np.int64], prefix: str = "", nic: int = 0
) -> None:
    """Add the switches and cables of a tree above existing hosts, filling leaf after leaf.

    Switches are added tier by tier from the leaves up, those of a subtree consecutively; cables
    from the hosts up, switch by switch, in the order of their upper ends. A switch's ports are thus
    those to its children, then those to its parents, both in order.

    Args:
        builder: gets the switches and cables.
        hosts: int64[tree.n_hosts], their ids.
        prefix: prepended to the name of each switch, such as "plane0.".
        nic: the NIC of each host that gets a port.
    """
    nodes = []
    for tier, count in enumerate(tree.switches):
        names = [f"{prefix}{TIERS[tier]}{i}" for i in range(count)]
        added = builder.add_switches(names, tier, tree.latencies_ps[tier])
        nodes.append(np.arange(added.start, added.stop))
    above = np.repeat(nodes[0], tree.children[0])
    builder.cables(hosts, above, tree.rates_bps[0], tree.delays_ps[0], nic=nic)
    for tier, (parents, bundle) in enumerate(zip(tree.parents, tree.bundles, strict=True)):
        width = prod(tree.parents[:tier])  # switches of this tier in a subtree
        subtree, index = np.divmod(np.arange(nodes[tier].size), width)
        first = subtree // tree.children[tier + 1] * (width * parents) + index * parents
        up = first[:, None] + np.repeat(np.arange(parents), bundle)
        builder.cables(
            np.repeat(nodes[tier], up.shape[1]),
            nodes[tier + 1][up.reshape(-1)],
            tree.rates_bps[tier + 1],
            tree.delays_ps[tier + 1],
        )


def most_hosts(tiers: int, radix: int) -> int:
    """Return the hosts of the largest fully provisioned tree of switches with even `radix`."""
    reached: int = 2 * (radix // 2) ** tiers
    return reached


def switches_needed(hosts: int, tiers: int, radix: int) -> Fraction:
    """Return the switches of a fully provisioned tree; a fraction if not evenly divisible."""
    return Fraction((2 * tiers - 1) * hosts, radix)


def fabric_cables_needed(hosts: int, tiers: int) -> int:
    """Return the cables between switches of a fully provisioned tree, each of a host's rate."""
    return (tiers - 1) * hosts
