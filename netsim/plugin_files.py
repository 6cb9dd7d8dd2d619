"""Plugins that are single files anywhere on disk, loaded as modules and never stale.

A file is loaded once and again only when it, or a module beside it that it imported,
has changed. Its module stands in `sys.modules` as netsim_plugin_<stem>_<hash of path>,
so that two files of one name are two modules.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.machinery
import importlib.util
import linecache
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from netsim.errors import InputError
from netsim.inputs import read_bytes


@dataclass(frozen=True)
class _Loaded:
    module: ModuleType
    contents: dict[Path, str]  # this file and the modules beside it: digest of each


_loaded: dict[Path, _Loaded] = {}
_beside: dict[str, Path] = {}  # modules imported from plugins' directories, by name


def load(path: Path, *, shown: str) -> ModuleType:
    """The module of the plugin file at `path` (absolute); `shown` is its name in messages."""
    known = _loaded.get(path)
    if known is not None and all(_digest(file) == was for file, was in known.contents.items()):
        return known.module
    try:
        source = read_bytes(path)
    except InputError as error:
        raise InputError(
            f'the plugin "{shown}" {error.message}', hint=f"looked for {path}"
        ) from None
    name = module_name(path)
    module = ModuleType(name)
    module.__file__ = str(path)
    module.__loader__ = importlib.machinery.SourceFileLoader(name, str(path))
    module.__spec__ = importlib.util.spec_from_file_location(name, path)
    linecache.checkcache(str(path))
    previous = sys.modules.get(name)
    sys.modules[name] = module
    try:
        with _importing_from(path.parent):
            exec(compile(source, str(path), "exec"), module.__dict__)
    except Exception as error:
        if previous is None:
            del sys.modules[name]
        else:
            sys.modules[name] = previous
        raise cannot_load(shown, error) from error
    files = [path, *_beside.values()]
    _loaded[path] = _Loaded(module, {file: _digest(file) for file in files})
    return module


def module_name(path: Path) -> str:
    """The name in `sys.modules` of the plugin file at `path` (absolute)."""
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:12]
    return f"netsim_plugin_{path.stem}_{digest}"


def cannot_load(shown: str, error: Exception) -> InputError:
    """The `InputError` for a plugin that raised `error` while it was loaded."""
    if isinstance(error, InputError):
        return error.at(file=shown)
    if isinstance(error, SyntaxError):
        where = f" at line {error.lineno} of {error.filename}"
    else:
        frames = traceback.extract_tb(error.__traceback__)
        where = f" at line {frames[-1].lineno} of {frames[-1].filename}" if frames else ""
    message = error.msg if isinstance(error, SyntaxError) else error
    return InputError(f'cannot load the plugin "{shown}": {type(error).__name__}: {message}{where}')


@contextmanager
def _importing_from(directory: Path) -> Iterator[None]:
    """Let imports find modules in `directory`, and note those that did.

    Modules that another plugin imported from its own directory are forgotten first,
    because they may have the same names; so are those of this directory, because they
    may have changed.
    """
    for name in _beside:
        sys.modules.pop(name, None)
    _beside.clear()
    before = set(sys.modules)
    no_bytecode = sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # its time stamps miss two edits within a second
    sys.path.insert(0, str(directory))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(directory))
        sys.dont_write_bytecode = no_bytecode
        for name in set(sys.modules) - before:
            stem = directory.joinpath(*name.split("."))
            file = getattr(sys.modules[name], "__file__", None)
            if file in (f"{stem}.py", str(stem / "__init__.py")):
                _beside[name] = Path(file)


def _digest(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return "gone"


def loaded_files(path: Path) -> dict[Path, str]:
    """The plugin file at `path` and the modules beside it that it imported, itself first.

    Each with the SHA-256 of what was loaded; nothing if `path` was not loaded from here.
    """
    known = _loaded.get(path)
    return dict(known.contents) if known is not None else {}
