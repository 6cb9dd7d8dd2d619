"""Collectives as traffic."""

import time
from unittest.mock import patch

from engine_runs import DROP_TAIL, build, run
from raises_input import mentions, raises_input
from task_times import operations_of
from traffic_cases import made, make, star

from netsim.workloads.collectives import schedule
from netsim.workloads.collectives.steps import CollectiveOptions

US = 10**6


def test_groups_are_contiguous_or_strided() -> None:
    load = made("collective", 6, group_size=3, size="3KB", algorithm="ring")
    assert {(s // 3, d // 3) for s, d in zip(load.flows.src, load.flows.dst, strict=True)} == {
        (0, 0),
        (1, 1),
    }
    load = made("collective", 6, group_size=3, size="3KB", groups="strided", algorithm="ring")
    assert ((load.flows.src - load.flows.dst) % 2 == 0).all()
    assert load.flows.kinds == ("all_reduce",)
    assert operations_of(load).n.tolist() == [3] * 6


def test_simulated_duration_matches_the_note() -> None:
    load = made("collective", 4, size="64KiB", algorithm="ring", latency="2us")
    assert mentions(load.notes, "all_reduce", "4", "33.98us", "100Gbps", "2.33us")
    engine = build(star(4), load.flows, "datagram", DROP_TAIL, tasks=load.tasks, jit=False)
    took_ps = int(run(engine).task_states().end_ps.max())
    # Six steps of four packets each; the switch then sends the last packet once more.
    assert took_ps == 6 * (2 * US + 4 * 332_800 + 2 * US + 332_800)


def test_repeat_runs_the_barrier_several_times() -> None:
    load = made("collective", 4, what="barrier", repeat=3, algorithm="dissemination")
    assert load.flows.size_bytes.tolist() == [1] * 3 * 8
    assert operations_of(load).group.max() == 2


def test_memory_limit_is_checked_before_tasks_are_built() -> None:
    """Each second send of a direct all-reduce waits for all deliveries: n^3 waits."""
    began = time.process_time()
    with (
        patch("netsim.common.memory.available_bytes", return_value=10**9),
        raises_input("all_reduce", "400", key="traffic.algorithm"),
    ):
        made("collective", 400, algorithm="direct")
    assert time.process_time() - began < 5


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
