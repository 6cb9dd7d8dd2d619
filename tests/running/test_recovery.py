"""Recovery: how long flows receive nothing after a link goes down, from their series."""

from pathlib import Path

import numpy as np
import pytest
from experiment_text import load, text
from raises_input import mentions

from netsim.cli.tables import result_table
from netsim.reports.faults import longest_silence
from netsim.results.run_result import RunResult
from netsim.results.write import sweep_row
from netsim.running.point import simulate

US = 10**6
NETWORK = {
    "top": 'transport = {kind = "roce", rto = "200us"}',
    "topology": 'kind = "fat_tree"\nhosts_per_leaf = 2\nleaves = 2\nhost_rate = "100Gbps"',
    "traffic": 'kind = "flow_list"\nfile = "flows.csv"',
    "outputs": 'sample_interval = "1us"',
}


def test_recovery_covers_the_longest_silence():
    for begin, end, downs, expected in [
        ([2, 20], [10, 24], [1], (1, 10)),
        ([2, 20], [10, 40], [1], (1, 40)),
        ([2, 20], [10, 40], [1, 18], (18, 40)),  # the last outage before it
        ([2, 20], [10, 40], [22], (22, 40)),  # an outage during the silence
        ([2, 20], [10, 40], [41], None),
        ([2], [7], [1], None),  # not longer than a round trip
        ([], [], [1], None),
    ]:
        found = longest_silence(*(np.array(one, np.int64) for one in (begin, end, downs)), 5)
        assert found == expected


def result_of(
    tmp_path: Path, *overrides: str, **sections: str
) -> tuple[RunResult, dict[str, object]]:
    """Run two flows of 84 us; only the first crosses the links of host 0."""
    (tmp_path / "flows.csv").write_text("src,dst,size\n0,2,1MB\n1,3,1MB\n")
    (point,) = load(tmp_path, text(**NETWORK, **sections), *overrides).points()
    result = simulate(point)
    return result, sweep_row(point, {**result.summary, "hash": "", "stop_reason": "", "flows": 2})


pytestmark = pytest.mark.usefixtures("plain_python")


DOWN = 'links = "h0 - leaf0"\ndown = "20us"\nup = "40us"'


def test_flow_recovers_one_round_trip_after_its_link(tmp_path):
    """Go-back-N: the receiver rejects the first packet after the gap, and the sender goes back."""
    result, row = result_of(tmp_path, **{"faults.dead": DOWN})
    found = result.summary["recovery"]
    assert (found["flows"], found["flows_not_back"], found["interval_ps"]) == (1, 0, US)
    # Packet, rejection and resent packet: 12 cables of 1 us, 4 transmissions of each packet.
    back_us = 40 - 20 + 12 + 8 * 0.3328
    assert back_us - 1 <= found["max_ps"] / US <= back_us + 1.5
    assert row["silent_flows"] == 1
    assert row["recovery_max_ps"] == row["recovery_p50_ps"] == found["max_ps"]


def test_unrecovered_flow_is_reported(tmp_path):
    sections = {"faults.dead": DOWN.replace('"40us"', '"none"'), "stop": 'max_time = "350us"'}
    result, row = result_of(tmp_path, **sections)
    found = result.summary["recovery"]
    assert (found["flows"], found["flows_not_back"], found["max_ps"]) == (1, 1, None)
    lines = {**row, "status": "time_limit", "point": "x"}
    cells = [str(cell) for cell in result_table(lines, result.summary).columns[1].cells]
    assert mentions(cells, "1")


def test_recovery_needs_an_outage_and_sampled_flows(tmp_path):
    slow, _ = result_of(tmp_path, **{"faults.slow": 'links = "all"\nrate = "50Gbps"'})
    assert "recovery" not in slow.summary
    without, row = result_of(tmp_path, "outputs.flows=0", **{"faults.dead": DOWN})
    assert "recovery" not in without.summary
    assert row["silent_flows"] is None
