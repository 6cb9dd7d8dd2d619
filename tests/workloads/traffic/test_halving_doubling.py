"""All-reduce by halving and doubling: partners, sizes and dependencies of its flows."""

from __future__ import annotations

from raises_input import raises_input
from traffic_cases import make

from netsim.workloads.collectives import CollectiveOptions, schedule


def test_groups_exchange_by_the_schedule_of_the_collective() -> None:
    for n_hosts, group, size in [(8, 8, 1000), (8, 4, 17), (2, 2, 3)]:
        table = make("halving_doubling", n_hosts, size=f"{size}B", group_size=group)
        steps = schedule("all_reduce", group, size, CollectiveOptions("halving_doubling"))
        shape = (-1, n_hosts // group, group)
        assert len(table) == len(steps) * n_hosts // group
        for first in range(n_hosts // group):
            own = [
                column.reshape(shape)[:, first].reshape(-1)
                for column in (table.src, table.dst, table.size_bytes)
            ]
            assert (own[0] == steps.src + first * group).all()
            assert (own[1] == steps.dst + first * group).all()
            assert (own[2] == steps.size_bytes).all()


def test_invalid_group_sizes_and_message_sizes_are_rejected() -> None:
    for given, message in [
        ({"group_size": 3}, "3"),
        ({"group_size": 16}, "8"),
        ({"size": "7B"}, ("7", "8")),
    ]:
        with raises_input(message):
            make("halving_doubling", 8, **given)
