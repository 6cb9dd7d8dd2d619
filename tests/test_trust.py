"""Results of others: reading them runs none of their plugin code unless --trust is given."""

import json
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import netsim
from netsim.cli import app
from netsim.plugins import registry

EXPERIMENT = """
name = "e"
transport = ["datagram", "ndp"]
[topology]
kind = "./evil.py"
hosts = 3
[fabric]
queue_discipline = "./queue.py"
[traffic]
kind = "poisson"
load = [0.2, 0.4]
sizes = "3KB"
n_flows = 4
"""
POINT = "transport=ndp,load=0.2"
CANARY = "Path(__file__).with_name('canary').touch()\n"


def planted(kind: str, name: str) -> str:
    """Return the source of a built-in plugin with the canary line added."""
    source = registry.find(kind, name).path.read_text("utf-8")
    head, future, rest = source.partition("from __future__ import annotations\n")
    return f"{head}{future}from pathlib import Path\n{CANARY}{rest}"


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """Return a folder with a sweep whose plugins create a canary file next to them."""
    folder = tmp_path_factory.mktemp("theirs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMBA_DISABLE_JIT", "1")
        patch.chdir(folder)
        Path("evil.py").write_text(planted("topology", "dumbbell"))
        Path("queue.py").write_text(planted("queue", "drop_tail"))
        Path("e.toml").write_text(EXPERIMENT)
        netsim.run("e.toml", out="r")
    return folder


@pytest.fixture
def theirs(sample, tmp_path, monkeypatch):
    """Return the canary's path in a copy of the folder, with no plugin code loaded."""
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(sample, "theirs")
    (tmp_path / "theirs" / "canary").unlink()
    for file in Path("theirs/r").rglob("experiment.json"):
        content = json.loads(file.read_text())
        origin = content["origin"] | {"experiment": str(tmp_path / "theirs" / "e.toml")}
        changes = {"directory": str(tmp_path / "theirs"), "origin": origin}
        file.write_text(json.dumps(content | changes))
    monkeypatch.setattr(registry, "_loaded", {})
    return tmp_path / "theirs" / "canary"


READING = [
    *(["plot", "r", "--kind", kind] for kind in ("fct_cdf", "slowdown", "links")),
    ["plot", "r", "--x", "load"],
    ["plot", "r", "--kind", "fct_vs_load"],  # without fair shares
]
BUILDING = [
    ["plot", f"r/{POINT}", "--kind", "topology"],
    ["plot", f"r/{POINT}", "--kind", "timeline", "--critical-path"],
    ["trace", f"r/{POINT}", "--flow", "1"],
    ["trace", f"r/{POINT}", "--critical-path"],
    ["trace", f"r/{POINT}", "--critical-path", "--experiment-dir", "."],
    ["run", "r"],
]


def invoked(theirs, arguments):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(theirs.parent)
        outcome = CliRunner().invoke(app, arguments)
    assert "Traceback" not in outcome.output
    assert outcome.exception is None or isinstance(outcome.exception, SystemExit)
    return outcome


def test_reading_results_runs_no_plugin_code(theirs):
    for result in netsim.load("theirs/r").points:
        assert len(result.flows) == 4
    for arguments in READING:
        outcome = invoked(theirs, arguments)
        assert outcome.exit_code == 0, outcome.output
    assert "fair" in outcome.output
    assert not theirs.exists()


@pytest.mark.parametrize("gone", [False, True])
def test_plugin_code_runs_only_with_trust(theirs, gone):
    if gone:  # experiment.json has the sources
        (theirs.with_name("evil.py")).unlink()
    for arguments in BUILDING[: -1 if gone else None]:
        rejected = invoked(theirs, arguments)
        assert rejected.exit_code == 2, rejected.output
        assert all(line.startswith("error: ") for line in rejected.stderr.splitlines())
        assert "evil.py" in rejected.stderr
        if len(rejected.stderr.splitlines()) == 1:  # it gives the command
            command = shlex.join(["netsim", *arguments, "--trust"])
            assert rejected.stderr.rstrip().endswith(f"{command})")
        assert not theirs.exists()
    if not gone:
        for arguments in BUILDING:
            theirs.unlink(missing_ok=True)
            registry._loaded.clear()
            invoked(theirs, [*arguments, "--trust"])
            assert theirs.exists(), arguments
