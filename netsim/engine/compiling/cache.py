"""Compiled code on disk, used if it is intact and the user's own.

Machine code lies in a folder named by a hash of everything it depends on (`bindings.py`). Each
function has one file, written to a temporary name and renamed, so processes may run in parallel:

  32 bytes     SHA-256 of the rest
  8 bytes      length of the head, little-endian
  the head     JSON: what the code needs (`MachineCode`), and source positions
  the code     an object file

The file of `kept_functions.py` is a pickle that follows such a hash.

Whoever can write such a file can run code as the user, so only private folders are used
(`require_private`). A damaged or unreadable file is replaced. If no file can be written, a run
warns once and continues. Only folders named like a key are ever removed.

Importing and initializing Numba takes longer than a small run. Compiled code needs only LLVM's
linker and Numba functions written in C: helpers for arguments and errors. They are in extension
modules, loaded here by path.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from ctypes import PYFUNCTYPE, c_void_p, py_object
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from netsim.common.writing import replacing_file
from netsim.errors import warn_once

Lines = tuple[tuple[str, tuple[int | None, ...]], ...]
"""For each compiled function: its file, and the line of every instruction."""

ENVIRONMENT = "_ZN08NumbaEnv"  # prefix of variables for a function's Python constants


class NotLinkableError(Exception):
    """Code cannot be cached or linked; the message says why."""


class MachineCode(NamedTuple):
    """An object file. ``entry`` is its function, for Python or for other code; ``environments`` has
    its variables for Python constants, ``needed`` the functions that it calls."""

    entry: str
    environments: dict[str, list[Any]]
    needed: list[str]
    content: bytes


def kind_of(argument: Any) -> str:
    """Return the kind of an argument of compiled code: a number, an array or a group of them."""
    import numpy as np

    if isinstance(argument, np.ndarray):
        flags = argument.flags  # a single row is contiguous both ways, which Numba counts as C
        layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        kind = f"{argument.ndim}{layout} {flags.aligned} {flags.writeable}"
        return f"{text_of(argument.dtype)} {kind}"
    if isinstance(argument, tuple):
        return f"{type(argument).__name__}({', '.join(map(kind_of, argument))})"
    return type(argument).__name__


text_of = cache(repr)


@cache
def processor() -> str:
    """Return the processor's name and features, for which code is compiled."""
    from llvmlite import binding

    features = ""
    with suppress(RuntimeError):  # LLVM does not know this processor
        features = binding.get_host_cpu_features().flatten()
    return f"{binding.get_process_triple()} {binding.get_host_cpu_name()} {features}"


def code_of_result(result: Any) -> Any:
    """Return Numba's output for a function: its modules, and the functions that they call."""
    return result._asdict()["library"]


def machine_code(result: Any) -> MachineCode:
    """Return the code of a function that Numba compiled. Raises NotLinkableError."""
    from numba.core.environment import lookup_environment

    library = code_of_result(result)
    if library.has_dynamic_globals:
        raise NotLinkableError("it refers to a large array of a module")
    _, _, (content, _) = library.serialize_using_object_code()
    module = library._final_module
    names = [one.name for one in module.global_variables if one.name.startswith(ENVIRONMENT)]
    environments = {name: list(getattr(lookup_environment(name), "consts", ())) for name in names}
    for constant in (one for constants in environments.values() for one in constants):
        if not isinstance(constant, str | int | float | None):
            raise NotLinkableError(f"it refers to a Python object, {constant!r}")
    declared = (*module.functions, *module.global_variables)
    needed = [one.name for one in declared if one.is_declaration and one.name[:5] != "llvm."]
    entry = result.fndesc.llvm_cpython_wrapper_name
    if not any(one.name == entry for one in module.functions):
        entry = result.fndesc.llvm_func_name
    return MachineCode(entry, environments, needed, content)


class Loaded(NamedTuple):
    """Code in memory while ``owner`` exists. ``run`` calls it from Python, unless it is a unit;
    ``place`` returns the address of a variable."""

    address: int
    run: Callable[..., Any]
    place: Callable[[str], int]
    owner: object


def variable_of(unit: str, tag: str) -> str:
    """Return the variable for the address of a unit in the code ``tag``."""
    return f"netsim_{unit}_{tag}"


