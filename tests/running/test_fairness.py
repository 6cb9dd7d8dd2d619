"""Jain's index of the throughputs of flows."""

from types import SimpleNamespace

import numpy as np
import pytest

from netsim.reports.fairness import report


def test_jains_index() -> None:
    for sizes, times, index in [
        ([8, 8], [4, 4], 1.0),
        ([8, 8, 8], [1, -1, 3], 0.8),
        ([8], [-1], None),
    ]:
        flows = {"size_bytes": np.array(sizes), "fct_ps": np.array(times)}
        found = report(SimpleNamespace(tables={"flows": flows})).get("jain_index")  # type: ignore[arg-type]
        assert found == (None if index is None else pytest.approx(index))
