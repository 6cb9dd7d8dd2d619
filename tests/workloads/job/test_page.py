"""The page of jobs: its tables are those of the code."""

from pathlib import Path

from netsim.workloads.job.load import presets
from netsim.workloads.job.validation import errors, groups, rows

PAGE = Path(__file__).parents[3] / "netsim" / "workloads" / "job" / "README.md"


def test_every_preset_is_named():
    for kind in ["jobs", "models", "machines"]:
        assert [name for name in presets(kind) if f"`{name}`" not in PAGE.read_text("utf-8")] == []


def test_errors_of_each_source_are_what_the_code_gives():
    lines = PAGE.read_text("utf-8").splitlines()
    for group, title in groups().items():
        n = sum(row.group == group for row in rows())
        average, worst = (f"{100 * error:.1f} %" for error in errors(group))
        assert f"| {title} | {n} | {average} | {worst} |" in lines
