"""A frozen class behaves as a frozen dataclass."""

import copy
import pickle
from dataclasses import FrozenInstanceError, field, fields, replace

import pytest

from netsim.frozen import frozen


@frozen
class Point:
    a: int
    b: tuple[int, ...] = (1,)
    hidden: int = field(default=0, repr=False, compare=False)


def test_text_order_and_hash_are_those_of_a_dataclass() -> None:
    point = Point(2, hidden=3)
    assert repr(point) == "Point(a=2, b=(1,))"
    assert [one.name for one in fields(point)] == ["a", "b", "hidden"]
    assert point == Point(2) != Point(3)
    assert len({point, Point(2), Point(3)}) == 2
    assert replace(point, a=5) == Point(5)
    assert copy.deepcopy(point) == pickle.loads(pickle.dumps(point)) == point


def test_fields_cannot_be_set_added_or_deleted() -> None:
    point = Point(2)
    with pytest.raises(FrozenInstanceError):
        point.a = 3  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        point.new = 3  # type: ignore[attr-defined]
    with pytest.raises(FrozenInstanceError):
        del point.a  # type: ignore[misc]
    assert point.a == 2
