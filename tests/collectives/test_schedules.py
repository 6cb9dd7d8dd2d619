"""Every algorithm does what it is for, in whatever order the network delivers, with few bytes."""

from __future__ import annotations

import numpy as np
import pytest
from collective_play import at_last, play
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.collectives import ALGORITHMS, COLLECTIVES, How, algorithm_of, schedule
from netsim.errors import InputError

CASES = [(name, what) for name, module in ALGORITHMS.items() for what in module.WHATS]


@pytest.mark.parametrize(("name", "what"), CASES)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_everybody_ends_with_what_is_due(name: str, what: str, data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 11), "n")
    size = data.draw(st.integers(0, 4000), "size")
    how = How(
        name,
        chunk_bytes=data.draw(st.none() | st.integers(60, 500), "chunk"),
        channels=data.draw(st.integers(1, 3), "channels"),
        window=data.draw(st.none() | st.integers(1, 4), "window"),
        root=data.draw(st.integers(0, n - 1), "root"),
    )
    steps = schedule(what, n, size, how)
    assert not (steps.src == steps.dst).any()
    assert (steps.size_bytes >= 1).all()
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
def test_each_position_sends_no_more_than_it_has_to(what: str, share: int, n: int) -> None:
    for name, module in ALGORITHMS.items():
        if what in module.WHATS:
            steps = schedule(what, n, N_BYTES * n, How(name))
            sent = np.bincount(steps.src, steps.size_bytes, n)
            assert (sent == share * (n - 1) * N_BYTES).all(), name


def test_what_there_is_not_is_told() -> None:
    with pytest.raises(InputError, match=r"'all_reduced' is no collective.*all_reduce"):
        algorithm_of("all_reduced", How())
    with pytest.raises(InputError, match=r"no algorithm 'ring' for all_to_all.*direct"):
        schedule("all_to_all", 4, 100, How("ring"))
    with pytest.raises(InputError, match=r"root 4 in a group of 4"):
        schedule("broadcast", 4, 100, How(root=4))
    for what in COLLECTIVES:
        assert len(schedule(what, 5, 1000, How()))
