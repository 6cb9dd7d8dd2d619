"""A folder from which code may be run: nobody but the user can put anything into it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

OTHERS = stat.S_IWGRP | stat.S_IWOTH
PRIVATE = 0o700


class UnsafeError(Exception):
    """Somebody else could change what is in a place; says who or how."""


def make_private(folder: Path) -> None:
    """Make `folder` and what is missing above it, for the user alone. Raises OSError."""
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
    """Raise UnsafeError if another user could change what is in `folder`, a path without links.

    That is so if it, or a folder above it, belongs to another user or can be written by others.
    In a folder above it they may write if it is sticky, as /tmp is: they cannot rename there what
    is not theirs. Root may do anything, so what belongs to root is as good as the user's own.
    `to_make`: a folder is to be made in `folder`, and is looked at again when it is there.
    """
    for place in (folder, *folder.parents):
        status = place.lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise UnsafeError(f"{place} is not a directory")
        require_own(place, status, sticky=to_make or place != folder)


def require_own(path: Path, status: os.stat_result, *, sticky: bool = False) -> None:
    """Raise UnsafeError if what has that `status` belongs to another user, or others can write it.

    `sticky`: it may be a folder in which only the owner of a file can rename that.
    """
    if status.st_uid not in (0, os.geteuid()):
        raise UnsafeError(f"{path} belongs to another user (uid {status.st_uid})")
    if status.st_mode & OTHERS and not (sticky and status.st_mode & stat.S_ISVTX):
        raise UnsafeError(f"{path} can be written by others (chmod go-w makes it yours alone)")
