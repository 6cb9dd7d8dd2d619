"""The command line as a whole: imports, usage errors, completion, exit status."""

import os
import subprocess
import sys

import pytest
from cli_outcome import fails

HEAVY = ("llvmlite", "numba", "numpy", "networkx", "matplotlib", "polars")
HEAVY += ("rich", "scipy", "netsim.experiment", "netsim.workloads.operations")

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
        ("run tiny.toml --force", "llvmlite numpy polars rich netsim.experiment"),
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


def test_usage_errors_suggest_a_correction(netsim):
    assert fails(netsim("rnu"), 2, "rnu", '"run"')
    assert fails(netsim("plot", "x", "--kind", "slowdwn"), 2, "slowdwn", '"slowdown"')
    assert fails(netsim("show", "topolgy", "x"), 2, "topolgy", '"topology"')
    assert fails(netsim("run"), 2, "Missing argument")


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
