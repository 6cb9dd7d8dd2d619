"""Write files atomically, and never through a link.

A file is written under a new name in the same directory and then renamed, so a reader sees the old
file or the new one. A symbolic link in its place is replaced; its target is never touched.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from netsim.errors import InputError

NAME_CHARACTERS = 60  # longest part of a file's name in its scratch file's name


@contextmanager
def replacing_file(
    path: Path, *, private: bool = False, durable: bool = False
) -> Iterator[BinaryIO]:
    """Yield a new file that replaces `path` when the block succeeds.

    A `private` file is readable only by the user; a `durable` one is synced to disk before it takes
    the name. Raises OSError if it cannot be written, or if `path` is a directory, pipe or device.
    """
    refuse_special(path)
    prefix = f".{path.name[:NAME_CHARACTERS]}."
    descriptor, name = tempfile.mkstemp(prefix=prefix, suffix=".tmp", dir=path.parent)
    scratch = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            if not private:  # as mkstemp makes it
                os.fchmod(file.fileno(), 0o666 & ~umask())
            if durable:
                os.fsync(file.fileno())
        scratch.replace(path)
    except BaseException:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)
        raise
    if durable:
        sync(path.parent)


@contextmanager
def writing_to(path: object) -> Iterator[None]:
    """Turn an OSError of the block into an InputError: this file or folder cannot be written."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot be written: {reason}", file=str(path)) from None


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file, replacing any file. Raises OSError."""
    with replacing_file(path) as file:
        file.write(text.encode())


def write_new(path: Path, text: str) -> None:
    """Write a text file that must not exist, not even as a link. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text.encode())


def refuse_special(path: Path) -> None:
    """Raise OSError if `path` is, or links to, something other than a file."""
    try:
        mode = path.stat().st_mode
    except OSError:  # missing, or a broken link
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a directory", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is a pipe or a device", str(path))


def is_plain_file(path: Path) -> bool:
    """Return whether `path` itself is a file: no link, directory, pipe or device."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def sync(path: Path) -> None:
    """Sync a file, or the names in a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def umask() -> int:
    """Return the process's umask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


_BARE = re.compile(r"[A-Za-z0-9_-]+")
_CONTROL = re.compile(r"[\x7f]")


def toml_text(tree: Mapping[str, Any]) -> str:
    """Return a tree as TOML: the values of a table first, then its tables. None is left out."""
    return "\n".join(_toml_lines(tree, ())) + "\n"


def _toml_lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    tables = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    if path and (len(tables) < len(table) or not table):
        yield f"\n[{'.'.join(_toml_key(one) for one in path)}]"
    for key, value in table.items():
        if key in tables or value is None:
            continue
        if isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
            yield f"{_toml_key(key)} = ["
            yield from (f"    {_toml_value(one)}," for one in value)
            yield "]"
        else:
            yield f"{_toml_key(key)} = {_toml_value(value)}"
    for key, value in tables.items():
        yield from _toml_lines(value, (*path, key))


def _toml_key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _toml_value(key)


def _toml_value(value: Any) -> str:
    if isinstance(value, Mapping):
        inside = (f"{_toml_key(k)} = {_toml_value(v)}" for k, v in value.items() if v is not None)
        return "{" + ", ".join(inside) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml_value(one) for one in value if one is not None) + "]"
    text = json.dumps(value, ensure_ascii=False)
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
