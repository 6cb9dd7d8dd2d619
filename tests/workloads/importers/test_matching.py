"""Matching of receives and messages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim.errors import InputError
from netsim.workloads.importers.matching import ANY, PostedMessages, match

Row = tuple[int, int, int]


def ends(rows: list[Row]) -> PostedMessages:
    columns = np.array(rows, np.int64).reshape(-1, 3).T
    return PostedMessages(columns[0], columns[1], columns[2])


@st.composite
def exchanges(draw) -> tuple[list[Row], list[Row]]:
    """Draw sends (rank, peer, tag) and their receives in any order, some of them wildcards.

    Tags are also negative or large: only ANY is special. A matching always exists: a rank that
    receives any tag from a source has no other receives from it, and a rank that receives from any
    source receives only with wildcards.
    """
    row = st.tuples(st.integers(0, 2), st.integers(0, 2), st.sampled_from([-2, 0, 7, 2**40]))
    sends = draw(st.lists(row, max_size=12))
    loose = {rank: draw(st.sampled_from(["none", "tag", "both"])) for rank in range(3)}
    receives = []
    for src, dst, tag in draw(st.permutations(sends)):
        how = loose[dst]
        any_tag = how == "both" or (how == "tag" and src == 0)
        receives.append((dst, ANY if how == "both" else src, ANY if any_tag else tag))
    return sends, receives


@given(exchanges())
def test_every_receive_matches_a_message_in_fifo_order(rows: tuple[list[Row], ...]) -> None:
    sends, receives = rows
    taken = match(ends(sends), ends(receives)).tolist()
    assert sorted(taken) == list(range(len(sends)))
    for send, (dst, src, tag) in zip(taken, receives, strict=True):
        assert sends[send][1] == dst
        assert src in (ANY, sends[send][0])
        assert tag in (ANY, sends[send][2])
    for one in set(sends):
        of_one = [send for send in taken if sends[send] == one]
        assert of_one == sorted(of_one)


def test_wildcard_receive_leaves_messages_for_specific_receives() -> None:
    sends = ends([(1, 0, 5), (2, 0, 5), (1, 0, 6)])
    receives = ends([(0, ANY, ANY), (0, 1, 5), (0, ANY, 6)])
    assert match(sends, receives).tolist() == [1, 0, 2]


def test_unmatched_messages_are_counted_in_the_error() -> None:
    for sends, receives, message in [
        ([(0, 1, 7)], [], "from 0 to 1 with tag 7: 1 sent, 0 received"),
        ([], [(1, 0, 7)], "from 0 to 1 with tag 7: 0 sent, 1 received"),
        (
            [(0, 1, 7), (0, 1, 7)],
            [(1, 0, 8), (1, 0, 7)],
            "from 0 to 1 with tag 7: 2 sent, 1 received; from 0 to 1 with tag 8: 0 sent, 1 rec",
        ),
        ([(0, 1, 7)], [(1, 0, 7), (1, ANY, 7)], ": 1 wildcard receives take none"),
        ([(0, 1, 7), (0, 1, 8)], [(1, 0, ANY)], "tag 8: 1 sent, 0 received"),
        ([(0, 1, tag) for tag in range(9)], [], "; 5 more such"),
    ]:
        with pytest.raises(InputError) as caught:
            match(ends(sends), ends(receives))
        assert message in str(caught.value)
