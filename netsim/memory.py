"""How much memory a run may use, and the refusal of one that needs more."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from netsim.errors import InputError
from netsim.units import format_bytes

CGROUP = Path("/sys/fs/cgroup")
NEVER_TOO_MUCH = 16_000_000
"""Bytes below which nobody looks how much memory there is."""


def available_bytes(meminfo: Path = Path("/proc/meminfo"), cgroup: Path = CGROUP) -> int | None:
    """Memory that this process could still take, in bytes; None where that cannot be found out.

    The least of what the machine has free and what a container's limit leaves.
    """
    limits = [*_machine(meminfo), *_container(cgroup)]
    return min(limits, default=None)


def require_room(n_bytes: float, *, what: str, key: str | None = None) -> None:
    """Raise InputError if `what`, which is about to be made, takes more memory than there is.

    To be called with an estimate before anything of that size exists: a small text can ask for
    more than any machine holds.
    """
    if n_bytes < NEVER_TOO_MUCH:
        return
    room = available_bytes()
    if room is None or n_bytes <= room:
        return
    raise InputError(
        f"{what} need about {format_bytes(int(min(n_bytes, 1e30)), 3)} of memory, "
        f"{format_bytes(room, 3)} are available",
        key=key,
    )


def _machine(meminfo: Path) -> Iterator[int]:
    try:
        for line in meminfo.read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                yield int(line.split()[1]) * 1024
                return
    except (OSError, ValueError):
        pass
    try:  # without /proc: what the machine has, free or not
        yield os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return


def _container(cgroup: Path) -> Iterator[int]:
    """Room below the limit of a container, for both versions of control groups."""
    files = (
        ("memory.max", "memory.current", "memory.stat"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
    )
    for limit_file, used_file, stat_file in files:
        try:
            limit = int((cgroup / limit_file).read_text("ascii"))  # "max" is no limit
            used = int((cgroup / used_file).read_text("ascii"))
            used -= _reclaimable(cgroup / stat_file)
        except (OSError, ValueError):
            continue
        yield max(0, limit - used)


def _reclaimable(stat: Path) -> int:
    """Bytes counted as used that are only a cache of files, which the kernel gives back."""
    for line in stat.read_text("ascii").splitlines():
        name, _, value = line.partition(" ")
        if name in ("inactive_file", "total_inactive_file"):
            return int(value)
    return 0
