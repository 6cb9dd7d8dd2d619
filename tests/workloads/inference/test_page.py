"""Numbers on the inference pages equal those computed by the code."""

from pathlib import Path

import pytest
from marked import values
from measured_rows import GROUPS, error, errors, predicted

from netsim.workloads.cli import workload_inference as commands
from netsim.workloads.inference.limits import comparison
from netsim.workloads.job.load import presets

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "netsim" / "workloads" / "inference" / "README.md").read_text("utf-8")
LITE = (ROOT / "docs" / "lite-gpu.md").read_text("utf-8")


def missing(wide, page):
    """Return the rows of a table that a page lacks."""
    rows = zip(*(column.cells for column in wide.columns), strict=True)
    return [row for row in (f"| {' | '.join(one)} |" for one in rows) if row not in page]


def test_page_tables_equal_command_output():
    models = comparison()
    assert missing(commands.count_table(models), PAGE) == []
    assert missing(commands.claim_table(commands.lite_rows(models)), LITE) == []


@pytest.mark.parametrize("kind", ["deployments", "overheads"])
def test_page_names_every_preset(kind):
    assert [name for name in presets(kind) if f"`{name}`" not in PAGE] == []


def test_error_values_in_page_text_are_current():
    decoding = [row for group in GROUPS for row in predicted(group)]
    decoding = [row for row in decoding if row.phase == "decode"]
    many = [row for group in GROUPS for row in predicted(group, large=True)]
    found = sorted(100 * error(row) for row in many if row.deployment.tp > 2)
    two = [row for row in many if row.deployment.tp == 2]
    assert values(PAGE) == {
        "decoding": f"{100 * errors(decoding)[1]:.0f}",
        "times": f"{len(decoding)}",
        "least": f"{-found[-1]:.0f}",
        "most": f"{-found[0]:.0f}",
        "two": f"{100 * errors(two)[1]:.0f}",
    }
