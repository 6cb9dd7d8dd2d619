"""`netsim bench`: its cases and its output."""

import json

import pytest
from cli_outcome import fails

from netsim.cli.bench import format_count

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


def test_sizes_and_counts_are_readable(netsim):
    result = netsim("bench", "--transport", "ndp", "--hosts", "8192", "--threads", "1")
    assert " 6.25MB " in result.stdout  # 6,246,400 bytes
    assert format_count(353_398_676) == "353 M"
    assert [format_count(n) for n in (999, 2_500, 10**9)] == ["999", "2.5 k", "1 G"]
    assert "a minute" in netsim("bench", "--help").stdout


def test_bench_builds_trees_of_three_and_four_tiers(netsim, fake):
    arguments = ["--transport", "ndp", "--threads", "1", "--topology", "three-tier"]
    result = netsim("bench", *arguments, "--topology", "four-tier", "--hosts", "8192")
    assert result.exit_code == 0, result.output
    assert [one.topology.params["tiers"] for one in fake.seen] == [3, 4]
    assert [one.topology.params["radix"] for one in fake.seen] == [32, 16]
    sizes = [one.traffic.params["size"] for one in fake.seen]
    assert sizes == [100_000_000 // (links * 8192) * 4096 for links in (12, 16)]
    result = netsim("bench", *arguments, "--hosts", "1000")
    assert fails(result, 2, "--hosts", "1,000", "3", "686 or 1,024 or")


def test_bench_runs_a_users_transport(netsim, fake, tmp_path):
    assert netsim("new", "transport", "mine").exit_code == 0
    result = netsim("bench", "--transport", "./mine.py:careful", "--hosts", "16")
    assert result.exit_code == 0, result.output
    assert fake.seen[0].transport.params["target_delay"] == 1_000_000
    assert fake.seen[0].transport.plugin.path == tmp_path / "mine.py"


def test_host_count_without_a_tree_is_rejected(netsim):
    assert fails(netsim("bench", "--hosts", "127"), 2, "127")


def test_unknown_transport_is_rejected(netsim):
    assert fails(netsim("bench", "--transport", "npd", "--hosts", "16"), 2, "npd")


def test_profile_of_several_threads_is_rejected(netsim):
    assert fails(netsim("bench", "--profile", "--threads", "2"), 2, "--threads", "--profile")


def test_profile_of_the_ideal_transport_is_rejected(netsim):
    result = netsim("bench", "--profile", "--transport", "ideal", "--hosts", "16")
    assert fails(result, 2, "ideal")
