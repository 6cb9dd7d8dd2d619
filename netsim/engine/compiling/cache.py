"""Compiled code on the disk: used again if it is whole and the user's own, and never needed.

Machine code is kept in a folder named by a hash of all that can reach it (`code_fingerprint.py`),
so an edit of that takes effect, at any depth, and no other one costs anything. Numba's
own check looks at the outermost file only. Its own files are not used either: it trusts
what it finds in them, so that a disk that was full once ends every later run.

Here each function has one file, written beside its place and then moved there, so
that processes may run side by side:

    32 bytes     SHA-256 of the rest
    8 bytes      the length of the lines, little-endian
    the lines    JSON: where the sources stood
    the code     as Numba takes it apart: a pickle, with machine code in it

A file that is damaged, or that cannot be read, is removed and the function compiled
again; where no file can be written, a run says so once and does without.

Whoever can write such a file has his code run, pickle or not, and a hash keeps nobody
from it. So files are read only where nobody but the user and root can have put them
(`private_folder.py`); otherwise a run says why once and does without. And only what
netsim made is ever removed: folders in the cache's own subfolder, named like a key,
with a mark inside.
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

from netsim.engine.compiling.private_folder import (
    UnsafeError,
    make_private,
    require_own,
    require_private,
)
from netsim.errors import warn_once
from netsim.writing import is_plain_file, replacing_file

if TYPE_CHECKING:
    from netsim.engine.compiling.code_fingerprint import Lines

KEPT_CACHES = 160
"""Folders that are kept, those that were used last. Each holds one specialization, some 3 MB."""

FOLDER = "netsim-compiled-v1"
"""Name of the cache's own folder, inside the user's or that of ``NETSIM_CACHE_DIR``."""

KEY = re.compile("[0-9a-f]{20}")
"""Names of the folders in it."""

MARK = "made-by-netsim"
"""Name of an empty file in each of them: without it, a folder is not removed."""

DIGEST_BYTES = hashlib.sha256().digest_size
LENGTH = struct.Struct("<Q")


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
            content = _content(path)
        except FileNotFoundError:
            return None
        except UnsafeError as error:
            warn_once(f"compiled code is not used: {error}")
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
        except Exception:  # whole, and yet of no use to this Numba
            _remove(path)
            return None
        self.lines = lines
        return result

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep what was compiled for a signature, if there is a place for it."""
        try:
            from numba.core.serialize import dumps

            if result._asdict()["library"].has_dynamic_globals:
                warn_once(f"{self._name} cannot be kept: it refers to a large array of a module")
                return
            path = self._path(signature, result.codegen)
            lines = json.dumps(self.lines).encode()
            content = LENGTH.pack(len(lines)) + lines + dumps(result._reduce())
            _make(self._folder)
            if not is_plain_file(path):
                _remove(path)
            with replacing_file(path, private=True) as file:
                file.write(hashlib.sha256(content).digest() + content)
        except Exception as error:  # there is compiled code, and that is what matters
            _cannot_keep(self._folder.parent, error)

    def _path(self, signature: Any, codegen: Any) -> Path:
        """Code differs with the types of its arguments and the features of the processor."""
        key = f"{signature} {_fields(signature)} {codegen.magic_tuple()}"
        return self._folder / f"{self._name}.{hashlib.sha256(key.encode()).hexdigest()[:20]}.code"


def _content(path: Path) -> bytes:
    """What is in a file of the user's own. Raises OSError or UnsafeError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError
        require_own(path, status)
        return file.read()


def _parts(content: memoryview) -> tuple[Lines, memoryview]:
    """The lines, and the code as Numba takes it apart."""
    begin = LENGTH.size
    (length,) = LENGTH.unpack(content[:begin])
    end = begin + length
    lines = json.loads(bytes(content[begin:end]))
    return tuple((name, tuple(places)) for name, places in lines), content[end:]


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
        place = _place()
    except RuntimeError as error:  # an account without a home
        warn_once(f"compiled code is not kept: {error}")
        return None
    folder = place / key
    try:
        new = not folder.is_dir()
        if new:
            require_private(_nearest(place), to_make=True)
            _make(folder)
        require_private(folder)
    except UnsafeError as error:
        warn_once(f"compiled code is not kept: {error}")
        return None
    except OSError as error:
        _cannot_keep(place, error)
        return None
    with suppress(OSError):  # a folder that may only be read is as good
        os.utime(folder)
        if new:
            _prune(place, folder)
    return folder


def is_kept(key: str, function: str) -> bool:
    """Is the compiled code of a function in the folder of that key?"""
    try:
        folder = _place() / key
        require_private(folder)
        return any(folder.glob(f"{function}.*.code"))
    except (RuntimeError, OSError, UnsafeError):
        return False


def own_folder(name: str) -> Path | None:
    """Folder of the cache for other things than code, made if need be; None if none can be."""
    try:
        folder = _root() / name
        require_private(_nearest(folder), to_make=True)
        make_private(folder)
        require_private(folder)
    except (RuntimeError, OSError, UnsafeError):
        return None
    return folder


def _place() -> Path:
    """Where code is. It need not be there."""
    return _root() / FOLDER


def _root() -> Path:
    """The cache, without links on the way to it. It need not be there."""
    root = os.environ.get("NETSIM_CACHE_DIR")
    if not root:
        caches = os.environ.get("XDG_CACHE_HOME")
        root = str((Path(caches) if caches else Path.home() / ".cache") / "netsim")
    return Path(os.path.realpath(root))


def _nearest(folder: Path) -> Path:
    """The folder itself, or the first above it that is there."""
    return next(place for place in (folder, *folder.parents) if os.path.lexists(place))


def _make(folder: Path) -> None:
    """Make a folder of compiled code, with its mark. Raises OSError."""
    make_private(folder)
    if not is_plain_file(folder / MARK):
        with replacing_file(folder / MARK, private=True):
            pass


def _cannot_keep(folder: Path, error: Exception) -> None:
    reason = getattr(error, "strerror", None) or error
    warn_once(f"compiled code cannot be kept in {folder}: {reason}")


def _remove(path: Path) -> None:
    """Remove what stands in the place of a file of ours, if that can be done."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):  # it is written over, or found damaged again
        path.unlink(missing_ok=True)


def _prune(place: Path, current: Path) -> None:
    """Remove the folders of compiled code that have not been used for longest."""
    used = []
    for folder in place.iterdir():
        with suppress(OSError):  # another process may have removed it
            status = folder.lstat()
            if folder != current and stat.S_ISDIR(status.st_mode) and _is_ours(folder):
                used.append((status.st_mtime, folder))
    for _, old in sorted(used, reverse=True)[KEPT_CACHES - 1 :]:
        shutil.rmtree(old, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    """Is it a folder of compiled code that netsim made?"""
    return KEY.fullmatch(folder.name) is not None and is_plain_file(folder / MARK)
