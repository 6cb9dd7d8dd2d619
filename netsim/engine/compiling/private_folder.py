"""Folders that only the user can write, from which code may be run."""

from __future__ import annotations

import os
import stat
from pathlib import Path

OTHERS = stat.S_IWGRP | stat.S_IWOTH
PRIVATE = 0o700


class UnsafeError(Exception):
    """Somebody else could change a path; says who or how."""


def make_private(folder: Path) -> None:
    """Create `folder`, and missing folders above it, for the user alone. Raises OSError."""
    missing = []
    for place in (folder, *folder.parents):
        if place.exists():
            break
        missing.append(place)
    for place in reversed(missing):
        place.mkdir(PRIVATE, exist_ok=True)
    if not folder.is_dir():
        raise NotADirectoryError(20, "Not a directory", str(folder))


def require_private(folder: Path, *, to_make: bool = False) -> None:
    """Raise UnsafeError if another user could change what is in `folder`, a resolved path.

    That is so if it, or a folder above it, belongs to another user or is writable by others.
    Folders above may be writable if sticky, like /tmp: others cannot rename the user's files there.
    Root counts as the user. `to_make`: a folder is yet to be created in `folder`, and checked then.
    """
    for place in (folder, *folder.parents):
        status = place.lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise UnsafeError(f"{place} is not a directory")
        require_own(place, status, sticky=to_make or place != folder)


def require_own(path: Path, status: os.stat_result, *, sticky: bool = False) -> None:
    """Raise UnsafeError if a path with this `status` belongs to, or is writable by, others.

    `sticky`: it may be a folder in which only a file's owner can rename it.
    """
    if status.st_uid not in (0, os.geteuid()):
        raise UnsafeError(f"{path} belongs to another user (uid {status.st_uid})")
    if status.st_mode & OTHERS and not (sticky and status.st_mode & stat.S_ISVTX):
        raise UnsafeError(f"{path} can be written by others (chmod go-w makes it yours alone)")
