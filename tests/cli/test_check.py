"""`netsim check`: what it predicts and what it rejects."""

import json

import pytest
from raises_input import fails, mentions

from netsim.cli import check

pytestmark = pytest.mark.usefixtures("fake")


def test_check_predicts_without_running(netsim, fake):
    result = netsim("check", "sweep.toml", "--set", "traffic.size=['1MB', '2MB']")
    assert result.exit_code == 0, result.output
    for text in (
        '"size": "1MB"',
        "first of 4",
        "seed = 1, 2",
        "packet-hops",
        "8,000",
        "1.5 s",
        "PFC",
    ):
        assert text in result.stdout
    assert not fake.seen


def test_check_names_the_points_for_which_its_time_is_too_short(netsim, monkeypatch):
    """Like `--all`, the default builds everything if that takes less than 5 s."""
    monkeypatch.setattr(check, "BUILD_S", 0.0)
    short = netsim("check", "sweep.toml")
    assert mentions(short.stdout, "without 1 of 2 points", "seed=2", "--all")
    assert "seed=1" in short.stdout.partition("Prediction")[2]
    report = json.loads(netsim("check", "sweep.toml", "--json").stdout)
    assert (report["skipped"], len(report["points"])) == (["seed=2"], 1)
    everything = json.loads(netsim("check", "sweep.toml", "--json", "--all").stdout)
    assert (everything["skipped"], len(everything["points"])) == ([], 2)


def test_check_rejects_what_does_not_fit_in_memory(netsim, fake):
    fake.memory_bytes = 10**18
    result = netsim("check", "small.toml")
    assert fails(result, 2, "memory")
    assert "Prediction" in result.stdout
    result = netsim("check", "small.toml", "--ranks", "4")
    assert result.exit_code == 0
    assert mentions(result.stdout, "4", "10MB", "3MB")
    report = json.loads(netsim("check", "small.toml", "--ranks", "4", "--json").stdout)
    assert report["points"][0]["memory_of_ranks"] == [10**7, 3 * 10**6]
