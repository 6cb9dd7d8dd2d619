"""`netsim workload show JOB --placement`: the ranks of each rack as a table and a picture."""

import pytest
from cli_outcome import fails


def test_paper_placement_lists_racks(lines):
    found = lines("workload", "show", "moe", "--placement", "paper")
    assert "0 0..71 0 0..3 0 0..17" in found
    assert "23127 1665144..1665215 117 780..783 0 0..17" in found
    assert "23,112 more racks" in found


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["moe", "--placement", "nowhere"], "nowhere"),
        (["moe", "--out", "x.png"], "--placement"),
        (["moe", "--placement", "paper", "--json"], "--placement"),
    ],
)
def test_invalid_placement_options_are_rejected(netsim, options, message):
    assert fails(netsim("workload", "show", *options), 2, message)
