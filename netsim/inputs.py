"""The files that a user names: where they are, and reading them.

Whatever is wrong with one, from its name to its last byte, is an InputError that names it.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import stat
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from netsim.errors import InputError, did_you_mean
from netsim.memory import require_room
from netsim.units import shortened, written

NAME_BYTES = 255
"""The longest name of a file or directory on the usual file systems."""

_WHOLE = re.compile(r"\s*(-?)0*([0-9]{1,18})\s*", re.ASCII)

ROOM_IN_NAME = 30
"""Bytes kept in the name of a directory of results, for that of the one that takes its place."""

IN_MEMORY = 10
"""Bytes that a byte of a file takes once it is cut into pieces."""

_PART = 1 << 24
"""So many bytes are unpacked at once."""

SUSPICIOUS, RATIO = 1 << 26, 100
"""More bytes than that are unpacked only while each packed byte has become at most `RATIO`: nodes
that are all alike reach 20, and a file made to fill memory 1,000."""

JSON_IN_MEMORY = 30
"""Bytes that a byte of JSON takes at the most, as objects of Python."""

DIGITS = 400
"""An integer of more digits is no quantity; Python itself refuses to print one of 4,300."""


def user_path(name: str, directory: Path) -> Path:
    """The path of the file called `name` by a user; a relative one starts at `directory`."""
    problem = path_problem(name)
    if problem:
        raise InputError(f'"{shortened(name)}" {problem}')
    try:
        return directory / Path(name).expanduser()
    except RuntimeError:
        raise InputError(
            f'"{shortened(name)}" starts in the home directory of nobody', hint="~/ is your own"
        ) from None


def path_problem(name: str, reserve: int = 0) -> str:
    """Why no file or directory can have that name, or nothing if one can.

    `reserve` bytes are kept for what is added to the last part.
    """
    if "\0" in name:
        return "cannot name a file: it contains a NUL"
    try:
        sizes = [len(part.encode("utf-8", "surrogateescape")) for part in Path(name).parts]
    except UnicodeEncodeError:
        return "cannot name a file: it is not text"
    if sizes and max(*sizes, sizes[-1] + reserve) > NAME_BYTES:
        return f"cannot name a file: longer than {NAME_BYTES - reserve} bytes"
    return ""


def is_file(path: Path) -> bool:
    """Whether there is such a file; whatever name no file can have, there is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def locate(name: str, directory: Path, known: Mapping[str, Path], what: str) -> Path:
    """The file that `name` stands for: a path, or one of the presets `known` of `what`."""
    problem = path_problem(name)
    if problem:
        raise InputError(f"{written(name)} {problem}")
    path = user_path(name, directory)
    if is_file(path):
        return path
    if name in known:
        return known[name]
    raise InputError(f"there is no such {what}", file=name, hint=did_you_mean(name, known))


def file_size(path: Path) -> int:
    """Bytes of a file. Raises InputError unless it is a file that can be read.

    Pipes and devices are refused: reading one may never end.
    """
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    if stat.S_ISDIR(status.st_mode):
        raise InputError("is a directory, not a file", file=str(path), code="unreadable")
    if not stat.S_ISREG(status.st_mode):
        raise InputError("is a pipe or a device, not a file", file=str(path), code="unreadable")
    return status.st_size


def require_file(path: Path) -> None:
    """Raise InputError unless `path` is a file that can be read, and read into memory."""
    size = file_size(path)
    try:
        require_room(IN_MEMORY * size, what=f"{size:,} bytes of text")
    except InputError as error:
        raise error.at(file=str(path)) from None


def read_bytes(path: Path) -> bytes:
    """What is in a file."""
    require_file(path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from None


def unpacked(path: Path, content: bytes) -> bytes:
    """What is in a file that gzip may have compressed."""
    if content[:2] != b"\x1f\x8b":
        return content
    parts, size, packed = [], 0, io.BytesIO(content)
    try:
        with gzip.GzipFile(fileobj=packed) as file:
            while part := file.read(_PART):
                size += len(part)
                require_room(IN_MEMORY * size, what=f"{size:,} bytes, unpacked")
                if size > max(SUSPICIOUS, RATIO * packed.tell()):
                    what = f"{packed.tell():,} bytes of gzip become more than {size:,}"
                    raise InputError(what, hint=f"a trace, which shrinks to 1/{RATIO} at the most")
                parts.append(part)
    except (EOFError, OSError, zlib.error):
        raise InputError("is a damaged file of gzip", file=str(path)) from None
    except InputError as error:
        raise error.at(file=str(path)) from None
    return b"".join(parts)


def read_text(path: Path) -> str:
    """The text of a file in UTF-8, with or without a byte order mark."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: Exception) -> InputError:
    """The error of a file that cannot be read."""
    if isinstance(error, UnicodeDecodeError):
        return InputError("is not UTF-8 text", file=str(path), code="unreadable")
    reason = getattr(error, "strerror", None) or str(error)
    return InputError(f"cannot be read: {shortened(reason)}", file=str(path), code="unreadable")


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines of a text file with their numbers; comments (#) and empty lines are left out.

    Raises:
        InputError: the file cannot be read.
    """
    for number, line in enumerate(read_text(path).splitlines(), 1):
        content = line.split("#", 1)[0].strip()
        if content:
            yield number, content


def read_json(path: Path, **how: Any) -> Any:
    """The value in a file of JSON; ``how`` is what `json.loads` is given.

    Raises InputError naming the file, and the line if there is one.
    """
    text = read_text(path)

    def number(digits: str) -> int:
        if len(digits) > DIGITS:
            raise InputError(f"has an integer of {len(digits):,} digits", file=str(path))
        return int(digits)

    try:
        require_room(JSON_IN_MEMORY * len(text), what=f"{len(text):,} bytes of JSON")
        return json.loads(text, **{"parse_int": number, **how})
    except json.JSONDecodeError as error:
        raise at_line(path, error.lineno, f"is not JSON: {error.msg}") from None
    except RecursionError:
        raise InputError("is nested too deeply", file=str(path), code="unreadable") from None
    except InputError as error:
        raise error.at(file=str(path)) from None


def whole(word: str) -> int:
    """A whole number of at most 18 digits, which fits an int64. Raises ValueError."""
    match = _WHOLE.fullmatch(word)
    if match is None:
        raise ValueError
    return int(match[1] + match[2])


def at_line(path: Path, line: int, message: str, hint: str | None = None) -> InputError:
    """An error that names a file and a line."""
    return InputError(message, file=f"{path}:{line}", hint=hint)
