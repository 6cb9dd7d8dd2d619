"""The directory of a result: whether it may be written, its lock, and how a result takes its place.

A result is written next to its directory as `.NAME.xxxxxxxx.tmp` and renamed; the old one is
`.NAME.xxxxxxxx.old` in between. `clean` removes what killed runs leave.

A directory is replaced only if all its entries have names of result files, and a JSON file or a
checkpoint shows that netsim wrote them. Links, directories, pipes and devices are foreign.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from netsim.common.inputs import ROOM_IN_NAME, path_problem
from netsim.common.writing import is_plain_file, sync, umask
from netsim.errors import InputError
from netsim.results import files
from netsim.results.read import Result, is_sweep, recorded_complete
from netsim.results.run_result import STALLED
from netsim.units import written

ELSEWHERE = "choose another --out, or remove this one"

ORPHANS_S = 10.0  # seconds that processes of a killed run get to exit

KEYS = {
    files.SUMMARY: {"complete", "reason", "hash"},
    files.EXPERIMENT: {"format", "versions", "resolved"},
    files.SHARD: {"format", "number", "count", "sweep", "points"},
}
"""JSON file -> keys by which netsim recognizes its own file."""


def real(directory: Path | str) -> Path:
    """Return a directory with links resolved; a link is never replaced."""
    return Path(os.path.realpath(directory))


def previous_directory(directory: Path) -> Path:
    """Return the directory to which a replaced result of other code or values moves."""
    return directory.with_name(f"{directory.name}.previous")


def check_destination(directory: Path, *, sweep: bool = False) -> None:
    """Raise InputError unless a result (or a sweep) may be written to `directory`.

    Checked before a run, which may be long. Files that netsim did not write are never replaced, and
    a sweep and a single result never replace each other. Links must have been resolved (`real`).
    """
    if problem := path_problem(str(directory), reserve=ROOM_IN_NAME):
        raise InputError(f"{written(str(directory))} {problem}", hint=ELSEWHERE)
    if directory.is_symlink():
        raise InputError(f"{directory} is a link, not a directory", hint=ELSEWHERE)
    if directory.exists() and not directory.is_dir():
        raise InputError(f"{directory} is a file, not a directory", code="unreadable")
    _check_writable(directory)
    try:
        ours = _is_our_sweep(directory)
        foreign = foreign_entry(directory) if directory.exists() and not ours else None
    except OSError as error:
        raise InputError(f"cannot write to {directory}: {error.strerror}") from error
    if ours and not sweep:
        raise InputError(f"{directory} contains a sweep", hint=ELSEWHERE)
    if foreign:
        message = f"{directory} contains {foreign}, which netsim did not write"
        raise InputError(message, hint=ELSEWHERE)
    if sweep and not ours and recorded_complete(directory):
        message = f"{directory} contains the complete result of a single run"
        raise InputError(message, hint=ELSEWHERE)


def _check_writable(directory: Path) -> None:
    """Raise InputError unless `directory` can be replaced or made."""
    for folder in directory.parents:
        if folder.exists():
            if not folder.is_dir():
                raise InputError(f"{folder} is a file, not a directory")
            if not os.access(folder, os.W_OK | os.X_OK):
                raise InputError(f"cannot write to {folder}: permission denied", code="unreadable")
            return


def check_folders(fingerprints: Mapping[Path, str], inputs: Sequence[Path]) -> None:
    """Raise InputError if a result with the given fingerprint cannot be written to its folder, or
    would replace an input file.
    """
    for folder, fingerprint in fingerprints.items():
        check_destination(folder)
        previous = previous_directory(folder)
        if os.path.lexists(previous) and other_result(folder, fingerprint) is not None:
            check_destination(previous)
    replaced = {real(folder) for folder in fingerprints}
    for file in dict.fromkeys(inputs):
        if replaced & set(real(file).parents):
            hint = "choose another --out, or move the file"
            raise InputError(f"{file} is an input file in the results directory", hint=hint)


def foreign_entry(directory: Path) -> str | None:
    """Return the name of an entry that netsim did not write; None if there is none."""
    paths = sorted(directory.iterdir())
    for path in paths:
        if not files.is_ours(path.name) or not is_plain_file(path):
            return path.name
    return None if not paths or any(map(_is_of_result, paths)) else paths[0].name


def _is_of_result(path: Path) -> bool:
    """Return whether a file shows that netsim wrote it."""
    if path.name not in KEYS:
        return path.name == files.CHECKPOINT or files.LEFT_OVER.fullmatch(path.name) is not None
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and content.keys() >= KEYS[path.name]


def _is_our_sweep(directory: Path) -> bool:
    """Return whether netsim wrote the sweep table in `directory`; a damaged one counts."""
    table = directory / files.SWEEP
    if not is_plain_file(table):
        return False
    content = table.read_bytes()  # metadata are plain text
    return files.TABLE.encode() in content or not content.endswith(b"PAR1")


def result_in(directory: Path) -> Result | None:
    """Return the result in `directory`; None if there is none or it cannot be read."""
    try:
        return Result(directory)
    except InputError:
        return None


def found_result(directory: Path, fingerprint: str) -> Result | None:
    """Return the result in `directory` if it has that fingerprint."""
    result = result_in(directory)
    return result if result is not None and result.fingerprint == fingerprint else None


def other_result(directory: Path, fingerprint: str) -> Result | None:
    """Return the complete result in `directory` if it has another fingerprint."""
    result = result_in(directory)
    is_other = result is not None and result.complete and result.fingerprint != fingerprint
    return result if is_other else None


def done_result(
    directory: Path, fingerprint: str, *, links: bool, stalled: bool = False
) -> Result | None:
    """Return the complete, undamaged result with that fingerprint in `directory`; with `stalled`,
    also one that stalled."""
    result = found_result(directory, fingerprint)
    if result is None or not (result.complete or (stalled and result.status == STALLED)):
        return None
    try:
        intact = len(result.flows) == result.summary["flows"]
        intact = intact and (not links or result.links is not None)
    except InputError:
        return None
    return result if intact else None


@contextmanager
def replacing(directory: Path, fingerprint: str) -> Iterator[Path]:
    """Yield a scratch directory for a result with that fingerprint, which takes the place of
    `directory` when the block succeeds. A complete result of another fingerprint becomes
    `NAME.previous`."""
    parent = directory.parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", suffix=".tmp", dir=parent))
    except OSError as error:
        raise InputError(f"cannot write to {parent}: {error.strerror}") from error
    try:
        yield scratch
        for path in scratch.iterdir():
            sync(path)  # so that a rename never exposes partial files
        scratch.chmod(0o777 & ~umask())  # mkdtemp makes it private
        _swap(scratch, directory, fingerprint)
    except OSError as error:
        raise InputError(f"cannot write to {directory}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _swap(scratch: Path, directory: Path, fingerprint: str) -> None:
    """Move `scratch` to `directory`; restore the old one if that fails."""
    if not directory.exists():
        scratch.rename(directory)
        return
    keeps_old = other_result(directory, fingerprint) is not None
    old = previous_directory(directory) if keeps_old else scratch.with_suffix(".old")
    if old.exists():
        shutil.rmtree(old)
    if keeps_old:
        (directory / files.CHECKPOINT).unlink(missing_ok=True)  # belongs to the new result's run
    directory.rename(old)
    try:
        scratch.rename(directory)
    except OSError:
        old.rename(directory)
        raise
    if not keeps_old:
        shutil.rmtree(old, ignore_errors=True)


def clean(parent: Path, name: str | None = None) -> None:
    """Remove what killed runs left in `parent` for the directory `name` or for all, and restore an
    old result whose directory is missing. Call it only while holding the lock on the directory."""
    for path in sorted(parent.glob(".*")):
        match = files.LEFT_OVER.fullmatch(path.name)
        if match is None or name not in (None, match[1]):
            continue
        with suppress(OSError):
            if is_plain_file(path):
                if match[1] in (files.SWEEP, files.CHECKPOINT):
                    path.unlink()
            elif path.is_symlink() or not all(files.is_ours(one.name) for one in path.iterdir()):
                continue
            elif path.suffix == ".old" and not os.path.lexists(parent / match[1]):
                path.rename(parent / match[1])
            else:
                shutil.rmtree(path, ignore_errors=True)


def prepare_sweep(directory: Path) -> None:
    """Prepare `directory` for a sweep: clean up after killed runs, and remove a partial single
    result."""
    clean(directory.parent, directory.name)
    try:
        if directory.exists() and not is_sweep(directory):
            for path in directory.iterdir():
                path.unlink()
        directory.mkdir(parents=True, exist_ok=True)
        clean(directory)
    except OSError as error:
        raise InputError(f"cannot write to {directory}: {error.strerror}") from error


@contextmanager
def exclusive(directory: Path, *, patient: bool = False) -> Iterator[int]:
    """Lock `directory` during the block; yield the lock's file descriptor.

    The lock is on a file next to it. It ends with the process and those that inherit the
    descriptor. If another run holds it, wait if `patient`, else raise InputError; processes that a
    killed run left behind get a few seconds to exit.
    """
    lock = directory.parent / f".{directory.name}.lock"
    end = time.monotonic() + ORPHANS_S
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        while (descriptor := _locked(lock)) is None:
            holder = _holder(lock)
            if not patient and (holder is not None or time.monotonic() > end):
                by = f"process {holder}" if holder else "another run"
                hint = "wait, or choose another --out"
                raise InputError(f"{directory} is in use by {by}", hint=hint)
            time.sleep(0.05)
    except OSError as error:
        raise InputError(f"cannot lock {lock}: {error.strerror}") from error
    try:
        yield descriptor
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)


def _locked(lock: Path) -> int | None:
    """Open and lock the file `lock`, and write this process's ID to it; None if it is locked.
    Raises InputError if the file is not a lock of netsim."""
    while True:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(lock, flags, 0o666)
        try:
            content = os.pread(descriptor, 100, 0)
            if content and not content.isdigit():
                hint = "remove it, or choose another --out"
                raise InputError(f"{lock} is not a lock of netsim", hint=hint)
            _lock(descriptor)
            # The process that held the lock may have removed the file.
            if lock.exists() and os.path.samestat(os.fstat(descriptor), lock.lstat()):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, str(os.getpid()).encode(), 0)
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    """Lock a file if its file system has locks. Raises BlockingIOError if it is locked."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise


def _holder(lock: Path) -> int | None:
    """Return the ID of the process that holds a lock, 0 if not known yet, None if it has exited."""
    try:
        process = int(lock.read_bytes() or 0)
        os.kill(process, 0)
    except (FileNotFoundError, ProcessLookupError):
        return None
    except (OSError, OverflowError):  # another user's process
        pass
    return process
