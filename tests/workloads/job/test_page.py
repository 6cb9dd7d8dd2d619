"""The page about jobs names all presets."""

from pathlib import Path

from netsim.workloads.job.load import presets

PAGE = Path(__file__).parents[3] / "netsim" / "workloads" / "job" / "README.md"


def test_page_names_every_preset():
    for kind in ["jobs", "models", "machines"]:
        assert [name for name in presets(kind) if f"`{name}`" not in PAGE.read_text("utf-8")] == []
