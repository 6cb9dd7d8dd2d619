"""Jain's index of the throughputs of flows."""

from types import SimpleNamespace

import numpy as np
import pytest

from netsim.reports.fairness import report


@pytest.mark.parametrize(
    ("sizes", "times", "index"),
    [([8, 8], [4, 4], 1.0), ([8, 8, 8], [1, -1, 3], 0.8), ([8], [-1], None)],
)
def test_jains_index(sizes: list[int], times: list[int], index: float | None) -> None:
    flows = {"size_bytes": np.array(sizes), "fct_ps": np.array(times)}
    found = report(SimpleNamespace(tables={"flows": flows})).get("jain_index")  # type: ignore[arg-type]
    assert found == (None if index is None else pytest.approx(index))
