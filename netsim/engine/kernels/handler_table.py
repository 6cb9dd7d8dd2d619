"""Tables of the handlers that a plugin's file may define and the engine calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any


@dataclass(frozen=True)
class Handler:
    """One handler of a table.

    ``called`` says when, for the pages; ``returns`` what it returns, if anything; ``packet`` what
    ``pkt`` is, if it is an argument; ``default`` replaces a missing one.
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
        """Name in a plugin's file."""
        return self.default.__name__

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of the arguments."""
        code = self.default.__code__
        return code.co_varnames[: code.co_argcount]

    @property
    def form(self) -> str:
        """Signature, such as ``on_data(env, now, rx, pkt)``."""
        return f"{self.name}({', '.join(self.arguments)})"

    @property
    def side(self) -> str:
        """Flow record that it gets, "tx" or "rx"; "" if it runs for no flow."""
        return next((name for name in ("tx", "rx") if name in self.arguments), "")


class HandlerTable(Mapping[str, Handler]):
    """Handlers of one kind of plugin by name, in the order of their numbers from ``first`` on."""

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
        """Return the handler with this number, or ""."""
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
        """Add the decorated function to the table."""

        def add(default: Any) -> Any:
            row = Handler(number, runs_on, called, default, required, returns, packet)
            expected = self._first + len(self._rows)
            assert number == expected, f"{row.name} is not in the order of the numbers"
            self._rows[row.name] = row
            return default

        return add
