"""Compiled code on disk, used if it is intact and the user's own.

Machine code lies in a folder named by a hash of everything it depends on (`code_fingerprint.py`).
Each function has one file, written to a temporary name and renamed, so that processes may run in
parallel:

  32 bytes     SHA-256 of the rest
  8 bytes      length of the lines, little-endian
  the lines    JSON: source positions
  the code     as Numba serializes it: a pickle, with machine code

Whoever can write such a file can run code as the user, so only private folders are used
(`require_private`). A damaged or unreadable file is replaced. If no file can be written, a run
warns once and continues. Only folders named like a key, with a mark inside, are ever removed.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import re
import shutil
import stat
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.errors import warn_once
from netsim.writing import is_plain_file, replacing_file

if TYPE_CHECKING:
    from netsim.engine.compiling.code_fingerprint import Lines

OTHERS = stat.S_IWGRP | stat.S_IWOTH
PRIVATE = 0o700


class UnsafeError(Exception):
    """Another user could change a path; reports who or how."""


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
    `sticky`: it may be a folder in which only a file's owner can rename it."""
    if status.st_uid not in (0, os.geteuid()):
        raise UnsafeError(f"{path} belongs to another user (uid {status.st_uid})")
    if status.st_mode & OTHERS and not (sticky and status.st_mode & stat.S_ISVTX):
        raise UnsafeError(f"{path} is writable by others (fix with chmod go-w)")


KEPT_CACHES = 160  # most recently used folders to keep. Each holds one specialization, about 3 MB.

FOLDER = "netsim-compiled-v1"
"""Folder of the cache in the user's cache directory or in ``NETSIM_CACHE_DIR``."""

KEY = re.compile("[0-9a-f]{20}")  # names of the folders in it
MARK = "made-by-netsim"  # empty file in each of them; a folder without it is never removed

DIGEST_BYTES = hashlib.sha256().digest_size
LENGTH = struct.Struct("<Q")


class NotKeptError(Exception):
    """The code of a function is not on disk."""


class CodeCache:
    """Cache of one function, replacing that of its Numba dispatcher.

    ``lines`` are the source positions now; after a load, those at compile time. With ``only_load``,
    code that is not on disk raises NotKeptError instead of being compiled.
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
        """Return the function compiled for a signature, or None."""
        result = self._load(signature, target_context)
        if result is None and self._only_load:
            raise NotKeptError
        return result

    def _load(self, signature: Any, target_context: Any) -> Any:
        path = self._path(signature, target_context.codegen())
        try:
            content = _content(path)
        except FileNotFoundError:
            return None
        except UnsafeError as error:
            warn_once(f"cached code is not used: {error}")
            return None
        except OSError:
            _remove(path)
            return None
        if hashlib.sha256(content[DIGEST_BYTES:]).digest() != content[:DIGEST_BYTES]:
            _remove(path)
            return None
        try:
            from numba.core.compiler import CompileResult

            target_context.refresh()
            lines, code = _parts(memoryview(content)[DIGEST_BYTES:])
            result = CompileResult._rebuild(target_context, *pickle.loads(code))
        except Exception:  # intact, but unusable with this Numba
            _remove(path)
            return None
        self.lines = lines
        return result

    def save_overload(self, signature: Any, result: Any) -> None:
        """Save the code compiled for a signature, if possible."""
        try:
            from numba.core.serialize import dumps

            if result._asdict()["library"].has_dynamic_globals:
                warn_once(f"{self._name} cannot be cached: it refers to a large array of a module")
                return
            path = self._path(signature, result.codegen)
            lines = json.dumps(self.lines).encode()
            content = LENGTH.pack(len(lines)) + lines + dumps(result._reduce())
            _make(self._folder)
            if not is_plain_file(path):
                _remove(path)
            with replacing_file(path, private=True) as file:
                file.write(hashlib.sha256(content).digest() + content)
        except Exception as error:  # the compiled code is usable anyway
            _cannot_keep(self._folder.parent, error)

    def _path(self, signature: Any, codegen: Any) -> Path:
        """Return the file for the types of the arguments and the processor's features."""
        key = f"{signature} {_fields(signature)} {codegen.magic_tuple()}"
        return self._folder / f"{self._name}.{hashlib.sha256(key.encode()).hexdigest()[:20]}.code"


