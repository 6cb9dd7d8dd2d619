"""`netsim bench`: its cases and its output."""

import json

import pytest

pytestmark = pytest.mark.usefixtures("fake")


def test_bench_prints_the_speed_of_each_case(netsim, fake):
    arguments = ["--transport", "ndp", "--hosts", "32", "--threads", "1", "--threads", "2"]
    result = netsim("bench", *arguments, "--size", "1MB")
    assert result.exit_code == 0, result.output
    rows = [line.split() for line in result.stdout.splitlines() if line.split()[:1] == ["ndp"]]
    assert [row[:7] for row in rows] == [
        ["ndp", "leaf-spine", "32", "1MB", "1", "1", "M"],
        ["ndp", "leaf-spine", "32", "1MB", "2", "1", "M"],
    ]
    assert fake.threads == [1, 2]
    assert fake.seen[0].topology.params["leaves"] == 8
    record = json.loads(netsim("bench", *arguments, "--size", "1MB", "--json").stdout)
    assert {"version", "date", "commit", "machine", "numba"} < set(record)
    assert [(case["hosts"], case["threads"]) for case in record["cases"]] == [(32, 1), (32, 2)]


def test_bench_runs_a_users_transport(netsim, fake, tmp_path):
    assert netsim("new", "transport", "mine").exit_code == 0
    result = netsim("bench", "--transport", "./mine.py:careful", "--hosts", "16")
    assert result.exit_code == 0, result.output
    assert fake.seen[0].transport.params["target_delay"] == 1_000_000
    assert fake.seen[0].transport.plugin.path == tmp_path / "mine.py"
