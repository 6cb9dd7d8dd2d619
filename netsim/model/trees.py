"""Fat trees of any number of tiers: their shape as numbers, and how they are built.

A tree of n tiers is several trees of n - 1 tiers with further switches above: two tiers are a pod,
pods and cores make three tiers, and so on. Every switch of a tier is joined to the same number of
switches above it, in its own subtree alone, by the same number of parallel cables. So there is one
way down from a switch to each leaf below it but for parallel cables, and the choice is made on the
way up. (In the literature an extended generalized fat tree, XGFT(n; children; 1, parents).)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import prod

import numpy as np
from numpy.typing import NDArray

from netsim.model.builder import NetworkBuilder

TIERS = ("leaf", "spine", "core", "supercore")
"""What the switches of each tier are called, from the hosts up."""


@dataclass(frozen=True)
class Tree:
    """A tree with everything settled. All tuples begin at the leaves.

    Attributes:
        children: n counts: the hosts of a leaf, and of a switch of each further tier how many
            subtrees are below it, in each of which it is joined to one switch.
        parents: n - 1 counts: the switches above a switch that it is joined to.
        bundles: n - 1 counts: the parallel cables between a switch and each of its parents.
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
        """How many tiers of switches there are."""
        return len(self.children)

    @property
    def n_hosts(self) -> int:
        return prod(self.children)

    @property
    def switches(self) -> tuple[int, ...]:
        """The switches of each tier."""
        return tuple(
            prod(self.children[tier + 1 :]) * prod(self.parents[:tier])
            for tier in range(self.tiers)
        )

    @property
    def cables(self) -> tuple[int, ...]:
        """The cables below each tier; the first are those to hosts."""
        above = zip(self.switches[:-1], self.uplinks, strict=True)
        return (self.n_hosts, *map(prod, above))

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports of a switch of each tier."""
        return tuple(map(sum, zip(self.downlinks, (*self.uplinks, 0), strict=True)))

    @property
    def downlinks(self) -> tuple[int, ...]:
        """The cables from a switch of each tier to what is below it."""
        return tuple(map(prod, zip(self.children, (1, *self.bundles), strict=True)))

    @property
    def uplinks(self) -> tuple[int, ...]:
        """The cables from a switch of each tier but the top one to those above it."""
        return tuple(map(prod, zip(self.parents, self.bundles, strict=True)))


def reserve_trees(builder: NetworkBuilder, tree: Tree, planes: int = 1) -> None:
    """Announce so many trees of one shape, and their hosts, to the builder.

    Raises:
        InputError: they cannot be built, or do not fit into memory.
    """
    builder.reserve(
        hosts=tree.n_hosts,
        switches=planes * sum(tree.switches),
        cables=planes * sum(tree.cables),
        edges=tree.switches[0],
        ports=max(planes, *tree.ports),
    )


def add_tree(
    builder: NetworkBuilder, tree: Tree, hosts: NDArray[np.int64], prefix: str = "", nic: int = 0
) -> None:
    """Add the switches and cables of a tree above hosts that are there, filling leaf after leaf.

    Switches are added tier by tier from the leaves up, those of a subtree one after the other;
    cables from the hosts up, switch by switch, in the order of what is above. So the ports of a
    switch are those to its children in their order, and then those to its parents in theirs.

    Args:
        builder: gets the switches and cables.
        hosts: int64[tree.n_hosts], their ids.
        prefix: before the name of each switch, such as "plane0.".
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
    """Hosts of the largest fully provisioned tree of switches with `radix` (even) ports."""
    reached: int = 2 * (radix // 2) ** tiers
    return reached


def tiers_needed(hosts: int, radix: int) -> int:
    """The fewest tiers of switches with `radix` ports (an even number from 4 on) for the hosts."""
    tiers = 1
    while most_hosts(tiers, radix) < hosts:
        tiers += 1
    return tiers


def switches_needed(hosts: int, tiers: int, radix: int) -> Fraction:
    """Switches of a fully provisioned tree; a fraction where they cannot be shared out evenly."""
    return Fraction((2 * tiers - 1) * hosts, radix)


def whole_switches_needed(hosts: int, tiers: int, radix: int) -> int:
    """The same in whole switches, tier by tier: those at the top have twice the ports down."""
    lower = -(-2 * hosts // radix)
    return (tiers - 1) * lower + -(-lower // 2)


def fabric_cables_needed(hosts: int, tiers: int) -> int:
    """Cables between switches of a fully provisioned tree, of a host's rate each."""
    return (tiers - 1) * hosts
