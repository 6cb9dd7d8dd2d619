"""Rank groups and the placement of ranks on hosts."""

from __future__ import annotations

import numpy as np
from raises_input import raises_input

from netsim.workloads.job.placement import GROUPS, Ranks, place

SMALL = Ranks(tp=2, cp=2, dp=8, pp=3, levels=(2, 2, 2), ep=4)


def placed(name: str, ranks: Ranks, rack_hosts: int, n_hosts: int | None = None) -> np.ndarray:
    return place(name, ranks, rack_hosts, n_hosts or len(ranks), np.random.default_rng(1))


def test_groups_of_each_kind_partition_the_ranks() -> None:
    for kind in GROUPS:
        groups = SMALL.groups(kind)
        assert sorted(groups.reshape(-1)) == list(range(len(SMALL)))
        assert (np.diff(groups, axis=1) > 0).all()


def test_ranks_of_a_group_differ_only_along_its_axis() -> None:
    coordinates = SMALL.coordinates()
    for kind, axes in (("tp", "tp"), ("cp", "cp"), ("pp", "pp"), ("dp", "dp cp"), ("ep", "dp")):
        for axis, values in coordinates.items():
            of_groups = values[SMALL.groups(kind)]
            alike = (of_groups == of_groups[:, :1]).all()
            assert alike == (axis not in axes.split())


def test_data_parallel_levels_together_reach_the_whole_group() -> None:
    # From any rank, S1, then S2, then S3 reach every rank of its data-parallel group.
    reached = {0}
    for kind in ("s1", "s2", "s3"):
        of_rank = {rank: group for group in SMALL.groups(kind).tolist() for rank in group}
        reached = {other for rank in reached for other in of_rank[rank]}
    assert sorted(reached) == SMALL.groups("dp")[0].tolist()
    dp = SMALL.coordinates()["dp"]
    assert sorted(set(dp[SMALL.groups("s1")[0]])) == [0, 1]
    assert dp[SMALL.groups("s2")[0]].tolist() == [0, 2]
    assert dp[SMALL.groups("s3")[0]].tolist() == [0, 4]


def test_paper_placement_fills_racks_with_replicas_of_one_stage() -> None:
    # Four replicas of 18 tensor ranks, 5 racks per site and stage, two sites, 3 stages.
    ranks = Ranks(tp=18, dp=40, pp=3, levels=(4, 5, 2))
    hosts = placed("paper", ranks, 72)
    assert sorted(hosts) == list(range(len(ranks)))
    rack, number = np.divmod(hosts, 72)
    at = ranks.coordinates()
    for one in np.unique(rack):
        assert np.unique(at["pp"][rack == one]).size == 1
        assert np.unique(at["dp"][rack == one]).size == 4
    for kind in ("pp", "s2", "s3"):  # all on one rail
        on = number[ranks.groups(kind)]
        assert (on == on[:, :1]).all()
    for kind in ("tp", "s1"):  # all in one rack
        on = rack[ranks.groups(kind)]
        assert (on == on[:, :1]).all()
    assert set(rack[at["dp"] < 20]) == set(range(15))  # the first site


def test_rail_aligned_placement_puts_dp_groups_on_rails() -> None:
    ranks = Ranks(tp=4, dp=6, pp=4)
    rack, number = np.divmod(placed("rail_aligned", ranks, 8), 8)
    on = number[ranks.groups("dp")]
    assert (on == on[:, :1]).all()
    assert (np.diff(rack[ranks.groups("dp")]) == 2).all()
    on = rack[ranks.groups("tp")]
    assert (on == on[:, :1]).all()


def test_impossible_placements_are_rejected() -> None:
    for name, ranks, message in [
        ("paper", Ranks(tp=4, dp=4, levels=(4, 1, 1)), "4"),
        ("rail_aligned", Ranks(tp=4, dp=4), ("4", "8")),
        ("consecutive", Ranks(tp=4, dp=8), ("32", "16")),
        ("random", Ranks(tp=4, dp=8), "32"),
        ("near", Ranks(tp=4, dp=4), "near"),
    ]:
        with raises_input(message):
            placed(name, ranks, 8, 16)


def test_indivisible_group_sizes_are_rejected() -> None:
    with raises_input("2", "1", "8", key="layout.dp_levels"):
        Ranks(dp=8, levels=(2, 2, 1))
    with raises_input("8", "3", key="layout.ep"):
        Ranks(dp=8, ep=3)
