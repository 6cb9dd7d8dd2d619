"""Files of a run that is to go on, changed as somebody does who knows how they are made."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from netsim.results import files
from netsim.running import checkpoint


def forge(path: Path) -> None:
    """Change the number behind which heaps begin, with a checksum that fits."""
    content = bytearray(path.read_bytes()[: -checkpoint.END_BYTES])
    taken = checkpoint.read(path).snapshot["hosts.heap"].raw
    assert content.count(taken.tobytes()) == 1
    at = content.index(taken.tobytes())
    content[at : at + 8] = (1 << 40).to_bytes(8, "little")
    path.write_bytes(content + hashlib.sha256(content).digest() + bytes(32))


def change_run(path: Path, **values: Any) -> None:
    """Change values of the run.json beside a checkpoint."""
    run = path.with_name(files.RUN)
    run.write_text(json.dumps(json.loads(run.read_text()) | values))
