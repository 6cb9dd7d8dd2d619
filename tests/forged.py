"""Forge the checkpoint of a resumable run so that it is a valid archive."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from netsim.running import checkpoint


def forge(path: Path) -> None:
    """Change the number after which heaps start."""
    found = checkpoint.read(path)
    heap = found.snapshot["hosts.heap"]
    raw = heap.raw.copy()
    raw[:8] = np.frombuffer((1 << 40).to_bytes(8, "little"), np.uint8)
    changed = {**found.snapshot, "hosts.heap": heap._replace(raw=raw)}
    checkpoint.write(path, found.header, changed)
