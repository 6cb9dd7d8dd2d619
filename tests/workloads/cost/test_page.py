"""Tables and numbers on the cost page equal those computed by the code."""

from pathlib import Path

import pytest
from marked import values

from netsim.common.terminal import Wide
from netsim.workloads.cli.cost import tables
from netsim.workloads.cost import compare, load_cost_tables

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "netsim" / "workloads" / "cost" / "README.md").read_text("utf-8")


def test_page_tables_equal_command_output():
    costs = load_cost_tables("lite")
    made = [table for table in tables(costs, compare(costs)) if isinstance(table, Wide)]
    assert len(made) == 4
    for table in made:
        lines = [[column.name for column in table.columns]]
        lines += [list(row) for row in zip(*(one.cells for one in table.columns), strict=True)]
        assert [line for line in lines if f"| {' | '.join(line)} |" not in PAGE] == []


def test_numbers_in_page_text_are_current():
    h100, lite, netbw = compare(load_cost_tables("lite"))[:3]
    mm2 = 100 * lite.usd_per_good_mm2 / h100.usd_per_good_mm2
    plain = lite.defect_free / h100.defect_free
    dies = [16988 / one.dies / one.defect_free for one in (h100, lite)]
    package = lite.saved_usd - (h100.die_usd - 4 * lite.die_usd)
    price, twice = (one.break_even_usd_per_gbps for one in (lite, netbw))
    assert values(PAGE) == {
        "sold": f"{lite.die_yield / h100.die_yield:.1f}",
        "mm2": f"{mm2:.0f}",
        "sold-all-defects": f"{plain:.1f}",
        "mm2-all-defects": f"{mm2 * lite.die_yield / h100.die_yield / plain:.0f}",
        "saved": f"{lite.saved_usd:.0f}",
        "saved-all-defects": f"{dies[0] - 4 * dies[1] + package:.0f}",
        "break-even": f"{price:.2f}",
        "break-even-twice": f"{twice:.2f}",
    }
    assert 0.045 < lite.saved_usd / h100.usd < 0.055
    assert (lite.spares[1].full, h100.spares[1].full) == (3, 3)
    by_gpu = compare(load_cost_tables("lite", overrides=["failures.rate_by=gpu"]))[1]
    assert by_gpu.spares[1].full / by_gpu.silicon / h100.spares[1].full == 0.5
    assert (1 - by_gpu.group_up) / (1 - lite.group_up) == pytest.approx(4, rel=0.01)
