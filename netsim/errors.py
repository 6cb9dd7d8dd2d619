"""The two kinds of failure that a user is told about in one message.

`InputError` means that what was asked for is wrong (exit status 2), `RunError`
that a run of correct input failed (exit status 1). Anything else that is raised
is a fault of netsim itself and shows its traceback.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Literal

from netsim.renames import new_name

MAX_PART = 600
"""Characters of a line of a message that are shown; what a user has written may be longer."""


Code = Literal[
    "invalid",  # none of the others
    "unknown_key",
    "unknown_value",  # a name that names nothing
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
    """Something in the input is wrong; `str()` is "file: key: message (hint)".

    Parameters
    ----------
    message : what is wrong, on one line.
    file : the file that holds the mistake, as the user named it.
    key : dotted path of the value inside that file ("traffic.load").
    hint : what would be right.
    code : the kind of mistake, for programs that handle it.
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
        """The single mistakes that this error stands for: here, itself."""
        return (self,)

    def at(self, *, file: str | None = None, key: str | None = None) -> InputError:
        """The same error with its place filled in where it has none yet."""
        return self.replace(file=self.file or file, key=self.key or key)

    def replace(self, **changes: Any) -> InputError:
        """Return the same error with some of its fields changed."""
        fields = ("message", "file", "key", "hint", "code")
        return InputError(**{name: getattr(self, name) for name in fields} | changes)

    def with_suffix(self, words: str) -> InputError:
        """The same error with more words to its message, or to each of its messages."""
        return CombinedInputError(
            one.replace(message=f"{one.message} {words}") for one in self.errors
        )

    def under(self, key: str) -> InputError:
        """The same error, in a table of that key."""
        return self.replace(key=f"{key}.{self.key}" if self.key else key)


class CombinedInputError(InputError):
    """Several mistakes reported at once; `str()` has one line for each."""

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
    """A run of valid input failed: it stalled, or needs more memory than there is."""


def printable(text: str) -> str:
    """A text on one line, with what no terminal shows written as in Python ("\\x00", "\\n")."""
    cut = text if len(text) <= MAX_PART else text[:MAX_PART] + "..."
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in cut)


def raise_all(errors: Sequence[InputError]) -> None:
    """Raise what was collected: nothing, the one error, or all of them as `CombinedInputError`."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise CombinedInputError(errors)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the hint for an unknown name: its new name, the closest one, or the list of all."""
    names = list(known)
    if new := new_name(word, names):
        return f'renamed: write "{new}"'
    by_lower = {name.lower(): name for name in names}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    close = close or [name for name in by_lower if len(word) > 2 and name.startswith(word.lower())]
    if close:
        return f'did you mean "{by_lower[close[0]]}"?'
    if not names:
        return "there are none"
    return "there are: " + ", ".join(names)


_told: set[str] = set()


def warn_once(message: str) -> None:
    """Tell the user, the first time, of something that a run can do without."""
    if message in _told or sys.stderr is None:
        return
    _told.add(message)
    with suppress(OSError, ValueError):  # standard error may be closed
        print(f"warning: {message}", file=sys.stderr, flush=True)
