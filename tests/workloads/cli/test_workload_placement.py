"""`netsim workload show JOB --placement`: the ranks of each rack as a table and a picture."""

import pytest
from cli_outcome import fails


def test_paper_placement_lists_racks(lines):
    found = lines("workload", "show", "moe", "--placement", "paper")
    assert "0 0..71 0 0..3 0 0..17" in found
    assert "23127 1665144..1665215 117 780..783 0 0..17" in found
    assert "23,112 more racks" in found


def test_small_job_lists_all_racks(netsim, lines, tmp_path):
    picture = tmp_path / "racks.png"
    placed = ("--placement", "consecutive", "--out", str(picture))
    found = lines("workload", "show", "gpt3_175b", *placed)
    assert picture.stat().st_size > 1000
    racks = [line for line in found if line[:1].isdigit()]
    assert racks == [f"{k} {8 * k}..{8 * k + 7} {k} 0 0 0..7" for k in range(8)]
    assert netsim("workload", "show", "gpt3_175b", "--placement", "random").exit_code == 0


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
