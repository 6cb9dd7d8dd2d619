"""The package: every folder is in it, and nothing stands outside netsim."""

import re
import subprocess
import sys
from configparser import ConfigParser
from importlib import metadata
from pathlib import Path

import netsim
from netsim.discovery import GROUPS, built_in

ROOT = Path(__file__).resolve().parent.parent
MAPPED = ("experiments", "plots", "topologies", "transports")


def test_setup_cfg_lists_every_package():
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    listed = config["options"]["packages"].split()
    folders = [path.parent for path in (ROOT / "netsim").rglob("__init__.py")]
    found = {".".join(folder.relative_to(ROOT).parts) for folder in folders}
    assert sorted(listed) == sorted(found | {f"netsim.{name}" for name in MAPPED})


def test_every_mapped_folder_is_a_package():
    for name in MAPPED:
        assert (ROOT / name / "__init__.py").is_file()


def test_every_experiment_is_in_a_group_and_its_name_is_unique():
    files = (ROOT / "experiments").rglob("*.toml")
    assert sorted(built_in()) == sorted(path.stem for path in files)
    assert {path.parent.name for path in built_in().values()} == set(GROUPS)


def test_the_citation_names_this_version():
    text = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {netsim.__version__}\n" in text


def test_only_netsim_is_installed_at_the_top():
    assert metadata.version("netsim") == netsim.__version__
    assert (metadata.distribution("netsim").read_text("top_level.txt") or "").split() == ["netsim"]


def test_names_of_the_package():
    for name in netsim.__all__:
        assert getattr(netsim, name) is not None
    assert set(dir(netsim)) == set(netsim.__all__)


def test_the_source_tree_works_by_itself():
    code = (
        "import netsim.plots as one; from importlib.util import find_spec; "
        "print(one.__file__, find_spec('netsim.netsim'))"
    )
    arguments = [sys.executable, "-S", "-c", code]  # -S: nothing that is installed
    run = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.split() == [str(ROOT / "plots" / "__init__.py"), "None"]


def test_the_tests_for_the_lowest_versions_are_there():
    """In .ci/lowest they are named one by one."""
    named = re.findall(r"tests/\S+\.py", (ROOT / ".ci" / "lowest").read_text("utf-8"))
    assert len(named) > 5
    assert [path for path in named if not (ROOT / path).is_file()] == []
