"""Find and read the files that a user names.

Any problem, from the file's name to its last byte, is an InputError that names the file.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import stat
import tomllib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from netsim.common.memory import require_room
from netsim.errors import InputError, did_you_mean, errors_at
from netsim.units import shortened, written

NAME_BYTES = 255  # longest file or directory name on common file systems

_WHOLE = re.compile(r"\s*(-?)0*([0-9]{1,18})\s*", re.ASCII)

ROOM_IN_NAME = 30  # bytes of a result directory's name reserved to name its replacement
IN_MEMORY = 10  # bytes of memory per byte of a file once it is split
_PART = 1 << 24  # bytes to decompress at a time

SUSPICIOUS, RATIO = 1 << 26, 100
"""A larger file is decompressed only while it expands by at most `RATIO`: identical nodes reach 20,
a decompression bomb 1,000."""

JSON_IN_MEMORY = 30  # most bytes of Python objects per byte of JSON
MAX_DEPTH = 20  # deepest nesting of tables and lists in TOML; an experiment needs five levels
DIGITS = 400  # longest integer accepted; Python itself refuses to print 4,300 digits


def user_path(name: str, directory: Path) -> Path:
    """Return the path of a file that a user named; a relative one starts at `directory`."""
    problem = path_problem(name)
    if problem:
        raise InputError(f'"{shortened(name)}" {problem}')
    try:
        return directory / Path(name).expanduser()
    except RuntimeError:
        raise InputError(
            f'"{shortened(name)}" starts in an unknown home directory', hint="~/ is yours"
        ) from None


def path_problem(name: str, reserve: int = 0) -> str:
    """Return why a file cannot have that name, or "". `reserve` bytes are kept for a suffix of the
    last part."""
    if "\0" in name:
        return "is not a file name: it contains a NUL"
    try:
        sizes = [len(part.encode("utf-8", "surrogateescape")) for part in Path(name).parts]
    except UnicodeEncodeError:
        return "is not a file name: it is not text"
    if sizes and max(*sizes, sizes[-1] + reserve) > NAME_BYTES:
        return f"is not a file name: longer than {NAME_BYTES - reserve} bytes"
    return ""


def is_file(path: Path) -> bool:
    """Return whether the file exists; False also for impossible names."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def locate(name: str, directory: Path, known: Mapping[str, Path], what: str) -> Path:
    """Return the file `name`: a path, or a preset in `known`."""
    problem = path_problem(name)
    if problem:
        raise InputError(f"{written(name)} {problem}")
    path = user_path(name, directory)
    if is_file(path):
        return path
    if name in known:
        return known[name]
    hint = did_you_mean(name, known)
    raise InputError(f"unknown {what} {written(name)}", hint=hint, code="unknown_value")


def file_size(path: Path) -> int:
    """Return a file's size in bytes. Raises InputError unless it is readable. Pipes and devices are
    refused, as reading one may never end."""
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
    with errors_at(file=path):
        require_room(IN_MEMORY * size, what=f"{size:,} bytes of text")


