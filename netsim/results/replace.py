"""Directories that are replaced whole, and put right again if a run was killed in between.

A new directory is written as `.NAME.xxxxxxxx.tmp` beside the old one, which is renamed to
`.NAME.xxxxxxxx.old` just before the new one takes its name.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from netsim.errors import InputError
from netsim.results import files
from netsim.results.ownership import is_left_over
from netsim.writing import umask

MAX_DIGITS = 20
"""Of the number of a process."""

_LEFT_OVER = re.compile(r"\.(.+)\.[a-z0-9_]{8}\.(tmp|old)")


def real(directory: Path | str) -> Path:
    """Where a directory is, links followed: what is replaced is never a link."""
    return Path(os.path.realpath(directory))


@contextmanager
def replacing(directory: Path, previous: Path | None = None) -> Iterator[Path]:
    """A scratch directory that takes the place of `directory` when the block ends well.

    What was there takes the place of `previous`, if that is given.
    """
    parent = directory.parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", suffix=".tmp", dir=parent))
    except OSError as error:
        raise InputError(f"cannot write to {parent}: {error.strerror}") from error
    try:
        yield scratch
        files.sync_all(scratch)
        scratch.chmod(0o777 & ~umask())  # mkdtemp makes it private
        _swap(scratch, directory, previous)
    except OSError as error:
        raise InputError(f"cannot write to {directory}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _swap(scratch: Path, directory: Path, previous: Path | None) -> None:
    """Put `scratch` in the place of `directory`; what was there is back if that fails."""
    if not directory.exists():
        scratch.rename(directory)
        return
    old = scratch.with_suffix(".old")
    directory.rename(old)
    try:
        scratch.rename(directory)
    except OSError:
        old.rename(directory)
        raise
    if previous is None:
        shutil.rmtree(old, ignore_errors=True)
        return
    if previous.exists():
        shutil.rmtree(previous)
    old.rename(previous)


def recover(parent: Path, name: str | None = None) -> None:
    """Put right what killed runs have left in `parent`: of one directory `name`, or of all.

    To be called by the run that holds the directory, so that no other is at work there.
    """
    try:
        entries = sorted(parent.iterdir())
    except OSError:
        return
    found = [(entry, match) for entry in entries if (match := _LEFT_OVER.fullmatch(entry.name))]
    mine = {
        entry: match[1]
        for entry, match in found
        if name in (None, match[1]) and is_left_over(entry)
    }
    for entry, target in mine.items():
        if entry.suffix == ".old" and not os.path.lexists(parent / target):
            new = entry.with_suffix(".tmp")  # whole: it was about to take the name
            (new if new in mine else entry).rename(parent / target)
    for entry in mine:
        shutil.rmtree(entry, ignore_errors=True)


@contextmanager
def exclusive(directory: Path) -> Iterator[None]:
    """Keep `directory` to this run while the block lasts. Raises InputError if another has it.

    The lock is on a file beside it, and goes with the process however that ends.
    """
    lock = directory.parent / f".{directory.name}.lock"
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _locked(lock)
    except _HeldError as error:
        raise InputError(
            f"{directory} is being written by {error}",
            hint="wait until it is done, or choose another directory with --out",
        ) from None
    except OSError as error:
        raise InputError(f"cannot write to {lock.parent}: {error.strerror}") from error
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)


class _HeldError(Exception):
    """Another process has the lock; says which."""


def _locked(lock: Path) -> int:
    """A descriptor of the file `lock`, locked; another process may just be removing the file.

    Raises InputError if what is there is not a lock: a link, or somebody's file.
    """
    while True:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            descriptor = os.open(lock, flags, 0o666)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
                raise _no_lock(lock) from None
            raise
        try:
            holder = _holder(lock, descriptor)
            try:
                _lock(descriptor)
            except BlockingIOError:
                raise _HeldError(holder) from None
            if lock.exists() and os.path.samestat(os.fstat(descriptor), lock.lstat()):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, str(os.getpid()).encode(), 0)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _no_lock(lock: Path) -> InputError:
    return InputError(f"{lock} is not a lock of netsim", hint="remove it, or choose another --out")


def _holder(lock: Path, descriptor: int) -> str:
    """Who has a lock, by what is in its file. Raises InputError if that is not a lock's."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        raise _no_lock(lock)
    content = os.pread(descriptor, MAX_DIGITS + 1, 0)
    if content == b"":
        return "another run"
    if len(content) > MAX_DIGITS or not content.isdigit():
        raise _no_lock(lock)
    return f"process {int(content)}"


def _lock(descriptor: int) -> None:
    """Lock a file; raises BlockingIOError if it is locked. Some file systems have no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise
