"""The command line as a whole: how it starts, what it says of itself."""

import os
import resource
import subprocess
import sys

import pytest
from cli_outcome import fails

HEAVY = ("numba", "numpy", "pyarrow", "pydantic", "networkx", "matplotlib", "polars", "rich")


def test_help_imports_nothing_slow():
    code = "import sys; from netsim.cli import app; app(['--help'], standalone_mode=False); "
    code += f"print([name for name in {HEAVY} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True)
    assert run.stdout.splitlines()[-1] == "[]", run.stderr


def test_help_answers_at_once():
    """In processor time: what others do on the machine is not its fault."""
    times = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "netsim", "--help"], check=True, stdout=-3)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(times) < 0.3


def test_wrong_usage(netsim):
    assert fails(netsim("rnu"), 2, "rnu", '"run"')
    assert fails(netsim("plot", "x", "--kind", "slowdwn"), 2, "slowdwn", '"slowdown"')
    assert fails(netsim("show", "topolgy", "x"), 2, "topolgy", '"topology"')
    assert fails(netsim("run"), 2, "Missing argument")


@pytest.mark.parametrize(
    ("words", "completed"),
    [("netsim ru", "run"), ("netsim run p2p_5", "p2p_512"), ("netsim show transport nd", "ndp")],
)
def test_the_shell_completes_names(words, completed):
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


def test_the_console_script_gives_the_exit_status(tmp_path):
    arguments = [sys.executable, "-m", "netsim", "run", "nothing.toml"]
    run = subprocess.run(arguments, capture_output=True, check=False, text=True, cwd=tmp_path)
    assert run.returncode == 2
    assert run.stderr.startswith("error: ")
    assert run.stderr.count("\n") == 1
