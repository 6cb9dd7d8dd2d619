"""Find the available memory and cores, and refuse runs that need more memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from netsim.errors import InputError
from netsim.units import format_bytes

CGROUP = Path("/sys/fs/cgroup")
UNCHECKED_BYTES = 16_000_000  # size below which memory is not checked


def available_bytes(meminfo: Path = Path("/proc/meminfo"), cgroup: Path = CGROUP) -> int | None:
    """Return the bytes that this process can still allocate; None if unknown. The lesser of the
    machine's free memory and the rest of a container's limit."""
    limits = [*_machine(meminfo), *_container(cgroup)]
    return min(limits, default=None)


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(own_cores())


def own_cores() -> set[int]:
    """Return the numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def require_room(n_bytes: float, *, what: str, key: str | None = None) -> None:
    """Raise InputError if creating `what` takes more memory than is available. Call it with an
    estimate before allocating: a short text can ask for any amount."""
    if n_bytes < UNCHECKED_BYTES:
        return
    room = available_bytes()
    if room is None or n_bytes <= room:
        return
    raise InputError(
        f"{what} need about {format_bytes(int(min(n_bytes, 1e30)), 3)} of memory, "
        f"but only {format_bytes(room, 3)} are available",
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
    try:  # without /proc: the machine's total memory
        yield os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return


def _container(cgroup: Path) -> Iterator[int]:
    """Yield the room below a container's limit, for both versions of control groups."""
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
    """Return the bytes counted as used that are file cache, which the kernel can reclaim."""
    for line in stat.read_text("ascii").splitlines():
        name, _, value = line.partition(" ")
        if name in ("inactive_file", "total_inactive_file"):
            return int(value)
    return 0
