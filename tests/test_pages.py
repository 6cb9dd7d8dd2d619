"""Pages name only existing files, names, commands and points of results."""

import ast
import re
import shlex
from collections import defaultdict
from contextlib import suppress
from functools import cache
from pathlib import Path

import click
from marked import marked

from netsim.cli import app
from netsim.experiment import Experiment, built_in

ROOT = Path(__file__).parent.parent
MADE_BY_TESTS = {".pytest_cache/", "dist/"}
"""Folders that a page names and a fresh clone does not have."""

FOLDERS = ("docs", "experiments", "netsim", "tests", "topologies", "transports")
PAGES = sorted(
    [*ROOT.glob("*.md"), *(one for name in FOLDERS for one in (ROOT / name).rglob("*.md"))]
)
INSIDE = ("CONTRIBUTING.md", "netsim/README.md", "netsim/engine/README.md")
"""Pages about the code, in which every path is one of the repository."""

WITH_NAMES = re.compile(r"`([\w./]+\.py)` \(((?:`\w+`(?:, | and )?)+)\)")
"""A file, followed by names that it defines."""

COMMAND = re.compile(r"^ {4,}(?:NUMBA_DISABLE_JIT=1 )?netsim ((?:.*\\\n)*.*)$", re.MULTILINE)
INLINE_COMMAND = re.compile(r"`netsim ([a-z-]+ [^`]+)`")

STEP = re.compile(r"^ +│ \w+ +(\S+\.py) +([\w.]+)$", re.MULTILINE)
THING = re.compile(r"^ +(\w+) +(\S+\.py)$", re.MULTILINE)


def name_of(page):
    return page.relative_to(ROOT).as_posix()


def place(page, path):
    """Resolve a page's path from its folder, a subfolder of that, or the root."""
    near = [page.parent / path, *page.parent.glob(f"*/{path}")]
    return next((one for one in near if one.exists()), ROOT / path)


@cache
def defined(file):
    """Return the names of a file's functions, classes (with methods) and constants."""
    names = set()
    if not file.is_file():
        return names
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


@cache
def anchors(page):
    """Return the anchors that GitHub gives a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings}


def paths_exist(page):
    text = page.read_text("utf-8")
    linked = {target.partition("#")[0] for target in re.findall(r"\]\(([^):]+)\)", text)}
    assert [one for one in linked if not (page.parent / one).exists()] == []
    for target, anchor in re.findall(r"\]\(([^):#]*)#([^)]+)\)", text):
        assert anchor in anchors(page.parent / target if target else page), f"{target}#{anchor}"
    folders = r"(?:netsim|tests|transports|topologies|experiments|plots)/"
    named = set(re.findall(rf"`({folders}[\w/.]*)`", text))
    if name_of(page) in INSIDE:
        named |= set(re.findall(r"`([\w./]+(?:\.py|\.md|/))`", text))
    named -= MADE_BY_TESTS
    if name_of(page) == "CHANGELOG.md":  # its paths were valid at their time
        return
    assert [one for one in named if not place(page, one).exists()] == []


def names_are_in_their_files(page):
    missing = [
        f"{name} in {path}"
        for path, names in WITH_NAMES.findall(page.read_text("utf-8"))
        for name in re.findall(r"\w+", names)
        if name not in defined(place(page, path))
    ]
    assert missing == []


def test_run_diagram_matches_the_code():
    page = ROOT / "netsim" / "README.md"
    picture = marked(page.read_text("utf-8"), "run")
    steps, things = STEP.findall(picture), THING.findall(picture)
    assert (len(steps), len(things)) == (picture.count("│"), picture.count("▼") - 1)
    for path, names in steps:
        assert set(names.split(".")) <= defined(place(page, path))
    for name, path in things:
        assert name in defined(place(page, path))


def commands_are_valid(page):
    """Check that commands and options exist, experiments accept the changes, and points exist."""
    if name_of(page) == "CHANGELOG.md":  # its commands were valid at their time
        return
    text = page.read_text("utf-8")
    points = defaultdict(set)
    for line in COMMAND.findall(text) + INLINE_COMMAND.findall(text):
        name, *arguments = shlex.split(line.replace("\\\n", ""), comments=True)
        command = app.get_command(click.Context(app), name)
        assert command is not None, line
        with suppress(click.MissingParameter):  # in a sentence: `netsim run --force`
            values = command.make_context(name, arguments).params
            experiment = values.get("experiment")
            if experiment in built_in():
                seed = values.get("seed")
                changes = [*values["overrides"], *([f"seed={seed}"] if seed else [])]
                points[experiment] |= point_names(experiment, changes)
    for name, point in re.findall(r"results/(\w+)/(\w+=[\w.,=-]+)", text):
        if name in built_in():
            known = points[name] | point_names(name)
            assert point.rstrip(".,") in known, f"results/{name}/{point}"


def point_names(experiment, changes=()):
    return {one.name for one in Experiment.load(built_in()[experiment], changes).points()}


def test_pages_name_existing_paths_names_and_commands():
    for check in [paths_exist, names_are_in_their_files, commands_are_valid]:
        for page in PAGES:
            check(page)


def test_site_index_lists_every_page():
    index, below = ((ROOT / "docs" / name).read_text("utf-8") for name in ("index.md", "conf.py"))
    listed = re.findall(r"^([\w-]+)$|\"docs/([\w-]+)\"", index + below, re.MULTILINE)
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"}
    assert pages <= {one or other for one, other in listed}, "add it to docs/index.md, or conf.py"


def test_landing_pages_agree():
    """README.md and the site begin alike: the claim, three lines, an example, four cards."""
    pages = ((ROOT / name).read_text("utf-8") for name in ("README.md", "docs/index.md"))
    begin = [
        re.sub(r"\((?:docs/|\.\./)", "(", page.partition("`netsim report")[0]) for page in pages
    ]
    assert begin[0] == begin[1]
    assert len(begin[0].split()) > 200


def commands_below(text, marker):
    """Return the indented lines after a marker comment."""
    block = text.partition(f"<!-- {marker} -->\n\n")[2].partition("\n\n")[0]
    return [line.strip() for line in block.splitlines()]


def test_documented_checks_match_ci():
    ci = (ROOT / ".ci" / "run").read_text("utf-8")
    readme = commands_below((ROOT / "README.md").read_text("utf-8"), "test command")
    checks = commands_below((ROOT / "CONTRIBUTING.md").read_text("utf-8"), "checks")
    lint, tests = checks
    assert set(lint.split(" && ")) <= {line.strip() for line in ci.splitlines()}
    assert readme[0].endswith(tests)
