"""`netsim new`: create a plugin from a template."""

from __future__ import annotations

import keyword
import os
import re
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import click

from netsim.cli.names import Name
from netsim.common.discovery import FOLDERS
from netsim.common.writing import write_new
from netsim.errors import InputError

NEXT = """\
Wrote {plugin}, {test} and {experiment}. Try them:

  netsim check {plugin}
  netsim run {experiment} --plot
  pytest {test}

Then change {plugin}; there is nothing to register. The test needs pytest (pip install pytest).
The guide is {page}: {guide}
"""

ABOVE_NETSIM = ("transport", "topology")
"""Kinds whose folder is beside netsim/ in the repository."""


@click.command("new")
@click.argument("kind", type=Name(FOLDERS, {plural: one for one, plural in FOLDERS.items()}))
@click.argument("name")
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=".",
    help="Output directory (the current one).",
)
def command(kind: str, name: str, directory: Path) -> None:
    """Create NAME.py, a small working plugin, with its test and an experiment.

    KIND is transport, topology, traffic, queue or routing. Existing files are never overwritten.
    """
    paths = written_files(f"my_{kind}", name, directory)
    for path, text in paths.items():
        try:
            write_new(path, text)
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror}", file=str(path)) from None
    plugin, test, experiment = (os.path.relpath(path) for path in paths)
    folder = FOLDERS[kind]
    page = f"{'' if kind in ABOVE_NETSIM else 'netsim/'}{folder}/README.md"
    guide = files(f"netsim.{folder}") / "README.md"
    click.echo(
        NEXT.format(plugin=plugin, test=test, experiment=experiment, page=page, guide=guide),
        nl=False,
    )


def written_files(word: str, name: str, directory: Path) -> dict[Path, str]:
    """Return path and text of the template `word`, its test and its experiment, as `name`.

    Raises InputError if the name is invalid or taken, or a file exists.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or keyword.iskeyword(name):
        hint = f"letters, digits and underscores, such as {word}"
        raise InputError(f'invalid plugin name "{name}"', hint=hint)
    templates = files("netsim") / "conformance" / "templates"
    texts = {}
    for template in (f"{word}.py", f"test_{word}.py", f"{word}.toml"):
        text = (templates / template).read_text("utf-8")
        texts[directory / template.replace(word, name)] = text.replace(word, name)
    for path in texts:
        if os.path.lexists(path):
            raise InputError("already exists", file=str(path), hint="choose another name")
    if find_spec(name) is not None:
        raise InputError(
            f'"{name}" is an installed Python module',
            hint="the file would hide it: choose another name",
        )
    return texts
