"""The example in the guide to traffic patterns runs."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import numpy as np
from part_of_load import operations_of

import netsim.traffic
from netsim.workloads.operations import Operations


def test_example_of_the_guide_runs() -> None:
    guide = Path(netsim.traffic.__path__[0]) / "README.md"
    section = guide.read_text("utf-8").partition("\n## Ranks\n")[2].partition("\n## ")[0]
    code = section.partition("```python\n")[2].partition("```")[0]
    text = f"def example(n_ranks):\n{indent(code, '    ')}\n"
    names = {"np": np, "Operations": Operations}
    exec(compile(text, str(guide), "exec"), names)
    load = names["example"](16)
    load.validate(16)
    assert load.flows.kinds[load.flows.kind[-1]] == "pp"
    assert len(operations_of(load)) == 16 + 16 + 2
