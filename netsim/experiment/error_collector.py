"""Collect all errors of an experiment, to report them together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from netsim.errors import InputError

T = TypeVar("T")


@dataclass
class ErrorCollector:
    """The errors in a file and in its overrides, whose dotted paths are `overridden`.

    What points of a sweep share is checked once, so its errors are reported once.
    """

    file: str
    overridden: Sequence[str] = ()
    _errors: list[InputError] = field(default_factory=list)
    _memo: dict[str, Any] = field(default_factory=dict)

    def note(self, error: InputError) -> None:
        """Add an error, possibly a combined one."""
        self._errors.extend(error.errors)

    def once(self, key: str, memo: str, resolve: Callable[[], T]) -> T | None:
        """Return the result of `resolve`, called once per `memo`; None after noting its errors.

        `key` is the parent key for errors without a file.
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
        """Return whether the value at a dotted path is an override."""
        return key is not None and any(
            key == path or key.startswith(f"{path}.") for path in self.overridden
        )

    def all(self) -> list[InputError]:
        """Return all errors with their file, or "--set" for overrides."""
        return [
            error.at(file="--set" if self.is_overridden(error.key) else self.file)
            for error in self._errors
        ]
