"""Serving runs are the same compiled as not, and with several threads as with one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from served import Served, all_served_once, deployment

ASKED = [(25 * k, 150 + 97 * k % 400, 1 + k % 4) for k in range(9)]
SPLIT = {"prefill_machines": 1, "decode_machines": 1, "token_budget": 300}
SENT = {"all_reduces": "packets", "slots": 40, "latency": "1us"}
POOLED = {"pool": 2, "pool_of": "kv", "pool_share": 0.5}
OUTAGES = "0,90us,200us,900us\n1,300us,500us\n0,1ms,1200us"


@pytest.mark.slow  # each compiles the engine
@pytest.mark.parametrize(
    "given",
    [
        {**SPLIT, **SENT, **POOLED, "kv": "layers", "kv_chunks": 3},
        {**SPLIT, "outages": "down.csv", "max_batch": 3},
    ],
    ids=["packets", "failures"],
)
def test_compiled_and_not(tmp_path: Path, given: dict[str, Any]) -> None:
    (tmp_path / "down.csv").write_text(OUTAGES)
    shape = {"deployment": deployment(3, options={"kv_replicated": False}), **given}
    plain = Served(tmp_path, ASKED, **shape)
    all_served_once(plain.plan, plain)
    for threads in (1, 2):
        options = {"jit": True, "threads": threads}
        assert Served(tmp_path, ASKED, options=options, **shape).rows == plain.rows
