"""The pages: what they name is there, and their lines can be read."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LONGEST_LINE = 100
PAGES = sorted(
    path
    for folder in (
        "",
        "experiments",
        "netsim",
        "netsim/engine",
        "tests/fuzz",
        "tests/reference",
        "transports",
    )
    for path in (ROOT / folder).glob("*.md")
)


def name_of(page):
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_paths_in_a_page_are_there(page):
    """Paths stand in it as they are seen from the root, or from the page's own folder."""
    text = page.read_text("utf-8")
    linked = {target.partition("#")[0] for target in re.findall(r"\]\(([^):]+)\)", text)}
    assert [one for one in linked if not (page.parent / one).exists()] == []
    folders = r"(?:netsim|tests|transports|topologies|experiments|plots)/"
    named = set(re.findall(rf"`({folders}[\w/.]*)`", text))
    assert [one for one in named if not (ROOT / one).exists()] == []


@pytest.mark.parametrize("name", ["README.md", "MODEL.md"])
def test_lines_of_the_engines_pages_can_be_read(name):
    lines = (ROOT / "netsim" / "engine" / name).read_text("utf-8").splitlines()
    assert [line for line in lines if len(line) > LONGEST_LINE and line[0] != "|"] == []
