"""What is wrong with an experiment, collected so that one look tells all of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from netsim.errors import InputError

T = TypeVar("T")


@dataclass
class ErrorCollector:
    """The errors in one file and in the overrides of it, whose dotted paths are `overridden`.

    What many points of a sweep share is looked at once, and its errors are noted once.
    """

    file: str
    overridden: Sequence[str] = ()
    _errors: list[InputError] = field(default_factory=list)
    _memo: dict[str, Any] = field(default_factory=dict)

    def note(self, error: InputError) -> None:
        """Add an error, or several in one."""
        self._errors.extend(error.errors)

    def once(self, key: str, memo: str, resolve: Callable[[], T]) -> T | None:
        """What `resolve` gives, computed once for each `memo`; None after noting its errors.

        `key` is that of errors without a file, which stand below it.
        """
        if memo not in self._memo:
            try:
                self._memo[memo] = resolve()
            except InputError as error:
                self._memo[memo] = None
                self._errors.extend(one if one.file else one.at(key=key) for one in error.errors)
        result: T | None = self._memo[memo]
        return result

    def is_overridden(self, key: str | None) -> bool:
        """Whether what stands at a dotted path was not written in the file."""
        return key is not None and any(
            key == path or key.startswith(f"{path}.") for path in self.overridden
        )

    def all(self) -> list[InputError]:
        """Every error, with the file that its key stands in; overrides stand in no file."""
        return [
            error.at(file="--set" if self.is_overridden(error.key) else self.file)
            for error in self._errors
        ]
