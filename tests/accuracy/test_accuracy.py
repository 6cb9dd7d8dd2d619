"""The table of transports against analytic results: its formulas, and that it is what it was."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from netsim.accuracy import formulas
from netsim.accuracy.bed import AccuracyRow, Verdict
from netsim.accuracy.dcqcn_model import DcqcnModel
from netsim.accuracy.parts import BEGIN, PARTS, rows, with_table

PAGE = Path(__file__).parents[2] / "transports" / "ACCURACY.md"


def test_formulas() -> None:
    """Schrage and Miller against one server under SRPT; and limits that are known."""
    rng = np.random.default_rng(1)
    sizes, shares, load = (1000, 5000, 20_000), (0.6, 0.3, 0.1), 0.6
    works = rng.choice(sizes, 100_000, p=shares)
    gaps = rng.exponential(works.mean() / load, works.size)
    times = formulas.srpt_times(np.cumsum(gaps).astype(int).tolist(), works.tolist())
    mean = [times[works == size].mean() for size in sizes]
    assert mean == pytest.approx(formulas.srpt_mean_time(load, sizes, shares), rel=0.04)
    assert formulas.srpt_mean_time(1e-9, sizes, shares) == pytest.approx(sizes)
    assert formulas.cubic_epoch(1000 * 0.4 / 0.3) == pytest.approx(10)
    assert formulas.dctcp_mean_queue(1, 40, 0) == pytest.approx(41 - np.sqrt(80) / 4)
    assert formulas.incast_bound(2, 3, 125, [(1e9, 1e-6), (1e9, 0)]) == pytest.approx(8e-6)
    assert formulas.swift_delay(100, 2, 20, (3, 100, 0.1, 100)) == 26


def test_dcqcns_model_meets_the_fixed_point() -> None:
    """Zhu et al., CoNEXT 2016, equation 14, for three flows."""
    n, size, c = 3, 1048, 40e9
    model = DcqcnModel(c, size, 5e3, 200e3, 0.01, 5e-6, 12e6)
    capacity, ai = c / 8 / size, 40e6 / 8 / size
    events = 1 / (10e6 / size) + n / (55e-6 * capacity)
    p = np.cbrt(ai * n**2 / (55e-6 * capacity**2) * events**2)
    queue = 5e3 + p / 0.01 * 195e3
    assert model.mean_queue_bytes(n, (0.05, 0.15)) == pytest.approx(queue, rel=0.3)


def test_the_page_is_of_this_table() -> None:
    """All transports, and no row that differs without a reason."""
    text = PAGE.read_text("utf-8")
    cells = [line.split(" | ") for line in text.partition(BEGIN)[2].splitlines() if "| `" in line]
    assert {re.sub(r"[|`]|:.*", "", one[0]).strip() for one in cells} == {
        name.removeprefix("incast_") for name in PARTS
    }
    for one in cells:
        assert abs(float(one[5].rstrip("%"))) <= 5 or len(one[6]) > 20
    row = AccuracyRow("x", "y", "f", "s", "us", 2.0, 3.0)
    assert row.verdict is Verdict.DIFFERS
    assert "| `x` | y | f; s | 2 us | 3 us | +50.0% | differs |" in with_table(text, [row])


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_the_page_is_what_comes_out(part: str) -> None:
    text = PAGE.read_text("utf-8")
    for row in rows([part]):
        assert row.verdict is not Verdict.DIFFERS
        line = next(
            one for one in text.splitlines() if f"| `{row.transport}` | {row.quantity} " in one
        )
        assert float(line.split(" | ")[5].rstrip("%")) / 100 == pytest.approx(
            row.deviation, abs=0.03
        )
