"""The directory that the results of a run go to: looked at before the run, then made ready."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from netsim.errors import InputError
from netsim.inputs import ROOM_IN_NAME, path_problem
from netsim.results import files
from netsim.results.ownership import foreign_entry, is_our_sweep
from netsim.results.read import Result, is_sweep, recorded_complete
from netsim.results.replace import real, recover
from netsim.units import written

STALE_POINTS = "stale_points"
"""Folder of a sweep for points of earlier sweeps that the present one does not have."""

ELSEWHERE = "choose another directory with --out, or remove this one"


def check_destination(directory: Path, *, sweep: bool = False) -> None:
    """Raise InputError unless a result (or a sweep of them) may be written to `directory`.

    To be called before a run, so that a long one does not end with nowhere to put its result. What
    netsim did not write is never replaced, nor a whole sweep by a single result or the reverse. A
    link that the user chose has been followed (`real`); any other is refused.
    """
    _check_name(directory)
    if directory.is_symlink():
        raise InputError(f"{directory} is a link, not a directory for results", hint=ELSEWHERE)
    if directory.exists() and not directory.is_dir():
        raise InputError(f"{directory} is a file, not a directory for results", code="unreadable")
    try:
        ours = is_our_sweep(directory)
        foreign = foreign_entry(directory) if directory.exists() and not ours else None
    except OSError as error:
        raise InputError(f"cannot write to {directory}: {error.strerror}") from error
    _check_writable(directory.parent)
    if ours:
        if not sweep:
            raise InputError(f"{directory} holds the results of a sweep", hint=ELSEWHERE)
        _check_writable(directory)
        return
    if foreign:
        message = f"{directory} holds what is not a result of netsim ({foreign})"
        raise InputError(message, hint=ELSEWHERE)
    if sweep and holds_complete(directory):
        message = f"{directory} holds the complete result of a single run"
        raise InputError(message, hint=ELSEWHERE)


def _check_name(directory: Path) -> None:
    """Raise InputError unless a directory can have that name, and one beside it a longer one."""
    problem = path_problem(str(directory), reserve=ROOM_IN_NAME)
    if problem:
        raise InputError(f"{written(str(directory))} {problem}", hint=ELSEWHERE)


def _check_writable(directory: Path) -> None:
    """Raise InputError if nothing can be put into `directory`, which may have to be made."""
    for folder in (directory, *directory.parents):
        if folder.exists():
            if not folder.is_dir():
                raise InputError(f"{folder} is a file, not a directory for results")
            if not os.access(folder, os.W_OK | os.X_OK):
                raise InputError(f"cannot write to {folder}: permission denied", code="unreadable")
            return


def check_folders(folders: Sequence[Path], inputs: Sequence[Path]) -> None:
    """Raise InputError if a result cannot be written to one of `folders`, or would replace a file
    that the experiment reads.
    """
    for folder in folders:
        _check_name(folder)
        for one in (folder, partial_directory(folder)):
            if os.path.lexists(one):
                check_destination(one)
    replaced = {real(folder) for folder in folders}
    for file in dict.fromkeys(inputs):
        if replaced & set(real(file).parents):
            raise InputError(
                f"{file} is read by the experiment, but lies where its results would go",
                hint="choose another directory with --out, or move the file",
            )


def partial_directory(directory: Path) -> Path:
    """Where a partial result goes while `directory` holds a complete one, which stays."""
    return directory.with_name(f"{directory.name}.partial")


def directory_of_partial(directory: Path) -> Path:
    """Where a run whose result is to be in `directory` has what it leaves until it is done."""
    return partial_directory(directory) if holds_complete(directory) else directory


def previous_directory(directory: Path) -> Path:
    """Where the result in `directory` goes when that of other code takes its place."""
    return directory.with_name(f"{directory.name}.previous")


def other_result(directory: Path, fingerprint: str) -> Result | None:
    """The complete result in `directory` if it is one of another experiment or of other code."""
    try:
        result = Result(directory)
    except InputError:
        return None
    same = result.experiment.get("fingerprint") == fingerprint
    return result if result.complete and not same else None


def holds_complete(directory: Path) -> bool:
    """Whether there is a complete result in `directory`."""
    return recorded_complete(directory) is True


def found_result(directory: Path, fingerprint: str) -> Result | None:
    """The result of a point with that fingerprint that is in `directory` or beside it, if one is.

    The complete one of two.
    """
    for folder in (directory, partial_directory(directory)):
        try:
            result = Result(folder)
        except InputError:
            continue
        if result.experiment.get("fingerprint") == fingerprint:
            return result
    return None


def done_result(directory: Path, fingerprint: str, *, links: bool) -> Result | None:
    """The complete result of a point with that fingerprint in `directory`, if it is undamaged."""
    result = found_result(directory, fingerprint)
    if result is None or not result.complete or result.path != directory:
        return None
    try:
        whole = len(result.flows) == result.summary["flows"]
        if links:
            whole = whole and result.links is not None
    except InputError:
        return None
    return result if whole else None


def recover_single(directory: Path) -> None:
    """Put right what a killed run has left beside `directory`."""
    for folder in (directory, partial_directory(directory)):
        recover(folder.parent, folder.name)


def prepare_sweep(directory: Path, names: Sequence[str]) -> list[str]:
    """Make `directory` ready for the points called `names`; a partial single result gives way.

    What killed runs have left is put right. Folders of points of an earlier sweep that this one
    does not have are moved to "stale_points", and those that it has again moved back.
    Returns the names of points that were moved away.
    """
    recover(directory.parent, directory.name)
    try:
        if directory.exists() and not is_sweep(directory):
            for path in directory.iterdir():
                path.unlink()
        directory.mkdir(exist_ok=True)
        recover(directory)
        if (directory / STALE_POINTS).is_symlink():
            raise InputError(
                f"{directory / STALE_POINTS} is a link", hint=ELSEWHERE, code="unreadable"
            )
        files.remove_left_over(directory, files.SWEEP)
        beside = [
            place(Path(name)).name
            for name in names
            for place in (partial_directory, previous_directory)
        ]
        moved = _move_away(directory, {*names, *beside})
        for name in names:
            if not (directory / name).exists() and holds_complete(directory / STALE_POINTS / name):
                (directory / STALE_POINTS / name).rename(directory / name)
        if (directory / STALE_POINTS).is_dir() and not any((directory / STALE_POINTS).iterdir()):
            (directory / STALE_POINTS).rmdir()
    except OSError as error:
        raise InputError(f"cannot write to {directory}: {error.strerror}") from error
    return moved


def _move_away(directory: Path, wanted: set[str]) -> list[str]:
    moved = []
    for folder in sorted(directory.iterdir()):
        if folder.name in wanted or folder.is_symlink() or not _is_point(folder):
            continue
        there = directory / STALE_POINTS / folder.name
        if os.path.lexists(there):
            if not _is_point(there) or (holds_complete(there) and not holds_complete(folder)):
                continue
            shutil.rmtree(there)
        there.parent.mkdir(exist_ok=True)
        folder.rename(there)
        moved.append(folder.name)
    return moved


def _is_point(folder: Path) -> bool:
    """Whether a folder holds a point of a sweep, and nothing that netsim did not write."""
    try:
        return bool(Result(folder).experiment["axes"]) and foreign_entry(folder) is None
    except InputError:
        return False


def remove_partial(directory: Path) -> None:
    """Remove what was left of a run beside `directory`, now that it has a complete result."""
    beside = partial_directory(directory)
    left = recorded_complete(beside) is False or (beside / files.CHECKPOINT).exists()
    if left and not beside.is_symlink() and foreign_entry(beside) is None:
        shutil.rmtree(beside, ignore_errors=True)
