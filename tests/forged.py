"""Forge files of a resumable run so that their checksums still match."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from netsim.results import files
from netsim.running import checkpoint


def forge(path: Path) -> None:
    """Change the number after which heaps start, with a matching checksum."""
    content = bytearray(path.read_bytes()[: -checkpoint.HASH_BYTES])
    taken = checkpoint.read(path).snapshot["hosts.heap"].raw
    assert content.count(taken.tobytes()) == 1
    at = content.index(taken.tobytes())
    content[at : at + 8] = (1 << 40).to_bytes(8, "little")
    path.write_bytes(content + hashlib.sha256(content).digest())


def change_run(path: Path, **values: Any) -> None:
    """Change values of the run.json next to a checkpoint."""
    run = path.with_name(files.RUN)
    run.write_text(json.dumps(json.loads(run.read_text()) | values))