def read_bytes(path: Path) -> bytes:
    """Return a file's content."""
    require_file(path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from None


def unpacked(path: Path, content: bytes) -> bytes:
    """Return a file's content, decompressed if it is gzip."""
    if content[:2] != b"\x1f\x8b":
        return content
    parts, size, packed = [], 0, io.BytesIO(content)
    try:
        with gzip.GzipFile(fileobj=packed) as file:
            while part := file.read(_PART):
                size += len(part)
                require_room(IN_MEMORY * size, what=f"{size:,} bytes, unpacked")
                if size > max(SUSPICIOUS, RATIO * packed.tell()):
                    what = f"{packed.tell():,} bytes of gzip expand to more than {size:,}"
                    raise InputError(what, hint=f"at most {RATIO} times")
                parts.append(part)
    except (EOFError, OSError, zlib.error):
        raise InputError("is a damaged gzip file", file=str(path)) from None
    except InputError as error:
        raise error.at(file=str(path)) from None
    return b"".join(parts)


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file, with or without a byte order mark, or in gzip."""
    try:
        return unpacked(path, read_bytes(path)).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: Exception) -> InputError:
    """Return the error for a file that cannot be read."""
    if isinstance(error, UnicodeDecodeError):
        return InputError("is not UTF-8 text", file=str(path), code="unreadable")
    reason = getattr(error, "strerror", None) or str(error)
    return InputError(f"cannot be read: {shortened(reason)}", file=str(path), code="unreadable")


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file with their numbers, without comments (#) and empty lines.
    Raises InputError if the file cannot be read."""
    for number, line in enumerate(read_text(path).splitlines(), 1):
        content = line.split("#", 1)[0].strip()
        if content:
            yield number, content


def read_json(path: Path, **how: Any) -> Any:
    """Return the value in a JSON file; ``how`` goes to `json.loads`. Raises InputError naming the
    file, and the line if there is one."""
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


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tree of a TOML file of plain values (`require_plain`). Raises InputError naming
    the file."""
    with errors_at(file=path):
        tree = parsed_toml(read_text(path))
        require_plain(tree)
        return tree


def parsed_toml(text: str) -> dict[str, Any]:
    """Return the tree of a TOML text. Raises InputError without a file."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"invalid TOML: {error}", code="unreadable") from None
    except RecursionError:
        raise too_deep() from None
    except ValueError:  # the limit of Python's int()
        raise InputError("invalid TOML: number too long", code="unreadable") from None


def too_deep(key: str | None = None) -> InputError:
    hint = f"at most {MAX_DEPTH} levels"
    return InputError("nested too deeply", key=key, hint=hint, code="unreadable")


def require_plain(value: Any, at: Sequence[str] = ()) -> None:
    """Raise InputError, without a file, for values that TOML allows and netsim's files do not.

    These are dates and other objects, integers of more than 64 bits, and deep nesting. Afterwards
    all values can be copied and printed safely. `at` are the keys above `value`.
    """
    pending: list[tuple[tuple[str, ...], Any]] = [(tuple(at), value)]
    while pending:
        path, value = pending.pop()
        key = ".".join(name for name in path[:MAX_DEPTH] if name) or None
        if len(path) > MAX_DEPTH:
            raise too_deep(key)
        if isinstance(value, dict):
            pending += [((*path, name), item) for name, item in value.items()]
        elif isinstance(value, list):
            pending += [((*path, ""), item) for item in value if not isinstance(item, str)]
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise InputError(f"{written(value)} exceeds 64 bits", key=key, code="out_of_range")
        elif not isinstance(value, (str, int, float)):
            kind = type(value).__name__
            hint = "use text, a number, true, false, a list or a table"
            message = f"{kind} {written(str(value))} is not allowed"
            raise InputError(message, key=key, hint=hint, code="wrong_type")


def flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested tables by dotted key."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def whole(word: str) -> int:
    """Return a whole number of at most 18 digits, which fits an int64. Raises ValueError."""
    match = _WHOLE.fullmatch(word)
    if match is None:
        raise ValueError
    return int(match[1] + match[2])


def at_line(path: Path, line: int, message: str, hint: str | None = None) -> InputError:
    """Return an error that names a file and a line."""
    return InputError(message, file=f"{path}:{line}", hint=hint)


def bounded(what: str, word: str, least: int = 0, below: int = 1 << 31) -> int:
    """Return the whole number that a word states. Raises InputError unless it is in bounds."""
    try:
        number = whole(word)
    except ValueError:
        number = least - 1
    if not least <= number < below:
        hint = f"a whole number from {least} to {below - 1:,}"
        raise InputError(f"{what}: {written(word)}", hint=hint)
    return number


def read_distribution(path: Path, what: str, most: int) -> list[tuple[int, float]]:
    """Read a cumulative distribution: a number up to `most` and a probability on each line. Neither
    decreases. Probabilities end at 1, or at 100 if they are percentages."""
    points: list[tuple[int, float]] = []
    number = 0
    for number, line in read_lines(path):
        words = line.replace(",", " ").split()
        try:
            value, probability = whole(words[0]), float(words[1])
        except (ValueError, IndexError):
            value, probability = -1, -1.0
        if len(words) != 2 or not (0 <= value <= most and 0 <= probability <= 100):
            raise at_line(path, number, f"{written(line)} is not a {what} and a probability")
        if points and (value < points[-1][0] or probability < points[-1][1]):
            raise at_line(path, number, "numbers and probabilities must not decrease")
        points.append((value, probability))
    if not points or points[-1][1] not in (1.0, 100.0):
        raise at_line(path, number, "the last cumulative probability must be 1 or 100")
    return [(value, probability / points[-1][1]) for value, probability in points]
