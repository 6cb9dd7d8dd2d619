"""Reading the text files that traffic patterns take as input."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from netsim.errors import InputError


def locate(directory: Path, name: str) -> Path:
    """The file called `name` in an experiment that lies in `directory`."""
    path = Path(name).expanduser()
    return path if path.is_absolute() else directory / path


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines of a text file with their numbers; comments (#) and empty lines are left out.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from None
    for number, line in enumerate(text.splitlines(), 1):
        content = line.split("#", 1)[0].strip()
        if content:
            yield number, content


def unreadable(path: Path, error: Exception) -> InputError:
    """The error of a file that cannot be read."""
    reason = getattr(error, "strerror", None) or str(error)
    return InputError(f"cannot be read: {reason}", file=str(path))


def at_line(path: Path, line: int, message: str, hint: str | None = None) -> InputError:
    """An error that names a file and a line."""
    return InputError(message, file=f"{path}:{line}", hint=hint)
