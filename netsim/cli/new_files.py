"""The files that `netsim new-transport`, `new-queue` and `new-topology` write."""

from __future__ import annotations

import keyword
import os
import re
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import click

from netsim.errors import InputError
from netsim.writing import write_new

NEXT = """\
Wrote {plugin}, {test} and {experiment}. They work as they are; next:

  {check}
  netsim run {experiment} --plot
  pytest {test}

Then change {plugin}. Nothing has to be registered; what netsim does not bring is pytest
(pip install pytest). The guide is {page}: {guide}
"""


def new_command(
    kind: str,
    about: str,
    page: str,
    package: str,
    check: str = "netsim check-{kind} {plugin}",
) -> click.Command:
    """The command that writes a plugin of that kind to begin with, such as "transport" or "queue".

    `about` says what it writes. The guide is README.md of `package`, in the tree `page`. `check` is
    the command to begin with.
    """

    about_it = (
        f"Write NAME.py, {about}, with its test and an experiment.\n\n"
        "Nothing is overwritten and no other file is touched."
    )

    @click.command(f"new-{kind}", help=about_it)
    @click.argument("name")
    @click.option(
        "--directory",
        type=click.Path(path_type=Path, file_okay=False, exists=True),
        default=".",
        help="Directory to write to (default: the current one).",
    )
    def command(name: str, directory: Path) -> None:
        paths = written_files(f"my_{kind}", name, directory)
        for path, text in paths.items():
            try:
                write_new(path, text)
            except OSError as error:
                raise InputError(f"cannot be written: {error.strerror}", file=str(path)) from None
        plugin, test, experiment = (os.path.relpath(path) for path in paths)
        names = {"kind": kind, "plugin": plugin, "test": test, "experiment": experiment}
        guide = files(package) / "README.md"
        told = NEXT.format(**names, check=check.format(**names), page=page, guide=guide)
        click.echo(told, nl=False)

    return command


def written_files(word: str, name: str, directory: Path) -> dict[Path, str]:
    """Path and text of the plugin `word` of netsim/scaffold, its test and its experiment.

    `name` is put in the place of `word`.

    Raises InputError if the name cannot be one of a module, is taken, or a file is there already.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or keyword.iskeyword(name):
        hint = f"letters, digits and underscores, such as {word}"
        raise InputError(f'"{name}" cannot be the name of a plugin', hint=hint)
    scaffold = files("netsim") / "scaffold"
    texts = {}
    for template in (f"{word}.py", f"test_{word}.py", f"{word}.toml"):
        text = (scaffold / template).read_text("utf-8")
        texts[directory / template.replace(word, name)] = text.replace(word, name)
    for path in texts:
        if os.path.lexists(path):
            raise InputError("exists already", file=str(path), hint="choose another name")
    if find_spec(name) is not None:
        raise InputError(
            f'"{name}" is the name of a Python module that is installed',
            hint="a file of that name would hide it",
        )
    return texts


transport = new_command(
    "transport", "a small transport that works", "transports/README.md", "netsim.transports"
)
queue = new_command(
    "queue", "a small queue discipline that works", "netsim/queues/README.md", "netsim.queues"
)
topology = new_command(
    "topology",
    "a small topology that works",
    "topologies/README.md",
    "netsim.topologies",
    "netsim topo {experiment}",
)
