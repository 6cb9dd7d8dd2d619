"""Commands whose standard output or error is closed, full, or not read."""

import os
import subprocess
import sys

import pytest

from netsim.results import load

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
