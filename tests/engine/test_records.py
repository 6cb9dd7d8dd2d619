"""Records in plain Python are read and assigned like those in compiled code."""

from __future__ import annotations

import numpy as np
import pytest
from raises_input import raises

from netsim.engine.records import RecordArray, aligned_zeros, untouched_zeros

INNER = np.dtype([("count", "i8"), ("share", "f8")], align=True)
FIELDS = [("small", "u1"), ("many", "i8", (3,)), ("first", INNER), ("second", INNER)]
DTYPE = np.dtype(FIELDS, align=True)


def records(n: int = 2) -> RecordArray:
    return np.zeros(n, DTYPE).view(RecordArray)


def test_assigning_a_field_changes_the_array():
    array = records()
    array[1].small = 7
    array[1].many[2] = -5
    assert array["small"].tolist() == [0, 7]
    assert array["many"][1].tolist() == [0, 0, -5]


def test_assigned_record_is_copied():
    array = records()
    array[0].small = 9
    array[1] = array[0]
    array[0].small = 1
    assert array["small"].tolist() == [1, 9]


def test_value_out_of_range_is_an_error():
    with raises(ValueError, "format"):
        records()[0].small = 300


@pytest.mark.parametrize("zeros", [aligned_zeros, untouched_zeros])
def test_zeroed_records_begin_on_a_cache_line(zeros) -> None:
    records = zeros(1000, np.dtype([("a", "i8"), ("b", "i4")], align=True))
    assert records.ctypes.data % 64 == 0
    assert not records["a"].any()
    assert not records["b"].any()
    records["b"][999] = 7
    assert records[999]["b"] == 7
