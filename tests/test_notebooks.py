"""Run the cells of docs/notebooks in order, as Python without Jupyter."""

import json
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).parent.parent / "docs" / "notebooks"
SLOW = ("own_cluster", "own_transport", "serving", "training_step")
"""Notebooks that compile code no other test needs."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(path.stem, marks=pytest.mark.slow if path.stem in SLOW else ())
        for path in sorted(NOTEBOOKS.glob("*.ipynb"))
    ],
)
def test_every_notebook_cell_runs(name, tmp_path, monkeypatch):
    path = NOTEBOOKS / f"{name}.ipynb"
    assert path.stat().st_size < 60_000
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    scope = {}
    cells = json.loads(path.read_text("utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    if name not in SLOW:  # fewer packets, in plain Python
        monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
        assert '"2MB"' in sources[0]
        sources[0] = sources[0].replace('"2MB"', '"64KB"')
    for number, source in enumerate(sources):
        exec(compile(source, f"{name}, cell {number}", "exec"), scope)
    assert scope["results"].table["status"].unique().to_list() == ["finished"]
