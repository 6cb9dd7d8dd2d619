"""Schedules of all algorithms: correct results in any delivery order, and bytes sent."""

from __future__ import annotations

import numpy as np
import pytest
from collective_play import at_last, play
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from raises_input import raises_input

from netsim.workloads.collectives import (
    ALGORITHMS,
    COLLECTIVES,
    CollectiveOptions,
    algorithm_of,
    schedule,
)
from netsim.workloads.collectives.choose import most_sends

CASES = [(name, what) for name, module in ALGORITHMS.items() for what in module.whats]


@pytest.mark.parametrize(("name", "what"), CASES)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_every_algorithm_delivers_the_correct_data(
    name: str, what: str, data: st.DataObject
) -> None:
    n = data.draw(st.integers(1, 11), "n")
    size = data.draw(st.integers(0, 4000), "size")
    how = CollectiveOptions(
        name,
        chunk_bytes=data.draw(st.none() | st.integers(60, 500), "chunk"),
        channels=data.draw(st.integers(1, min(3, max(1, size))), "channels"),
        window=data.draw(st.none() | st.integers(1, 4), "window"),
        root=data.draw(st.integers(0, n - 1), "root"),
        node=data.draw(st.sampled_from([k for k in range(1, n + 1) if n % k == 0]), "node"),
    )
    if name == "halving_doubling" and what != "all_reduce":
        assume(n & (n - 1) == 0)
    steps = schedule(what, n, size, how)
    assert not (steps.src == steps.dst).any()
    assert (steps.size_bytes >= 1).all()
    assert len(steps) <= most_sends(name, n, size, how)
    held = play(steps, what, how.root, data.draw(st.integers(0, 99), "seed"))
    for position, pieces, expected in at_last(steps, what, how.root):
        got = held[position][pieces]
        if what == "barrier":
            assert (got > 0).all()
        else:
            np.testing.assert_array_equal(got, expected)


N_BYTES = 16 * 15 * 7 * 64


@pytest.mark.parametrize(
    ("what", "share"),
    [("all_reduce", 2), ("reduce_scatter", 1), ("all_gather", 1), ("all_to_all", 1)],
)
@pytest.mark.parametrize("n", [2, 5, 8, 16])
def test_each_position_sends_the_minimum_bytes(what: str, share: int, n: int) -> None:
    for name, module in ALGORITHMS.items():
        halves = name == "halving_doubling" and n & (n - 1) > 0
        if what in module.whats and name not in ("double_binary_tree", "in_network") and not halves:
            steps = schedule(what, n, N_BYTES * n, CollectiveOptions(name, node=n))
            sent = np.bincount(steps.src, steps.size_bytes, n)
            assert (sent == share * (n - 1) * N_BYTES).all(), name


def test_hierarchical_tree_and_pat_send_expected_bytes() -> None:
    n, node, whole = 12, 4, 12 * N_BYTES
    nodes = n // node
    sent = {
        "all_reduce": 2 * (node - 1) / node + 2 * (nodes - 1) / nodes / node,
        "all_to_all": (node - 1) / node + (nodes - 1) / nodes,
    }
    for what, share in sent.items():
        steps = schedule(what, n, whole, CollectiveOptions("hierarchical", node=node))
        per_position = np.bincount(steps.src, steps.size_bytes, n)
        assert (per_position == round(share * whole)).all()
        far = steps.src // node != steps.dst // node
        between = {"all_reduce": 2 * (nodes - 1) * n, "all_to_all": (nodes - 1) * n}
        assert far.sum() == between[what]
    trees = schedule("all_reduce", n, whole, CollectiveOptions("double_binary_tree"))
    assert np.bincount(trees.src, trees.size_bytes, n).max() <= 2 * whole
    for what in ("all_gather", "reduce_scatter"):
        assert len(schedule(what, 16, whole, CollectiveOptions("pat"))) == 16 * 4
        # Four shards per message: two steps spread them, then three branches follow.
        steps = schedule(what, 16, 16 * 100, CollectiveOptions("pat", chunk_bytes=400))
        assert len(steps) == 16 * (2 + 3)
        assert steps.size_bytes.max() == 400


def test_unsupported_group_sizes_are_rejected() -> None:
    with raises_input("6"):
        schedule("all_gather", 6, 100, CollectiveOptions("halving_doubling"))
    with raises_input("4", "6"):
        schedule("all_reduce", 6, 100, CollectiveOptions("hierarchical", node=4))
    with raises_input("node"):
        schedule("all_reduce", 6, 100, CollectiveOptions("hierarchical"))


def test_schedule_with_too_many_sends_is_rejected() -> None:
    with raises_input("all_to_all", "1000000"):
        schedule("all_to_all", 10**6, 10**9, CollectiveOptions())


def test_unknown_collectives_and_invalid_options_are_rejected() -> None:
    with raises_input("all_reduced", "all_reduce", code="unknown_value"):
        algorithm_of("all_reduced", 4, 100, CollectiveOptions())
    with raises_input("ring", "all_to_all"):
        schedule("all_to_all", 4, 100, CollectiveOptions("ring"))
    with raises_input("root 4", "4"):
        schedule("broadcast", 4, 100, CollectiveOptions(root=4))
    with raises_input("3", "2"):
        schedule("all_reduce", 4, 2, CollectiveOptions(channels=3))
    for what in COLLECTIVES:
        assert len(schedule(what, 5, 1000, CollectiveOptions()))
