"""The option --set, and what is printed as tables or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from netsim.cli.options import print_json

if TYPE_CHECKING:
    from rich.table import Table

    from netsim.common.terminal import Wide

Command = TypeVar("Command", bound=Callable[..., Any])
Found = TypeVar("Found")


def set_option(example: str, what: str = "value") -> Callable[[Command], Command]:
    return click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="PATH=VALUE",
        help=f"Change a {what}: --set {example}. May be repeated.",
    )


def show_found(
    found: Found,
    as_json: bool,
    tables: Callable[[Found], Iterable[Table | Wide | str]],
    content: Callable[[Found], Any],
) -> None:
    """Print tables and lines of text, or JSON."""
    if as_json:
        print_json(content(found))
    else:
        show_lines(tables(found))


def show_lines(lines: Iterable[Table | Wide | str]) -> None:
    from netsim.common.terminal import show

    for line in lines:
        show(line) if not isinstance(line, str) else click.echo(line)