def _content(path: Path) -> bytes:
    """Return the content of a file owned by the user. Raises OSError or UnsafeError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError
        require_own(path, status)
        return file.read()


def _parts(content: memoryview) -> tuple[Lines, memoryview]:
    """Return the lines, and the code as Numba serializes it."""
    begin = LENGTH.size
    (length,) = LENGTH.unpack(content[:begin])
    end = begin + length
    lines = json.loads(bytes(content[begin:end]))
    return tuple((name, tuple(places)) for name, places in lines), content[end:]


def _fields(arguments: Iterable[Any]) -> list[Any]:
    """Return the field names of named tuples, which Numba's type names omit."""
    return [
        (getattr(argument, "fields", None), _fields(getattr(argument, "types", ())))
        for argument in arguments
    ]


def cache_folder(key: str) -> Path | None:
    """Return the folder for the code of a key, created if needed; None if impossible.
    ``NETSIM_CACHE_DIR`` replaces the user's cache directory."""
    try:
        place = _place()
    except RuntimeError as error:  # an account without a home
        warn_once(f"compiled code is not cached: {error}")
        return None
    folder = place / key
    try:
        new = not folder.is_dir()
        if new:
            require_private(_nearest(place), to_make=True)
            _make(folder)
        require_private(folder)
    except UnsafeError as error:
        warn_once(f"compiled code is not cached: {error}")
        return None
    except OSError as error:
        _cannot_keep(place, error)
        return None
    with suppress(OSError):  # a read-only folder works too
        os.utime(folder)
        if new:
            _prune(place, folder)
    return folder


def is_kept(key: str, function: str) -> bool:
    """Return whether the code of a function is in the folder of that key."""
    try:
        folder = _place() / key
        require_private(folder)
        return any(folder.glob(f"{function}.*.code"))
    except (RuntimeError, OSError, UnsafeError):
        return False


def own_folder(name: str) -> Path | None:
    """Return a folder of the cache for other data, created if needed; None if impossible."""
    try:
        folder = _root() / name
        require_private(_nearest(folder), to_make=True)
        make_private(folder)
        require_private(folder)
    except (RuntimeError, OSError, UnsafeError):
        return None
    return folder


def _place() -> Path:
    """Return the folder of compiled code, which may not exist."""
    return _root() / FOLDER


def _root() -> Path:
    """Return the cache folder with links resolved; it may not exist."""
    root = os.environ.get("NETSIM_CACHE_DIR")
    if not root:
        caches = os.environ.get("XDG_CACHE_HOME")
        root = str((Path(caches) if caches else Path.home() / ".cache") / "netsim")
    return Path(os.path.realpath(root))


def _nearest(folder: Path) -> Path:
    """Return the folder, or the nearest existing one above it."""
    return next(place for place in (folder, *folder.parents) if os.path.lexists(place))


def _make(folder: Path) -> None:
    """Create a folder of compiled code, with its mark. Raises OSError."""
    make_private(folder)
    if not is_plain_file(folder / MARK):
        with replacing_file(folder / MARK, private=True):
            pass


def _cannot_keep(folder: Path, error: Exception) -> None:
    reason = getattr(error, "strerror", None) or error
    warn_once(f"compiled code cannot be cached in {folder}: {reason}")


def _remove(path: Path) -> None:
    """Remove whatever is at the path of a cache file, if possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):  # it will be overwritten, or found damaged again
        path.unlink(missing_ok=True)


def _prune(place: Path, current: Path) -> None:
    """Remove the least recently used folders of compiled code."""
    used = []
    for folder in place.iterdir():
        with suppress(OSError):  # another process may have removed it
            status = folder.lstat()
            if folder != current and stat.S_ISDIR(status.st_mode) and _is_ours(folder):
                used.append((status.st_mtime, folder))
    for _, old in sorted(used, reverse=True)[KEPT_CACHES - 1 :]:
        shutil.rmtree(old, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    """Return whether netsim made this folder of compiled code."""
    return KEY.fullmatch(folder.name) is not None and is_plain_file(folder / MARK)
