"""The first Ctrl-C ends netsim soon, even in a plugin's Python code or while compiling."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from as_a_user import PLAIN

from netsim.plugins import registry

EXPERIMENT = """
transport = "./transport.py"
[topology]
kind = "./topology.py"
hosts = 2
[traffic]
kind = "permutation"
size = "100KB"
"""
LOOP = """
    import os; os.write(1, b"here")
    while True:
        pass
"""
DEAF = """
    import os; os.write(1, b"here")
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
"""
COMPILING = """
    import os
    from netsim.engine.compiling.specialize import Entry
    prepare = Entry.prepare
    Entry.prepare = lambda *given: (os.write(1, b"here"), prepare(*given))[1]
"""
PLACES = {
    "build": ("topology", "build", LOOP, "check"),
    "build that catches all": ("topology", "build", DEAF, "run"),
    "a handler in plain Python": ("transport", "on_data", LOOP, "run"),
    "compiling": ("topology", "build", COMPILING, "run"),
}
LIMIT_S = 3.0


@pytest.mark.parametrize("place", PLACES)
def test_first_ctrl_c_ends_the_command(tmp_path: Path, place: str) -> None:
    which, function, added, command = PLACES[place]
    for kind, name in (("topology", "dumbbell"), ("transport", "datagram")):
        source = registry.find(kind, name).path.read_text("utf-8")
        if kind == which:
            source = re.sub(rf"^(def {function}\(.*:)$", rf"\1{added}", source, flags=re.MULTILINE)
            assert added in source
        (tmp_path / f"{kind}.py").write_text(source)
    (tmp_path / "e.toml").write_text(EXPERIMENT)
    environment = {**PLAIN, "NETSIM_CACHE_DIR": str(tmp_path / "cache")}
    if place == "compiling":
        environment["NUMBA_DISABLE_JIT"] = "0"
    process = subprocess.Popen(
        [sys.executable, "-m", "netsim", command, "e.toml"],
        cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        assert process.stdout.read(4) == b"here"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        _, stderr = process.communicate(timeout=30)
        took = time.monotonic() - began
    print(took, stderr)
    assert took < LIMIT_S
    assert process.returncode == 130
    assert b"interrupted" in stderr
    assert b"Traceback" not in stderr
