"""A traffic pattern of one's own, the whole way as its author goes it."""

from __future__ import annotations

from pathlib import Path

from as_a_user import PLAIN, python

from netsim import load

FILES = ["mine.py", "mine.toml", "test_mine.py"]


def test_from_nothing_to_a_result(tmp_path: Path) -> None:
    said = python(tmp_path, "netsim", "new-traffic", "mine")
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES
    assert all("my_traffic" not in path.read_text() for path in tmp_path.iterdir())
    check, run, test = [line.split() for line in said.splitlines() if line.startswith("  ")]
    assert (check[:2], run[:2]) == (["netsim", "check-traffic"], ["netsim", "run"])
    assert "FAIL" not in python(tmp_path, *check)
    python(tmp_path, *run, "--set", "traffic.duration=5us", env=PLAIN)
    result = load(tmp_path / "results" / "mine")
    assert (result.flows["fct_ps"] > 0).all()
    assert result.flows["size_bytes"].unique().to_list() == [16_000]
    python(tmp_path, *test, "-p", "no:cacheprovider", env=PLAIN)
