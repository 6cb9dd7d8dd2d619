"""Replace directories atomically, restore them after a killed run, and never replace foreign files.

A new directory is written next to the old one as `.NAME.xxxxxxxx.tmp`. The old one becomes
`.NAME.xxxxxxxx.old` just before the new one takes its name.

Before a directory is replaced or removed, every entry must have the name of a result file, none may
have other contents, and at least one must be recognizable. Damaged files do not count. Links,
directories, pipes and devices are foreign.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from netsim.common.writing import is_plain_file, umask
from netsim.errors import InputError
from netsim.results import files

MAX_DIGITS = 20
"""Most digits of a process number."""

ORPHANS_S = 10.0
"""Seconds that processes of a killed run have to end."""

_LEFT_OVER = re.compile(r"\.(.+)\.[a-z0-9_]{8}\.(tmp|old)")


def real(directory: Path | str) -> Path:
    """Return a directory with links resolved; a link is never replaced."""
    return Path(os.path.realpath(directory))


@contextmanager
def replacing(directory: Path, previous: Path | None = None) -> Iterator[Path]:
    """Yield a scratch directory that replaces `directory` when the block succeeds; the old one
    becomes `previous`, if given.
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
    """Move `scratch` to `directory`; restore the old one if that fails."""
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
    """Clean up after killed runs in `parent`, for one directory `name` or all.

    Call it only with the lock on the directory.
    """
    try:
        entries = sorted(parent.iterdir())
    except OSError:
        return
    found = [(entry, match) for entry in entries if (match := _LEFT_OVER.fullmatch(entry.name))]
    mine = {
        entry: match[1]
        for entry, match in found
        if name in (None, match[1]) and _is_left_over(entry)
    }
    for entry, target in mine.items():
        if entry.suffix == ".old" and not os.path.lexists(parent / target):
            new = entry.with_suffix(".tmp")  # complete: only the rename is missing
            (new if new in mine else entry).rename(parent / target)
    for entry in mine:
        shutil.rmtree(entry, ignore_errors=True)


@contextmanager
def exclusive(directory: Path, *, patient: bool = False) -> Iterator[int]:
    """Lock `directory` during the block; yield the lock's file descriptor.

    The lock is on a file next to it. It ends with the process and those that inherit the
    descriptor. Raises InputError if another run holds it, unless `patient`; processes that a killed
    run leaves behind get a few seconds to end.
    """
    lock = directory.parent / f".{directory.name}.lock"
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _locked_soon(lock, patient=patient)
    except _HeldError as error:
        raise InputError(
            f"{directory} is in use by {error}", hint="wait, or choose another --out"
        ) from None
    except OSError as error:
        raise InputError(f"cannot write to {lock.parent}: {error.strerror}") from error
    try:
        yield descriptor
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)


class _HeldError(Exception):
    """Another process has the lock; the message names it."""

    @property
    def is_running(self) -> bool:
        """Whether the process that took the lock still runs, as far as known."""
        number = str(self).rpartition(" ")[2]
        try:
            os.kill(int(number), 0)
        except ValueError:
            return True
        except (OSError, OverflowError) as error:
            return not isinstance(error, ProcessLookupError)
        return True


def _locked_soon(lock: Path, *, patient: bool) -> int:
    """Open and lock the file `lock`; wait for what a process that has ended leaves behind."""
    end = time.monotonic() + ORPHANS_S
    while True:
        try:
            return _locked(lock)
        except _HeldError as error:
            if not patient and (error.is_running or time.monotonic() > end):
                raise
            time.sleep(0.05)


def _locked(lock: Path) -> int:
    """Open and lock the file `lock`, which another process may be removing.

    Raises InputError if the file is not a lock of netsim.
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
    """Return who has a lock. Raises InputError if the file is not a lock of netsim."""
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
    """Lock a file if its file system has locks. Raises BlockingIOError if it is locked."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise


KEYS = {
    files.SUMMARY: {"complete", "reason", "hash"},
    files.EXPERIMENT: {"format", "versions", "resolved"},
    files.SHARD: {"format", "number", "count", "sweep", "points"},
}
"""Keys that identify the JSON files of netsim."""


def foreign_entry(directory: Path) -> str | None:
    """Return the name of an entry that netsim did not write; None if there is none."""
    entries = sorted(directory.iterdir())
    ours = {path.name: is_written_by_netsim(path) for path in entries}
    foreign = [name for name, known in ours.items() if known is False]
    if foreign or not ours:
        return foreign[0] if foreign else None
    return None if True in ours.values() else next(iter(ours))


def _is_left_over(directory: Path) -> bool:
    """Return whether a directory may be an unfinished one of a killed run."""
    if directory.is_symlink() or not directory.is_dir():
        return False
    return all(is_written_by_netsim(path) is not False for path in directory.iterdir())


def is_our_sweep(directory: Path) -> bool:
    """Return whether netsim wrote the sweep table in `directory`; if it is damaged, its points
    count.
    """
    path = directory / files.SWEEP
    if not is_plain_file(path):
        return False
    ours = _is_our_table(path)
    if ours is not None:
        return ours
    folders = [folder for folder in directory.iterdir() if folder.is_dir()]
    return any(is_written_by_netsim(folder / files.EXPERIMENT) for folder in folders)


def is_written_by_netsim(path: Path) -> bool | None:
    """Return whether netsim wrote a file of a result; None if unknown."""
    if not files.is_ours(path.name) or not is_plain_file(path):
        return False
    try:
        if path.name in KEYS:
            return _is_our_json(path)
        if path.suffix == ".parquet":
            return _is_our_table(path)
    except OSError:
        return False
    is_known = path.name == files.CHECKPOINT or files.LEFT_OVER.fullmatch(path.name)
    return True if is_known else None


def _is_our_json(path: Path) -> bool | None:
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None
    return isinstance(content, dict) and content.keys() >= KEYS[path.name]


def _is_our_table(path: Path) -> bool | None:
    import polars as pl

    try:
        return files.TABLE in pl.read_parquet_metadata(path)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None
