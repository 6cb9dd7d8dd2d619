"""The two kinds of failure that a user sees as one message.

`InputError` means wrong input (exit status 2), `RunError` that a run of valid input failed (exit
status 1). Any other exception is a netsim bug and shows its traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from typing import Any, Literal

MAX_PART = 600  # most characters per line of a message, which may quote long input

TRUST = "read it; then --trust, in Python trust=True, runs it"
"""Hint for code that runs only if the user trusts it."""

Code = Literal[
    "invalid",  # none of the others
    "unknown_key",
    "unknown_value",  # a name that does not exist
    "missing",
    "duplicate",
    "conflict",  # with another value
    "no_effect",
    "out_of_range",
    "wrong_type",
    "unreadable",  # a file or directory that cannot be read, parsed or written
]
"""The kinds of `InputError`. Messages may change between versions, codes do not."""


class InputError(Exception):
    """An error in the input; `str()` is "file: key: message (hint)".

    `file` is as the user named it, `key` the dotted path of a value in it ("traffic.load"). `hint`
    says how to correct it; `code` is the kind of error, for programs.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        key: str | None = None,
        hint: str | None = None,
        code: Code = "invalid",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.key = key
        self.hint = hint
        self.code: Code = code

    def __str__(self) -> str:
        place = "".join(f"{part}: " for part in (self.file, self.key) if part)
        return printable(place + self.message + (f" ({self.hint})" if self.hint else ""))

    @property
    def errors(self) -> tuple[InputError, ...]:
        """The errors that this one combines: only itself."""
        return (self,)

    def at(self, *, file: str | None = None, key: str | None = None) -> InputError:
        """Return the error with its missing file and key filled in."""
        return self.replace(file=self.file or file, key=self.key or key)

    def replace(self, **changes: Any) -> InputError:
        """Return the error with some fields changed."""
        fields = ("message", "file", "key", "hint", "code")
        return InputError(**{name: getattr(self, name) for name in fields} | changes)

    def with_suffix(self, words: str) -> InputError:
        """Return the error with text appended to each message."""
        return CombinedInputError(
            one.replace(message=f"{one.message} {words}") for one in self.errors
        )

    def under(self, key: str) -> InputError:
        """Return the error with its key inside a table, or in a list, "[2].key"."""
        dot = "." if self.key and not self.key.startswith("[") else ""
        return self.replace(key=f"{key}{dot}{self.key or ''}")


class CombinedInputError(InputError):
    """Several errors reported at once; `str()` has a line for each."""

    def __init__(self, errors: Iterable[InputError]) -> None:
        single = {str(e): e for error in errors for e in error.errors}
        self._errors = tuple(single.values())
        super().__init__("\n".join(single))

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self._errors)

    @property
    def errors(self) -> tuple[InputError, ...]:
        return self._errors

    def at(self, *, file: str | None = None, key: str | None = None) -> InputError:
        return CombinedInputError(e.at(file=file, key=key) for e in self._errors)

    def under(self, key: str) -> InputError:
        return CombinedInputError(e.under(key) for e in self._errors)


class RunError(Exception):
    """A run of valid input failed: it stalled, or needs more memory than is available."""


def printable(text: str) -> str:
    """Return a text on one line, with unprintable characters escaped ("\\x00", "\\n")."""
    cut = text if len(text) <= MAX_PART else text[:MAX_PART] + "..."
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in cut)


def raise_all(errors: Sequence[InputError]) -> None:
    """Raise the collected errors: none, the only one, or a `CombinedInputError`."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise CombinedInputError(errors)


@contextmanager
def errors_at(*, file: object = None, key: str | None = None) -> Iterator[None]:
    """Add this file (a name or a path) and key to errors of the block that lack them."""
    try:
        yield
    except InputError as error:
        raise error.at(file=None if file is None else str(file), key=key) from None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the hint for an unknown name: the likeliest one, or a list of all. Dotted names are
    keys of tables; the word may be such a last part."""
    names = list(known)
    if found := _likeliest(word.lower(), names):
        return f'did you mean "{found}"?'
    if not names:
        return "there are none"
    return "there are: " + ", ".join(names)


def _likeliest(word: str, names: Iterable[str]) -> str:
    """Return the name that a word resembles, begins, or is a part of; "" if there is none."""
    known = {part.lower(): name for name in names for part in (name.rpartition(".")[2], name)}
    starts = [part for part in known if len(word) > 2 and part.startswith(word)]
    inside = [part for part in known if len(word) > 3 and word in part]
    close = [get_close_matches(word, known, n=1, cutoff=cutoff) for cutoff in (0.8, 0.6)]
    found = next(filter(None, ([word] * (word in known), starts, close[0], inside, close[1])), [])
    return known[found[0]] if found else ""


_warned: set[str] = set()


def _print_warning(message: str) -> None:
    if sys.stderr is None:
        return
    with suppress(OSError, ValueError):  # standard error may be closed
        print(f"warning: {message}", file=sys.stderr, flush=True)


_printers: list[Callable[[str], None]] = [_print_warning]


def redirect_warnings(warn: Callable[[str], None]) -> None:
    """Send the warnings of this process to `warn` instead of standard error."""
    _printers[:] = [warn]


def warn_once(message: str) -> None:
    """Print a warning, once per message."""
    if message not in _warned:
        _warned.add(message)
        _printers[0](message)
