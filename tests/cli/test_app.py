"""Commands: imports, usage, streams, Ctrl-C."""

import os
import subprocess
import sys

import pytest

from netsim.results import load

HEAVY = ("llvmlite", "numba", "numpy", "networkx", "matplotlib", "polars", "rich", "scipy")
HEAVY += ("netsim.experiment", "netsim.workloads.operations", "netsim.workloads.job")
TINY = """
transport = "ndp"
topology = {kind = "fat_tree", leaves = 2, hosts_per_leaf = 2}
traffic = {kind = "permutation", size = "8KB"}
"""


@pytest.mark.parametrize(
    ("command", "needed"),
    [
        ("--version", ""),
        ("--help", ""),
        ("run --help", ""),
        ("list", ""),
        ("show traffic poisson", "numpy"),
        ("check tiny.toml", "numpy rich netsim.experiment"),
        ("run tiny.toml --force", "llvmlite numpy rich netsim.experiment"),
    ],
)
def test_commands_import_only_what_they_need(command, needed, tmp_path):
    (tmp_path / "tiny.toml").write_text(TINY)
    code = f"import sys; from netsim.cli import app; app({command.split()}, standalone_mode=False)"
    code += f"; print(*(name for name in {HEAVY} if name in sys.modules))"
    for _ in range(2 if "--force" in command else 1):  # the first run may have to compile
        run = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=False, text=True
        )
    imported = run.stdout.splitlines()[-1].split()
    assert sorted(imported) == sorted(needed.split()), run.stderr


@pytest.mark.parametrize(
    ("words", "completed"),
    [("netsim ru", "run"), ("netsim run p2p_5", "p2p_512"), ("netsim show transport nd", "ndp")],
)
def test_shell_completion_offers_names(words, completed):
    env = {"_NETSIM_COMPLETE": "bash_complete", "COMP_WORDS": words}
    env["COMP_CWORD"] = str(words.count(" "))
    command = "from netsim.cli import main; main()"
    run = subprocess.run(
        [sys.executable, "-c", command],
        env={**os.environ, **env},
        capture_output=True,
        check=False,
        text=True,
    )
    assert f"plain,{completed}" in run.stdout.split()


def test_module_entry_point_returns_the_exit_status(tmp_path):
    arguments = [sys.executable, "-m", "netsim", "run", "nothing.toml"]
    run = subprocess.run(arguments, capture_output=True, check=False, text=True, cwd=tmp_path)
    assert run.returncode == 2
    assert run.stderr.startswith("error: ")
    assert run.stderr.count("\n") == 1


EXPERIMENT = """
name = "e"
transport = "ideal"
[topology]
kind = "fat_tree"
hosts_per_leaf = 2
leaves = 2
[traffic]
kind = "permutation"
size = "1MB"
"""


@pytest.fixture
def shell(tmp_path):
    """Run a bash command in which $netsim is the program; return its exit status and errors."""
    (tmp_path / "e.toml").write_text(EXPERIMENT)

    def shell(command: str):
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {command}"],
            cwd=tmp_path,
            env={**os.environ, "netsim": f"{sys.executable} -m netsim"},
            capture_output=True,
            check=False,
            text=True,
            timeout=120,
        )
        return done.returncode, done.stderr

    return shell


@pytest.mark.parametrize("redirection", ["<&- >&- 2>&-", "2>&1 | true"])
def test_run_succeeds_without_usable_streams(shell, tmp_path, redirection):
    status, stderr = shell(f"$netsim run e.toml --out r {redirection}")
    assert (status, "Traceback" in stderr, "error" in stderr) == (0, False, False), stderr
    assert load(tmp_path / "r").complete
    assert len(load(tmp_path / "r").flows) == 4


def test_error_status_is_kept_without_streams(shell):
    assert shell("$netsim run nothing.toml >&- 2>&-")[0] == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_full_disk_at_stdout_is_an_error(shell, tmp_path):
    status, stderr = shell("$netsim run e.toml --out r > /dev/full")
    assert (status, stderr.splitlines()[-1]) == (
        1,
        "error: cannot write to standard output: No space left on device",
    )
    assert load(tmp_path / "r").complete
    assert shell("$netsim run e.toml --out s 2> /dev/full")[0] == 0
