"""Compiled code on the disk: used again if it is whole, and never needed.

Machine code is kept in a folder named by a hash of all that can reach it (`reach.py`),
so an edit of that takes effect, at any depth, and no other one costs anything. Numba's
own check looks at the outermost file only. Its own files are not used either: it trusts
what it finds in them, so that a disk that was full once ends every later run.

Here each function has one file, written beside its place and then moved there, so
that processes may run side by side. It begins with a hash of the rest. A file that
is damaged, or that cannot be read, is removed and the function compiled again; where
no file can be written, a run says so once and does without.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.errors import warn_once

if TYPE_CHECKING:
    from netsim.engine.compiling.reach import Lines

KEPT_CACHES = 160
"""Folders that are kept, those that were used last. Each holds one specialisation, some 3 MB."""

DIGEST_BYTES = hashlib.sha256().digest_size


class NotKeptError(Exception):
    """The code of a function is not on the disk."""


class CodeCache:
    """The files of one function, in place of the cache of its Numba dispatcher.

    ``lines`` say where the code stands that is compiled now; once the function is loaded,
    where it stood when that was compiled. With ``only_load``, what is not on the disk is a
    NotKeptError, and nothing is compiled.
    """

    def __init__(
        self, folder: Path, name: str, lines: Lines = (), *, only_load: bool = False
    ) -> None:
        self._only_load = only_load
        self.cache_path = str(folder)
        self.lines = lines
        self._folder = folder
        self._name = name

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """The function compiled for a signature, or None if there is none that is whole."""
        result = self._load(signature, target_context)
        if result is None and self._only_load:
            raise NotKeptError
        return result

    def _load(self, signature: Any, target_context: Any) -> Any:
        path = self._path(signature, target_context.codegen())
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError:
            _remove(path)
            return None
        if hashlib.sha256(content[DIGEST_BYTES:]).digest() != content[:DIGEST_BYTES]:
            _remove(path)
            return None
        from numba.core.compiler import CompileResult

        try:
            target_context.refresh()
            parts, lines = pickle.loads(memoryview(content)[DIGEST_BYTES:])
            result = CompileResult._rebuild(target_context, *parts)
        except Exception:  # whole, and yet of no use to this Numba
            _remove(path)
            return None
        self.lines = lines
        return result

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep what was compiled for a signature, if there is a place for it."""
        from numba.core.serialize import dumps

        machine_code = result._asdict()["library"]
        if machine_code.has_dynamic_globals:
            warn_once(f"{self._name} cannot be kept: it refers to a large array of a module")
            return
        path = self._path(signature, result.codegen)
        try:
            content = dumps((result._reduce(), self.lines))
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                _remove(path)
            _write(path, hashlib.sha256(content).digest() + content)
        except Exception as error:  # there is compiled code, and that is what matters
            _cannot_keep(self._folder.parent, error)

    def _path(self, signature: Any, codegen: Any) -> Path:
        """Code differs with the types of its arguments and the features of the processor."""
        key = f"{signature} {_fields(signature)} {codegen.magic_tuple()}"
        return self._folder / f"{self._name}.{hashlib.sha256(key.encode()).hexdigest()[:20]}.code"


def _fields(arguments: Iterable[Any]) -> list[Any]:
    """The names of the fields of named tuples, which Numba's name of their type leaves out."""
    return [
        (getattr(argument, "fields", None), _fields(getattr(argument, "types", ())))
        for argument in arguments
    ]


def cache_folder(key: str) -> Path | None:
    """Folder for the compiled code of that key, made if need be; None if none can be.

    ``NETSIM_CACHE_DIR`` names another place than the user's cache directory.
    """
    try:
        root = _root()
    except RuntimeError as error:  # an account without a home
        warn_once(f"compiled code is not kept: {error}")
        return None
    try:
        folder = root / key
        new = not folder.is_dir()
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _cannot_keep(root, error)
        return None
    with suppress(OSError):  # a folder that may only be read is as good
        os.utime(folder)
        if new:
            _prune(root, folder)
    return folder


def is_kept(key: str, function: str) -> bool:
    """Is the compiled code of a function in the folder of that key?"""
    try:
        return any((_root() / key).glob(f"{function}.*.code"))
    except (RuntimeError, OSError):
        return False


def _root() -> Path:
    chosen = os.environ.get("NETSIM_CACHE_DIR")
    if chosen:
        return Path(chosen)
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "netsim"


def _cannot_keep(folder: Path, error: Exception) -> None:
    reason = getattr(error, "strerror", None) or error
    warn_once(f"compiled code cannot be kept in {folder}: {reason}")


def _write(path: Path, content: bytes) -> None:
    """Write a file as a whole or not at all."""
    unfinished = path.with_name(f"{path.name}.{uuid.uuid4().hex[:16]}")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _remove(path: Path) -> None:
    """Remove what stands in the place of a file of ours, if that can be done."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):  # it is written over, or found damaged again
        path.unlink(missing_ok=True)


def _prune(root: Path, current: Path) -> None:
    """Remove the folders that have not been used for longest."""
    used = []
    for folder in root.iterdir():
        with suppress(OSError):  # another process may have removed it
            if folder != current and folder.is_dir():
                used.append((folder.stat().st_mtime, folder))
    for _, old in sorted(used, reverse=True)[KEPT_CACHES - 1 :]:
        shutil.rmtree(old, ignore_errors=True)
