"""Pages in docs/ and headers of experiments: tables match their source, examples load."""

import ast
import builtins
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from generated import ROOT, pages, regenerated
from marked import blocks

import netsim.errors
import netsim.network
import netsim.params
import netsim.program
import netsim.queue
import netsim.routing
import netsim.transport
from netsim.common.discovery import stated_time
from netsim.experiment import Experiment, built_in
from netsim.experiment.schema import FileSection
from netsim.params import keys_of

PAGES = [
    path
    for folder in ("docs", "netsim", "topologies", "transports")
    for path in sorted((ROOT / folder).rglob("*.md"))
]
SMALL = {
    "transport": "ndp",
    "topology": {"kind": "fat_tree", "hosts_per_leaf": 8, "leaves": 4},
    "traffic": {"kind": "permutation"},
}
"""Sections that complete the partial experiments of pages."""

MINE = {
    kind: f"./my_{kind}.py" for kind in ("transport", "queue", "routing", "topology", "traffic")
}
"""Kind of plugin -> the file that replaces mine.py of its guide."""

LEFT_OUT = {"np", "Operations", "n", "n_ranks"}
LEFT_OUT |= {"tasks", "table_of", "permanent_matchings", "BATCH"}
"""Names that blocks use without importing or defining them."""

PICTURES = ["gallery", "studies", "explain"]

LABELS = ["Shows:", "Run:", "Time:", "Output:", "Omits:"]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_generated_tables_equal_their_source(page):
    text = page.read_text("utf-8")
    assert regenerated(text) == text, "run: python tests/generated.py"


def test_toml_blocks_are_valid_experiments(tmp_path, monkeypatch):
    """Experiments must load, partial ones completed by SMALL; other files must be valid TOML."""
    monkeypatch.chdir(tmp_path)
    for kind, path in MINE.items():
        scaffold = (ROOT / "netsim/conformance/templates" / f"my_{kind}.py").read_text("utf-8")
        Path(path).write_text(scaffold, "utf-8")
    found = 0
    for page in PAGES:
        kind = next((one for one in MINE if f"netsim new {one} mine" in page.read_text()), "queue")
        for block in blocks(page.read_text("utf-8"), "toml"):
            tables = tomllib.loads(block.replace("./mine.py", MINE[kind]))
            if tables.keys() <= keys_of(FileSection).keys():
                assert Experiment.from_mapping({**SMALL, **tables}).points(), page
                found += 1
    assert found >= 20


def test_python_blocks_use_only_existing_names():
    """Each name is defined on its page, by the plugin modules, or by Python."""
    plugins = (netsim.network, netsim.params, netsim.program, netsim.queue, netsim.routing)
    known = {name for one in (*plugins, netsim.transport, netsim.errors) for name in dir(one)}
    found = 0
    for page in PAGES:
        parts = [ast.parse(one) for one in blocks(page.read_text("utf-8"), "python")]
        nodes = [node for part in parts for node in ast.walk(part)]
        names = [node for node in nodes if isinstance(node, ast.Name)]
        defined = {node.id for node in names if isinstance(node.ctx, ast.Store)}
        defined |= {node.arg for node in nodes if isinstance(node, ast.arg)}
        defined |= {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
        defined |= {node.asname or node.name for node in nodes if isinstance(node, ast.alias)}
        missing = {node.id for node in names} - defined - known - LEFT_OUT - set(dir(builtins))
        assert missing == set(), page
        found += len(parts)
    assert found >= 20


@pytest.mark.slow
@pytest.mark.parametrize("name", ["index", "get-started"])
def test_first_commands_print_the_quoted_output(tmp_path, name):
    """Commands run in page order with the page's TOML as mine.toml; quotes may omit columns."""
    page = (ROOT / "docs" / f"{name}.md").read_text("utf-8")
    for block in blocks(page, "toml"):
        (tmp_path / "mine.toml").write_text(block, "utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    printed = ""
    prose = re.sub(r"^```.*?^```", "", page, flags=re.M | re.S)
    for block in re.findall(r"(?:^ {4}.*\n)+", prose, re.M):
        if block.startswith("    netsim"):
            done = subprocess.run(
                ["bash", "-ec", block],
                cwd=tmp_path,
                env={**os.environ, "PATH": path, "COLUMNS": "250"},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            printed += done.stdout
        elif not block.startswith("    python3"):
            for line in re.findall(r".*\d\.\d.*", block):
                pattern = r"\s.*?".join(map(re.escape, line.split()))
                assert re.search(pattern, printed), line
    for quote in re.findall(r"(?:^> .*\n)+", page, re.M):
        words = re.sub(r"^> |\.\.\.", "", quote, flags=re.M).split()
        assert " ".join(words) in " ".join(printed.split())


def test_every_picture_is_on_one_page_with_its_commands():
    pages = "".join((ROOT / "docs" / f"{name}.md").read_text("utf-8") for name in PICTURES)
    shown = [Path(path).name for path in re.findall(r"\]\(([^)]+\.png)\)\n\n {4}netsim", pages)]
    drawn = [path.name for path in (ROOT / "plots").glob("*.png")]
    assert sorted(shown) == sorted([*drawn, "report.png"])


def test_experiment_headers_have_five_labeled_lines():
    for name, path in built_in().items():
        text = path.read_text("utf-8")
        head = re.findall(r"(?m)^# (\w+:) ", text.partition("\n#\n")[0].partition("\n\n")[0])
        assert head == LABELS, name
        assert stated_time(path), name
        assert re.search(rf"netsim (run|saturate) {name}|netsim topo", text), name
