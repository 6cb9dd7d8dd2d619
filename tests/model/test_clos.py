"""Formulas for tree sizes, compared with the paper's counts and with built trees."""

from __future__ import annotations

import pytest
from tree_case import tree_params

from netsim.model.trees import fabric_cables_needed, most_hosts, switches_needed
from netsim.topologies import fat_tree

GPUS = 800_000


def tiers_needed(hosts: int, radix: int) -> int:
    """Return the fewest tiers of switches with `radix` ports (even, at least 4) for the hosts."""
    tiers = 1
    while most_hosts(tiers, radix) < hosts:
        tiers += 1
    return tiers


def whole_switches_needed(hosts: int, tiers: int, radix: int) -> int:
    """Return the sum over tiers of whole switches; those at the top have twice the ports down."""
    lower = -(-2 * hosts // radix)
    return (tiers - 1) * lower + -(-lower // 2)


def test_paper_cluster_on_one_plane_needs_four_tiers() -> None:
    assert most_hosts(3, 64) == 65_536 < GPUS <= most_hosts(4, 64) == 2_097_152
    assert tiers_needed(GPUS, 64) == 4
    assert switches_needed(GPUS, 4, 64) == 87_500
    assert fabric_cables_needed(GPUS, 4) == 2_400_000


def test_four_planes_save_one_tier_and_a_third_of_the_cables() -> None:
    """A 64 x 800G switch chip has 256 ports of 200G; four of their cables equal one of 800G."""
    assert tiers_needed(GPUS, 256) == 3
    assert 4 * switches_needed(GPUS, 3, 256) == 62_500
    assert fabric_cables_needed(GPUS, 3) * 3 == fabric_cables_needed(GPUS, 4) * 2


def test_rails_need_three_tiers_or_two_with_four_planes() -> None:
    """With 76 rails, the paper's 39K chips follow from 76 * 11,000 GPUs instead of 800,000."""
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
def test_formulas_match_the_counts_of_built_full_trees(tiers: int, radix: int) -> None:
    tree = fat_tree.settle(tree_params(tiers=tiers, radix=radix))
    hosts = tree.n_hosts
    assert hosts == most_hosts(tiers, radix)
    assert (tiers_needed(hosts, radix), tiers_needed(hosts + 1, radix)) == (tiers, tiers + 1)
    assert sum(tree.switches) == switches_needed(hosts, tiers, radix)
    assert sum(tree.switches) == whole_switches_needed(hosts, tiers, radix)
    assert sum(tree.cables) == hosts + fabric_cables_needed(hosts, tiers)
    assert set(tree.ports) == {radix}
