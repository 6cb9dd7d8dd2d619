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
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from netsim.errors import InputError
from netsim.inputs import read_bytes
from netsim.renames import RENAMED


@dataclass(frozen=True)
class _Loaded:
    module: ModuleType
    contents: dict[Path, str]  # this file and the modules beside it: digest of each


_loaded: dict[Path, _Loaded] = {}
_beside: dict[str, Path] = {}  # modules imported from plugins' directories, by name
_untrusted: ContextVar[bool] = ContextVar("untrusted", default=False)

FORMER = re.compile(r"(?:attribute|keyword argument) '(\w+)'")
"""The name of which Python says in an error that it does not exist."""

TRUST = "read it; then --trust, in Python trust=True, runs it"
"""Hint for code that is not run unless the user says so."""


@contextmanager
def untrusted() -> Iterator[None]:
    """Within, loading a plugin file is an `InputError`: what names it is not the user.

    A file that this process has loaded before, and that has not changed since, is let pass.
    """
    before = _untrusted.set(True)
    try:
        yield
    finally:
        _untrusted.reset(before)


def is_loaded(path: Path) -> bool:
    """Whether the plugin file at `path` (absolute) was loaded and has not changed since."""
    known = _loaded.get(path)
    return known is not None and all(_digest(file) == was for file, was in known.contents.items())


def load(path: Path, *, shown: str) -> ModuleType:
    """The module of the plugin file at `path` (absolute); `shown` is its name in messages."""
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
    """The name in `sys.modules` of the plugin file at `path` (absolute)."""
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:12]
    return f"netsim_plugin_{path.stem}_{digest}"


@contextmanager
def blamed(what: str, file: str) -> Iterator[None]:
    """Turn whatever a plugin's code raises within into an `InputError` that begins with `what`.

    So an exit that the plugin asks for is a mistake of its own, not the end of the run. Ctrl-C
    stays what it is.
    """
    try:
        yield
    except InputError as error:
        raise error.at(file=file) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise InputError(f"{what}: {_told(error)}") from error


def words(error: BaseException) -> str:
    """What an error is, in one line; whatever its own words are, this raises nothing."""
    try:
        text = str(error.msg) if isinstance(error, SyntaxError) else str(error)
    except Exception:
        text = ""
    text = " ".join(text.split())
    if found := FORMER.search(text):
        new = RENAMED["attribute"].get(found[1])
        text += f": renamed (write {new})" if new else ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _told(error: BaseException) -> str:
    """An error of a plugin's with its place."""
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return f"{words(error)} at line {error.lineno} of {error.filename}"
    frames = traceback.extract_tb(error.__traceback__)
    return words(error) + (
        f" at line {frames[-1].lineno} of {frames[-1].filename}" if frames else ""
    )


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
    """The plugin file at `path` and the modules beside it that it imported, itself first.

    Each with the SHA-256 of what was loaded; nothing if `path` was not loaded from here.
    """
    known = _loaded.get(path)
    return dict(known.contents) if known is not None else {}
