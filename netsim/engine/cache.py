"""Compiled code on the disk: used again if it is whole, and never needed.

Machine code is kept in a folder named by a hash of every source file that can
influence it (the whole package and all files that a plugin imports), so an edit
anywhere takes effect and nothing is ever stale. Numba's own check looks at the
outermost file only. Its own files are not used either: it trusts what it finds in
them, so that a disk that was full once ends every later run.

Here each function has one file, written beside its place and then moved there, so
that processes may run side by side. It begins with a hash of the rest. A file that
is damaged, or that cannot be read, is removed and the function compiled again; where
no file can be written, a run says so once and does without.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import platform
import shutil
import sys
import sysconfig
import types
import uuid
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from netsim.errors import warn_once

KEPT_CACHES = 48
"""Cache folders of the most recently used source versions that are kept."""

LIBRARIES = {"site-packages", "dist-packages"}
"""Folders of installed libraries, wherever they are."""

DIGEST_BYTES = hashlib.sha256().digest_size


class CodeCache:
    """The files of one function, in place of the cache of its Numba dispatcher."""

    def __init__(self, folder: Path, function: types.FunctionType) -> None:
        self.cache_path = str(folder)
        self._folder = folder
        self._name = f"{function.__module__}.{function.__name__}"

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """The function compiled for a signature, or None if there is none that is whole."""
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
            parts = pickle.loads(memoryview(content)[DIGEST_BYTES:])
            return CompileResult._rebuild(target_context, *parts)
        except Exception:  # whole, and yet of no use to this Numba
            _remove(path)
            return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep what was compiled for a signature, if there is a place for it."""
        from numba.core.serialize import dumps

        if result.library.has_dynamic_globals:
            warn_once(f"{self._name} cannot be kept: it refers to a large array of a module")
            return
        path = self._path(signature, result.codegen)
        try:
            content = dumps(result._reduce())
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                _remove(path)
            _write(path, hashlib.sha256(content).digest() + content)
        except Exception as error:  # there is compiled code, and that is what matters
            _cannot_keep(self._folder.parent, error)

    def _path(self, signature: Any, codegen: Any) -> Path:
        """Code differs with the types of its arguments and the features of the processor."""
        key = f"{signature} {codegen.magic_tuple()}"
        return self._folder / f"{self._name}.{hashlib.sha256(key.encode()).hexdigest()[:20]}.code"


def cache_folder(plugins: Sequence[types.ModuleType]) -> Path | None:
    """Folder for compiled code of the present sources, made if need be; None if none can be.

    ``NETSIM_CACHE_DIR`` names another place than the user's cache directory.
    """
    try:
        root = _root()
    except RuntimeError as error:  # an account without a home
        warn_once(f"compiled code is not kept: {error}")
        return None
    try:
        folder = root / source_hash(plugins)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _cannot_keep(root, error)
        return None
    with suppress(OSError):  # a folder that may only be read is as good
        os.utime(folder)
        _prune(root, folder)
    return folder


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
    """Remove the folders of sources that have not been used for longest."""
    used = []
    for folder in root.iterdir():
        with suppress(OSError):  # another process may have removed it
            if folder != current and folder.is_dir():
                used.append((folder.stat().st_mtime, folder))
    for _, old in sorted(used, reverse=True)[KEPT_CACHES - 1 :]:
        shutil.rmtree(old, ignore_errors=True)


# --- the sources that decide what is compiled -----------------------------------------------------


@cache
def _foreign_roots() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple({paths[k] for k in ("stdlib", "platstdlib", "purelib", "platlib")})


@cache
def package_root() -> str:
    """The folder of the package."""
    return str(Path(__file__).resolve().parent.parent)


def is_ours(path: str | None) -> bool:
    """Files whose functions are compiled: the package's and plugins', not libraries'."""
    if path is None or not path.endswith(".py"):
        return False
    real = os.path.realpath(path)
    if real.startswith(package_root()):
        return True
    if LIBRARIES.intersection(Path(real).parts):
        return False
    return not any(real.startswith(root + os.sep) for root in _foreign_roots())


def top_package(name: str) -> str:
    """The outermost package of a dotted name."""
    return name.partition(".")[0]


def source_files(plugins: Sequence[types.ModuleType]) -> list[Path]:
    """Every file that the compiled code of ``plugins`` can depend on.

    The whole package, and for a plugin all modules reachable from it through its
    globals, at any depth, that are not part of an installed library.
    """
    root = Path(package_root())
    files = set(root.rglob("*.py"))
    seen: set[str] = set()
    queue = list(plugins)
    tops = {top_package(plugin.__name__) for plugin in plugins}
    while queue:
        module = queue.pop()
        if module.__name__ in seen:
            continue
        seen.add(module.__name__)
        path = getattr(module, "__file__", None)
        if path is not None and path.endswith(".py"):
            files.add(Path(path).resolve())
        for value in list(vars(module).values()):
            name = value.__name__ if isinstance(value, types.ModuleType) else None
            name = name or getattr(value, "__module__", None)
            found = sys.modules.get(name) if isinstance(name, str) else None
            if found is None:
                continue
            if top_package(found.__name__) in tops or is_ours(getattr(found, "__file__", None)):
                queue.append(found)
    return sorted(files)


def source_hash(plugins: Sequence[types.ModuleType]) -> str:
    """Hash of everything that decides what machine code comes out, but the fabric's features."""
    import llvmlite
    import numba

    digest = hashlib.sha256()
    versions = (numba.__version__, llvmlite.__version__, sys.version, platform.machine())
    digest.update(" ".join(versions).encode())
    digest.update(os.environ.get("NUMBA_BOUNDSCHECK", "").encode())
    for path in source_files(plugins):
        digest.update(str(path).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:20]
