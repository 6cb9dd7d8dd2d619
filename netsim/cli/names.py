"""Names as arguments: validation with suggestions, shell completion."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netsim.common.discovery import FOLDERS, applications, built_in
from netsim.errors import did_you_mean
from netsim.units import written

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    Base = click.ParamType[str]
else:
    Base = click.ParamType  # has no argument before click 8.2


FILES: dict[str, tuple[str, Path]] = {
    kind: entry for package in applications("cli") for kind, entry in package.FILES.items()
}
"""Files that applications read: kind -> (plural, folder of presets)."""

SINGULAR = {
    **{kind: folder for kind, folder in FOLDERS.items() if kind != folder},
    **{kind: plural for kind, (plural, _) in FILES.items() if kind != plural},
    "experiment": "experiments",
}
PLURAL = {plural: one for one, plural in SINGULAR.items()}
KINDS = (*FOLDERS.values(), *(plural for plural, _ in FILES.values()), "experiments")


class Name(Base):
    """A parameter type: one of some names. `also` maps other spellings to names."""

    name = "name"

    def __init__(self, names: Iterable[str], also: Mapping[str, str] | None = None) -> None:
        self.names = tuple(names)
        self.meant = {**(also or {}), **{name: name for name in self.names}}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self.meant:
            self.fail(f"unknown {written(value)} ({did_you_mean(value, self.names)})", param, ctx)
        return self.meant[value]

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return completions(self.names, incomplete)


def completions(names: Iterable[str], incomplete: str, *, files: bool = False) -> list[Any]:
    """Return names with a prefix, or if there are none, files (with `files`)."""
    from click.shell_completion import CompletionItem

    found = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return found if found or not files else [CompletionItem(incomplete, type="file")]


def complete(
    kind: str, also: Iterable[str] = ()
) -> Callable[[click.Context, click.Parameter, str], list[Any]]:
    """Return a completion of the names of a kind, of other names, and of files."""

    def complete_one(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        return completions((*also, *(name for name, _ in lines_of(kind))), incomplete, files=True)

    return complete_one


def complete_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """Complete NAME with the names of the argument KIND."""
    kind = SINGULAR.get(ctx.params.get("kind", ""), ctx.params.get("kind"))
    return complete(kind)(ctx, param, incomplete) if kind in KINDS else []


def lines_of(kind: str) -> list[tuple[str, str]]:
    """Return name and summary of everything of a kind."""
    if kind == "experiments":
        return [(name, summary_of(path)) for name, path in built_in().items()]
    for plural, folder in FILES.values():
        if kind == plural:
            return [(name, summary_of(path)) for name, path in presets(folder).items()]
    from netsim.plugins import registry

    singular = {plural: one for one, plural in FOLDERS.items()}[kind]
    return registry.summaries(singular)


def presets(folder: Path) -> dict[str, Path]:
    """Return the files in a folder of FILES by name."""
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def summary_of(path: Path) -> str:
    """Return the first line of a file's description."""
    try:
        with path.open("rb") as file:
            description = str(tomllib.load(file).get("description", ""))
    except (OSError, ValueError):
        return "(cannot be read)"
    return description.strip().partition("\n")[0]
