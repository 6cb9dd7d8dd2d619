"""Counts of fully provisioned Clos networks by formula, of any size."""

from __future__ import annotations

from typing import NamedTuple


class Clos(NamedTuple):
    """Switch chips, and cables between switches, which hold the links of all planes together."""

    chips: float
    cables: float


def clos(hosts: int, radix: int, tiers: int, planes: int = 1) -> Clos:
    """Of trees of so many tiers, of switches of `radix` ports; hosts have a port in each plane.

    Rails only part the hosts among trees that need fewer tiers: all of them together have as many
    chips and cables as one tree of those tiers would.
    """
    return Clos(planes * (2 * tiers - 1) * hosts / radix, (tiers - 1) * float(hosts))
