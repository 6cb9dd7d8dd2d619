"""Counts of folded Clos networks (fat trees) by formula: nothing is built.

A tree of n tiers of switches with k ports each, half of them up but at the top, serves as many
hosts as there are ways to choose a port on the way down:

    hosts = 2 (k/2)^n                                       k^2/2, k^3/4, k^4/8

Each host's share of every tier is two ports of a switch, at the top one, and of the cables between
any two tiers one. So N hosts, whether the tree is full or not, take

    switches = (2n - 1) N / k,    cables between switches = (n - 1) N,    and N cables to hosts

Planes divide a port of the host's rate into p of a p-th of it, and a switch's chip then has p times
as many ports: fewer tiers reach the same hosts. Rails divide the hosts among networks of their own.

After "I've Got 99 Problems But FLOPS Ain't One" (HotNets 2024), section 6.1.
"""

from __future__ import annotations

from fractions import Fraction


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
