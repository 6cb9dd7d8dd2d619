"""Standard output and error that are closed, full or read by nobody."""

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
    """Runs a command of bash, in which $netsim is the program; gives its exit status and errors."""
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


@pytest.mark.parametrize("how", ["<&- >&- 2>&-", "2>&1 | true"])
def test_a_run_ends_well(shell, tmp_path, how):
    status, said = shell(f"$netsim run e.toml --out r {how}")
    assert (status, "Traceback" in said, "error" in said) == (0, False, False), said
    assert load(tmp_path / "r").complete
    assert len(load(tmp_path / "r").flows) == 4


@pytest.mark.parametrize("command", ["check e.toml >&- 2>&-", "--help | true"])
def test_so_do_other_commands(shell, command):
    status, said = shell(f"$netsim {command}")
    assert (status, said) == (0, "")


def test_mistakes_keep_their_status(shell):
    assert shell("$netsim run nothing.toml >&- 2>&-")[0] == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk_is_no_success(shell, tmp_path):
    status, said = shell("$netsim run e.toml --out r > /dev/full")
    assert (status, said.splitlines()[-1]) == (
        1,
        "error: cannot write to standard output: No space left on device",
    )
    assert load(tmp_path / "r").complete
    assert shell("$netsim run e.toml --out s 2> /dev/full")[0] == 0
