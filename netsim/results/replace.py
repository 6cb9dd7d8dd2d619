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
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from netsim.errors import InputError
from netsim.results import files

_LEFT_OVER = re.compile(r"\.(.+)\.[a-z0-9_]{8}\.(tmp|old)")


def real(directory: Path | str) -> Path:
    """Where a directory is, links followed: what is replaced is never a link."""
    return Path(os.path.realpath(directory))


@contextmanager
def replacing(directory: Path) -> Iterator[Path]:
    """A scratch directory that takes the place of `directory` when the block ends well."""
    parent = directory.parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", suffix=".tmp", dir=parent))
    except OSError as error:
        raise InputError(f"cannot write to {parent}: {error.strerror}") from error
    try:
        yield scratch
        files.sync(scratch)
        scratch.chmod(0o777 & ~_umask())  # mkdtemp makes it private
        _swap(scratch, directory)
    except OSError as error:
        raise InputError(f"cannot write to {directory}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _swap(scratch: Path, directory: Path) -> None:
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
    shutil.rmtree(old, ignore_errors=True)


def _umask() -> int:
    """The process's umask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def recover(parent: Path, name: str | None = None) -> None:
    """Put right what killed runs have left in `parent`: of one directory `name`, or of all.

    To be called by the run that holds the directory, so that no other is at work there.
    """
    try:
        entries = sorted(parent.iterdir())
    except OSError:
        return
    found = [(entry, match) for entry in entries if (match := _LEFT_OVER.fullmatch(entry.name))]
    mine = [
        (entry, match[1]) for entry, match in found if name in (None, match[1]) and _is_ours(entry)
    ]
    for entry, target in mine:
        if entry.suffix == ".old" and not (parent / target).exists():
            new = entry.with_suffix(".tmp")  # whole: it was about to take the name
            (new if new.exists() else entry).rename(parent / target)
    for entry, _ in mine:
        shutil.rmtree(entry, ignore_errors=True)


def _is_ours(entry: Path) -> bool:
    return entry.is_dir() and all(files.is_ours(path.name) for path in entry.iterdir())


@contextmanager
def exclusive(directory: Path) -> Iterator[None]:
    """Keep `directory` to this run while the block lasts. Raises InputError if another has it.

    The lock is on a file beside it, and goes with the process however that ends.
    """
    lock = directory.parent / f".{directory.name}.lock"
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _locked(lock)
    except BlockingIOError:
        raise InputError(
            f"{directory} is being written by {_holder(lock)}",
            hint="wait until it is done, or choose another directory with --out",
        ) from None
    except OSError as error:
        raise InputError(f"cannot write to {lock.parent}: {error.strerror}") from error
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)


def _locked(lock: Path) -> int:
    """A descriptor of the file `lock`, locked; another process may just be removing the file."""
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(descriptor)
            if lock.exists() and os.path.samestat(os.fstat(descriptor), os.stat(lock)):
                os.ftruncate(descriptor, 0)
                os.write(descriptor, str(os.getpid()).encode())
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    """Lock a file; raises BlockingIOError if it is locked. Some file systems have no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise


def _holder(lock: Path) -> str:
    try:
        return f"process {int(lock.read_text('ascii'))}"
    except (OSError, ValueError):
        return "another run"
