"""A table of handlers: the functions that a plugin's file may have, which the engine calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any


@dataclass(frozen=True)
class Handler:
    """One row of a table: a function that a plugin may have, or must have.

    ``called`` says when, in one line for the pages; ``returns`` what it must return, if anything;
    ``packet`` what ``pkt`` is, if it is among its arguments. ``default`` is what a plugin has
    that does not say anything; of a required one it is never called.
    """

    number: int
    runs_on: str
    called: str
    default: FunctionType
    required: bool
    returns: str
    packet: str

    @property
    def name(self) -> str:
        """Its name in a plugin's file."""
        return self.default.__name__

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of what it is given."""
        code = self.default.__code__
        return code.co_varnames[: code.co_argcount]

    @property
    def form(self) -> str:
        """How it is written: ``on_data(env, now, rx, pkt)``."""
        return f"{self.name}({', '.join(self.arguments)})"

    @property
    def side(self) -> str:
        """The record of the flow that it runs for, "tx" or "rx"; "" if it runs for none."""
        return next((name for name in ("tx", "rx") if name in self.arguments), "")


class HandlerTable(Mapping[str, Handler]):
    """The handlers of one kind of plugin by their names, in the order of their numbers.

    The first one has the number ``first``.
    """

    def __init__(self, first: int) -> None:
        self._first = first
        self._rows: dict[str, Handler] = {}

    def __getitem__(self, name: str) -> Handler:
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def name_of(self, number: int) -> str:
        """The handler that has this number; "" if none has."""
        return next((row.name for row in self._rows.values() if row.number == number), "")

    def row(
        self,
        number: int,
        runs_on: str,
        called: str,
        *,
        required: bool = False,
        returns: str = "",
        packet: str = "",
    ) -> Callable[[Any], Any]:
        """Put the function below into the table."""

        def add(default: Any) -> Any:
            row = Handler(number, runs_on, called, default, required, returns, packet)
            expected = self._first + len(self._rows)
            assert number == expected, f"{row.name} is not in the order of the numbers"
            self._rows[row.name] = row
            return default

        return add