def linked(code: MachineCode) -> Loaded:
    """Load code. Raises an exception of any kind if it is unusable."""
    from llvmlite import binding

    _add_helpers()
    target = binding.Target.from_triple(binding.get_process_triple())
    machine = target.create_target_machine(jit=True)
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    missing = [name for name in code.needed if not binding.address_of_symbol(name)]
    if missing:  # LLVM would end the process
        raise NotLinkableError(f"{missing[0]} is missing")
    engine.add_object_file(binding.ObjectFileRef.from_data(code.content))
    engine.finalize_object()
    environments = []
    for name, constants in code.environments.items():
        environment = _extension("numba._dynfunc").Environment({})
        environment.consts.extend(constants)
        environments.append(environment)
        place = engine.get_global_value_address(name)
        if place:
            c_void_p.from_address(place).value = id(environment)
    address = engine.get_function_address(code.entry)
    function = PYFUNCTYPE(py_object, c_void_p, py_object, c_void_p)(address)

    def run(*arguments: Any) -> Any:
        return function(None, arguments, None)

    return Loaded(address, run, engine.get_global_value_address, (engine, environments))


@cache
def _add_helpers() -> None:
    """Register with the linker the symbols that Numba would register."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    helpers = {"_Py_NoneStruct": id(None)}
    for name in ("numba._helperlib", "numba._dynfunc"):
        for helper, address in _extension(name).c_helpers.items():
            helpers[f"numba_{helper}"] = helpers[helper] = address  # such as exp: Numba's choice
    for value in vars(__import__("builtins")).values():
        if isinstance(value, type) and issubclass(value, BaseException):
            helpers[f"PyExc_{value.__name__}"] = id(value)
    for name, address in helpers.items():
        binding.add_symbol(name, address)


@cache
def _extension(name: str) -> ModuleType:
    """Return an extension module of Numba, without importing the packages above it."""
    if name in sys.modules:
        return sys.modules[name]
    numba = find_spec("numba")
    places: Iterable[str] = (numba and numba.submodule_search_locations) or ()
    folders = name.split(".")[1:-1]
    found = PathFinder.find_spec(name, [str(Path(place, *folders)) for place in places])
    if found is None or found.loader is None:
        raise ImportError(f"Numba has no {name}")
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return module


OTHERS = stat.S_IWGRP | stat.S_IWOTH


class UnsafeError(Exception):
    """Another user could change a path; reports who or how."""


def require_private(folder: Path) -> None:
    """Raise UnsafeError if another user could change files in `folder`, a resolved path.

    They can if it, or a folder above it, belongs to another user or is writable by others. Folders
    above may be writable if sticky, like /tmp: others cannot rename the user's files there. Root
    counts as the user.
    """
    for place in (folder, *folder.parents):
        status = place.lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise UnsafeError(f"{place} is not a directory")
        if status.st_uid not in (0, os.geteuid()):
            raise UnsafeError(f"{place} belongs to another user (uid {status.st_uid})")
        is_sticky = place != folder and status.st_mode & stat.S_ISVTX
        if status.st_mode & OTHERS and not is_sticky:
            raise UnsafeError(f"{place} is writable by others (fix with chmod go-w)")


KEPT_CACHES = 640  # most recently used folders to keep. On average each holds 0.5 MB.

FOLDER = "netsim-compiled-v1"
"""Folder of the cache in the user's cache directory or in ``NETSIM_CACHE_DIR``."""

KEY = re.compile("[0-9a-f]{20}")  # names of the folders in it; nothing else is ever removed

LOCK = ".lock"  # file in each of them, locked by the process that compiles
WAIT_S = 120.0  # longest wait, in seconds, for another process to compile a function
POLL_S = 0.05

DIGEST_BYTES = hashlib.sha256().digest_size
LENGTH = struct.Struct("<Q")


def load(folder: Path, name: str, kind: str) -> tuple[MachineCode, Lines] | None:
    """Return the code of function ``name`` for arguments of a kind, and its source positions when
    it was compiled; None if it is not cached."""
    try:
        return _parts(content_of(_path(folder, name, kind)))
    except FileNotFoundError:
        return None
    except Exception:  # unreadable, damaged, or of another form
        remove(folder, name, kind)
        return None


@contextmanager
def compiling(folder: Path | None) -> Iterator[None]:
    """Wait while another process compiles. The caller then looks into the cache again before it
    compiles.

    A process that ends releases its lock. The wait ends after WAIT_S, in case the compiling process
    is suspended. If no lock can be created, every process compiles.
    """
    with ExitStack() as stack:
        with suppress(OSError):
            lock = stack.enter_context(open(folder / LOCK, "wb")) if folder else None
            end = time.monotonic() + WAIT_S
            while lock and not _try_lock(lock.fileno()) and time.monotonic() < end:
                time.sleep(POLL_S)
        yield


