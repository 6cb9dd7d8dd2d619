"""Run commands as a user does, in a separate folder and process."""

import os
import subprocess
import sys
from pathlib import Path

PLAIN = {**os.environ, "NUMBA_DISABLE_JIT": "1"}  # environment that disables compilation


def python(folder: Path, *arguments: str, env: dict[str, str] | None = None) -> str:
    """Return what `python -m` prints; it must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder, capture_output=True, check=False, text=True, timeout=400, env=env,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout
