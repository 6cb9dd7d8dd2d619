"""The directory for results: check it before a run, then prepare it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from netsim.common.inputs import ROOM_IN_NAME, path_problem
from netsim.errors import InputError
from netsim.results import files
from netsim.results.read import Result, is_sweep, recorded_complete
from netsim.results.replace import foreign_entry, is_our_sweep, real, recover
from netsim.results.saturation import STALLED
from netsim.units import written

STALE_POINTS = "stale_points"
"""Folder of a sweep for points of earlier sweeps that are not in the present one."""

ELSEWHERE = "choose another --out, or remove this one"


def check_destination(directory: Path, *, sweep: bool = False) -> None:
    """Raise InputError unless a result (or a sweep) may be written to `directory`.

    Checked before a run, which may be long. Files that netsim did not write are never replaced, and
    a sweep and a single result never replace each other. Links must have been resolved (`real`).
    """
    _check_name(directory)
    if directory.is_symlink():
        raise InputError(f"{directory} is a link, not a directory", hint=ELSEWHERE)
    if directory.exists() and not directory.is_dir():
        raise InputError(f"{directory} is a file, not a directory", code="unreadable")
    try:
        ours = is_our_sweep(directory)
        foreign = foreign_entry(directory) if directory.exists() and not ours else None
    except OSError as error:
        raise InputError(f"cannot write to {directory}: {error.strerror}") from error
    _check_writable(directory.parent)
    if ours:
        if not sweep:
            raise InputError(f"{directory} contains a sweep", hint=ELSEWHERE)
        _check_writable(directory)
        return
    if foreign:
        message = f"{directory} contains {foreign}, which netsim did not write"
        raise InputError(message, hint=ELSEWHERE)
    if sweep and holds_complete(directory):
        message = f"{directory} contains the complete result of a single run"
        raise InputError(message, hint=ELSEWHERE)


def _check_name(directory: Path) -> None:
    """Raise InputError unless a directory can have that name, with room for a suffix."""
    problem = path_problem(str(directory), reserve=ROOM_IN_NAME)
    if problem:
        raise InputError(f"{written(str(directory))} {problem}", hint=ELSEWHERE)


def _check_writable(directory: Path) -> None:
    """Raise InputError if `directory` cannot be written or made."""
    for folder in (directory, *directory.parents):
        if folder.exists():
            if not folder.is_dir():
                raise InputError(f"{folder} is a file, not a directory")
            if not os.access(folder, os.W_OK | os.X_OK):
                raise InputError(f"cannot write to {folder}: permission denied", code="unreadable")
            return


def check_folders(folders: Sequence[Path], inputs: Sequence[Path]) -> None:
    """Raise InputError if a result cannot be written to a folder, or would replace an input
    file.
    """
    for folder in folders:
        _check_name(folder)
        for one in (folder, partial_directory(folder)):
            if os.path.lexists(one):
                check_destination(one)
    replaced = {real(folder) for folder in folders}
    for file in dict.fromkeys(inputs):
        if replaced & set(real(file).parents):
            hint = "choose another --out, or move the file"
            raise InputError(f"{file} is an input file in the results directory", hint=hint)


def partial_directory(directory: Path) -> Path:
    """Return where a partial result goes if `directory` has a complete one."""
    return directory.with_name(f"{directory.name}.partial")


def directory_of_partial(directory: Path) -> Path:
    """Return where an unfinished run for `directory` keeps its files."""
    return partial_directory(directory) if holds_complete(directory) else directory


def previous_directory(directory: Path) -> Path:
    """Return where a replaced result of other code or values goes."""
    return directory.with_name(f"{directory.name}.previous")


def other_result(directory: Path, fingerprint: str) -> Result | None:
    """Return the complete result in `directory` if it has another fingerprint."""
    try:
        result = Result(directory)
    except InputError:
        return None
    same = result.experiment.get("fingerprint") == fingerprint
    return result if result.complete and not same else None


def holds_complete(directory: Path) -> bool:
    """Return whether `directory` has a complete result."""
    return recorded_complete(directory) is True


def found_result(directory: Path, fingerprint: str) -> Result | None:
    """Return the result with that fingerprint in `directory` or its partial directory."""
    for folder in (directory, partial_directory(directory)):
        try:
            result = Result(folder)
        except InputError:
            continue
        if result.experiment.get("fingerprint") == fingerprint:
            return result
    return None


def done_result(
    directory: Path, fingerprint: str, *, links: bool, stalled: bool = False
) -> Result | None:
    """Return the complete, undamaged result with that fingerprint in `directory`; with `stalled`,
    or one that stalled."""
    result = found_result(directory, fingerprint)
    if result is None or result.path != directory:
        return None
    if not result.complete and not (stalled and result.status == STALLED):
        return None
    try:
        intact = len(result.flows) == result.summary["flows"]
        if links:
            intact = intact and result.links is not None
    except InputError:
        return None
    return result if intact else None


def recover_single(directory: Path) -> None:
    """Clean up after a killed run of a single result."""
    for folder in (directory, partial_directory(directory)):
        recover(folder.parent, folder.name)


def prepare_sweep(directory: Path, names: Sequence[str]) -> list[str]:
    """Prepare `directory` for the points called `names`; return the names of points moved away.

    Cleans up after killed runs and removes a partial single result. Points of earlier sweeps move
    to "stale_points"; those that this sweep has again move back.
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
        siblings = [
            sibling(Path(name)).name
            for name in names
            for sibling in (partial_directory, previous_directory)
        ]
        moved = _move_away(directory, {*names, *siblings})
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
    """Return whether a folder holds only a point of a sweep, written by netsim."""
    try:
        return bool(Result(folder).experiment["axes"]) and foreign_entry(folder) is None
    except InputError:
        return False


def remove_partial(directory: Path) -> None:
    """Remove the partial result, now that `directory` has a complete one."""
    partial = partial_directory(directory)
    left = recorded_complete(partial) is False or (partial / files.CHECKPOINT).exists()
    if left and not partial.is_symlink() and foreign_entry(partial) is None:
        shutil.rmtree(partial, ignore_errors=True)
