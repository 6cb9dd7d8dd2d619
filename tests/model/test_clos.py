"""Counts of trees by formula: those of the paper, and those of trees that are settled."""

from __future__ import annotations

import pytest
from tree_case import tree_params

from netsim.model.trees import (
    fabric_cables_needed,
    most_hosts,
    switches_needed,
    tiers_needed,
    whole_switches_needed,
)
from netsim.topologies import fat_tree

GPUS = 800_000


def test_one_pport_pair_takes_four_tiers() -> None:
    assert most_hosts(3, 64) == 65_536 < GPUS <= most_hosts(4, 64) == 2_097_152
    assert tiers_needed(GPUS, 64) == 4
    assert switches_needed(GPUS, 4, 64) == 87_500
    assert fabric_cables_needed(GPUS, 4) == 2_400_000


def test_four_pport_pairs_save_a_tier_and_a_third_of_the_links() -> None:
    """A chip of 64 x 800G has 256 ports of 200G; four of its cables are one of 800G."""
    assert tiers_needed(GPUS, 256) == 3
    assert 4 * switches_needed(GPUS, 3, 256) == 62_500
    assert fabric_cables_needed(GPUS, 3) * 3 == fabric_cables_needed(GPUS, 4) * 2


def test_72_rails_take_three_tiers_and_76_with_four_pport_pairs_two() -> None:
    """The 39K chips that the paper has of the latter are of 76 times its 11,000, not of 800,000."""
    rail = GPUS // 72
    assert rail == 11_111
    assert tiers_needed(rail, 64) == 3
    assert tiers_needed(GPUS // 76, 256) == 2
    assert 4 * switches_needed(76 * 11_000, 2, 256) == 39_187.5
    assert 4 * 76 * whole_switches_needed(11_044, 2, 256) == 39_824
    assert fabric_cables_needed(GPUS, 2) == GPUS
    assert fabric_cables_needed(GPUS, 2) * 3 == fabric_cables_needed(GPUS, 4)


@pytest.mark.parametrize("tiers", [2, 3, 4])
@pytest.mark.parametrize("radix", [4, 6, 32, 64])
def test_formulas_are_those_of_full_trees(tiers: int, radix: int) -> None:
    tree = fat_tree.settle(tree_params(tiers=tiers, radix=radix))
    hosts = tree.n_hosts
    assert hosts == most_hosts(tiers, radix)
    assert (tiers_needed(hosts, radix), tiers_needed(hosts + 1, radix)) == (tiers, tiers + 1)
    assert sum(tree.switches) == switches_needed(hosts, tiers, radix)
    assert sum(tree.switches) == whole_switches_needed(hosts, tiers, radix)
    assert sum(tree.cables) == hosts + fabric_cables_needed(hosts, tiers)
    assert set(tree.ports) == {radix}