def _try_lock(descriptor: int) -> bool:
    """Lock a file unless another process has; return whether this one did. Raises OSError."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def save(folder: Path, name: str, kind: str, code: MachineCode, lines: Lines) -> None:
    """Save the code of a function, if possible."""
    head = json.dumps([*code[:-1], lines]).encode()
    try:
        write(_path(folder, name, kind), LENGTH.pack(len(head)) + head + code.content)
    except OSError as error:  # the compiled code is usable anyway
        _cannot_keep(folder.parent, error)


def write(path: Path, content: bytes) -> None:
    """Write a file with its hash. Raises OSError."""
    with replacing_file(path, private=True) as file:
        file.write(hashlib.sha256(content).digest() + content)


def content_of(path: Path) -> bytes:
    """Return the content that `write` wrote. Raises OSError, and ValueError if it is damaged."""
    content = path.read_bytes()
    if hashlib.sha256(content[DIGEST_BYTES:]).digest() != content[:DIGEST_BYTES]:
        raise ValueError("damaged")
    return content[DIGEST_BYTES:]


def remove(folder: Path, name: str, kind: str) -> None:
    """Remove code that cannot be used, if possible."""
    with suppress(OSError):  # it will be overwritten, or found damaged again
        _path(folder, name, kind).unlink(missing_ok=True)


def _path(folder: Path, name: str, kind: str) -> Path:
    """Return the file for arguments of a kind and for this processor."""
    key = f"{kind} {processor()}"
    return folder / f"{name}.{hashlib.sha256(key.encode()).hexdigest()[:20]}.code"


def _parts(content: bytes) -> tuple[MachineCode, Lines]:
    """Return the code and the source positions in a file. A damaged file may raise any error."""
    (length,) = LENGTH.unpack_from(content)
    begin = LENGTH.size
    entry, environments, needed, lines = json.loads(content[begin : begin + length])
    code = MachineCode(entry, environments, needed, content[begin + length :])
    return code, tuple((file, tuple(places)) for file, places in lines)


def cache_folder(key: str) -> Path | None:
    """Return the folder for the code of a key, created if needed; None if impossible.
    ``NETSIM_CACHE_DIR`` replaces the user's cache directory."""
    try:
        place = _root() / FOLDER
        is_new = not (place / key).is_dir()
        folder = _private(place / key)
    except (RuntimeError, UnsafeError) as error:  # an account without a home; others' folders
        warn_once(f"compiled code is not cached: {error}")
        return None
    except OSError as error:
        _cannot_keep(place, error)
        return None
    with suppress(OSError):  # a read-only folder works too
        os.utime(folder)
        if is_new:
            _prune(place, folder)
    return folder


def is_kept(key: str) -> bool:
    """Return whether the folder of a key contains code."""
    with suppress(RuntimeError, OSError):
        return any((_root() / FOLDER / key).glob("*.code"))
    return False


def own_folder(name: str) -> Path | None:
    """Return a folder of the cache for other data, created if needed; None if impossible."""
    with suppress(RuntimeError, OSError, UnsafeError):
        return _private(_root() / name)
    return None


def _private(folder: Path) -> Path:
    """Return a folder, created for the user alone if needed. Raises OSError or UnsafeError."""
    if not folder.is_dir():
        before = os.umask(0o077)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        finally:
            os.umask(before)
    require_private(folder)
    return folder


def _root() -> Path:
    """Return the cache folder with links resolved; it may not exist."""
    root = os.environ.get("NETSIM_CACHE_DIR")
    if not root:
        caches = os.environ.get("XDG_CACHE_HOME")
        root = str((Path(caches) if caches else Path.home() / ".cache") / "netsim")
    return Path(os.path.realpath(root))


def _cannot_keep(folder: Path, error: Exception) -> None:
    reason = getattr(error, "strerror", None) or error
    warn_once(f"compiled code cannot be cached in {folder}: {reason}")


def _prune(place: Path, current: Path) -> None:
    """Remove the least recently used folders of compiled code."""
    used = []
    for folder in place.iterdir():
        with suppress(OSError):  # another process may have removed it
            status = folder.lstat()
            if folder != current and stat.S_ISDIR(status.st_mode) and KEY.fullmatch(folder.name):
                used.append((status.st_mtime, folder))
    for _, old in sorted(used, reverse=True)[KEPT_CACHES - 1 :]:
        shutil.rmtree(old, ignore_errors=True)
