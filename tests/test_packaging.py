"""The package contains every folder and installs nothing outside netsim."""

import re
import subprocess
import sys
from configparser import ConfigParser
from importlib import metadata
from pathlib import Path

import netsim
from netsim.common.discovery import GROUPS, built_in

ROOT = Path(__file__).resolve().parent.parent
MAPPED = ("experiments", "plots", "topologies", "transports")


def test_setup_cfg_lists_every_package():
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    listed = config["options"]["packages"].split()
    folders = [path.parent for path in (ROOT / "netsim").rglob("__init__.py")]
    found = {".".join(folder.relative_to(ROOT).parts) for folder in folders}
    assert sorted(listed) == sorted(found | {f"netsim.{name}" for name in MAPPED})


def test_mapped_folders_are_packages():
    for name in MAPPED:
        assert (ROOT / name / "__init__.py").is_file()


def test_experiments_have_a_group_and_unique_names():
    files = (ROOT / "experiments").rglob("*.toml")
    assert sorted(built_in()) == sorted(path.stem for path in files)
    assert {path.parent.name for path in built_in().values()} == set(GROUPS)


def test_citation_names_this_version():
    citation, readme = ((ROOT / name).read_text("utf-8") for name in ("CITATION.cff", "README.md"))
    assert f"\nversion: {netsim.__version__}\n" in citation
    assert f"version = {{{netsim.__version__}}}" in readme
    (date,) = re.findall(r"^date-released: (\S+)$", citation, re.MULTILINE)
    assert f"date    = {{{date}}}" in readme


def test_only_top_level_package_is_netsim():
    assert metadata.version("netsim-fabric") == netsim.__version__
    top_level = metadata.distribution("netsim-fabric").read_text("top_level.txt")
    assert (top_level or "").split() == ["netsim"]


def test_package_exports_exist():
    for name in netsim.__all__:
        assert getattr(netsim, name) is not None
    assert set(dir(netsim)) == set(netsim.__all__)


def test_source_tree_imports_without_installation():
    code = (
        "import netsim.plots as one; from importlib.util import find_spec; "
        "print(one.__file__, find_spec('netsim.netsim'))"
    )
    arguments = [sys.executable, "-S", "-c", code]  # -S: without installed packages
    run = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.split() == [str(ROOT / "plots" / "__init__.py"), "None"]


def test_test_files_for_lowest_versions_exist():
    """.ci/lowest lists its test files individually."""
    named = re.findall(r"tests/\S+\.py", (ROOT / ".ci" / "lowest").read_text("utf-8"))
    assert len(named) > 5
    assert [path for path in named if not (ROOT / path).is_file()] == []
