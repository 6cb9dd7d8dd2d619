"""Load plugin files from anywhere on disk as modules, and reload them when they change.

A file is loaded again only if it, or a module next to it that it imported, has changed. Its module
is in `sys.modules` as netsim_plugin_<stem>_<hash of path>, so two files of the same name are two
modules.
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
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from netsim.common.inputs import read_bytes
from netsim.errors import TRUST, InputError


@dataclass(frozen=True)
class _Loaded:
    module: ModuleType
    contents: dict[Path, str]  # digests of this file and the modules next to it


_loaded: dict[Path, _Loaded] = {}
_beside: dict[str, Path] = {}  # modules imported from plugins' directories, by name
_untrusted: ContextVar[bool] = ContextVar("untrusted", default=False)


@contextmanager
def untrusted() -> Iterator[None]:
    """A context that refuses to load plugin files: the user did not name them.

    A file that this process has loaded, and that has not changed since, is allowed.
    """
    before = _untrusted.set(True)
    try:
        yield
    finally:
        _untrusted.reset(before)


def is_loaded(path: Path) -> bool:
    """Return whether the plugin file at `path` (absolute) is loaded and unchanged."""
    known = _loaded.get(path)
    return known is not None and all(_digest(file) == was for file, was in known.contents.items())


def load(path: Path, *, shown: str) -> ModuleType:
    """Return the module of the plugin file at `path` (absolute); messages call it `shown`."""
    if is_loaded(path):
        return _loaded[path].module
    if _untrusted.get():
        raise InputError(f"needs the code in {path}, which is not part of netsim", hint=TRUST)
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
        with blamed(f'cannot load the plugin "{shown}"', shown), _importing_from(path.parent):
            exec(compile(source, str(path), "exec"), module.__dict__)
    except BaseException:
        sys.modules.pop(name, None)
        if previous is not None:
            sys.modules[name] = previous
        raise
    files = [path, *_beside.values()]
    _loaded[path] = _Loaded(module, {file: _digest(file) for file in files})
    return module


def module_name(path: Path) -> str:
    """Return the name in `sys.modules` of the plugin file at `path` (absolute)."""
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:12]
    return f"netsim_plugin_{path.stem}_{digest}"


@contextmanager
def blamed(what: str, file: str) -> Iterator[None]:
    """A context that turns what a plugin's code raises, exits included, into an `InputError`.

    Its message begins with `what`. Ctrl-C passes through.
    """
    try:
        yield
    except InputError as error:
        raise error.at(file=file) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise InputError(f"{what}: {_located(error)}") from error


def describe(error: BaseException) -> str:
    """Return an error on one line; never raises, whatever the error's own text does."""
    try:
        text = str(error.msg) if isinstance(error, SyntaxError) else str(error)
    except Exception:
        text = ""
    text = " ".join(text.split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _located(error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return f"{describe(error)} at line {error.lineno} of {error.filename}"
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at line {frames[-1].lineno} of {frames[-1].filename}" if frames else ""
    return describe(error) + place


@contextmanager
def _importing_from(directory: Path) -> Iterator[None]:
    """Let imports find modules in `directory`, and record the modules found.

    Recorded modules are forgotten first: another plugin's may have the same names, and this
    directory's may have changed.
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
        if str(directory) in sys.path:
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
    """Return the plugin file at `path` and the modules next to it that it imported.

    Maps each file, itself first, to the SHA-256 of what was loaded; empty if `path` is not loaded.
    """
    known = _loaded.get(path)
    return dict(known.contents) if known is not None else {}
