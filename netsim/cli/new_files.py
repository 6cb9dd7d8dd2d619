"""`netsim new-transport`, `new-queue`, `new-routing` and so on: create a plugin."""

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
Wrote {plugin}, {test} and {experiment}. Try them:

  {check}
  netsim run {experiment} --plot
  pytest {test}

Then change {plugin}; there is nothing to register. The test needs pytest (pip install pytest).
The guide is {page}: {guide}
"""


def new_command(
    kind: str, about: str, page: str, package: str, check: str = "netsim check-{kind} {plugin}"
) -> click.Command:
    """Return the command that creates a plugin of a kind, such as "transport".

    `about` describes the plugin. Its guide is `page`, packaged as README.md of `package`; `check`
    is the first command to try.
    """
    about_it = (
        f"Create NAME.py, {about}, with its test and an experiment.\n\n"
        "Existing files are never overwritten."
    )

    @click.command(f"new-{kind}", help=about_it)
    @click.argument("name")
    @click.option(
        "--directory",
        type=click.Path(path_type=Path, file_okay=False, exists=True),
        default=".",
        help="Output directory (the current one).",
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
        text = NEXT.format(**names, check=check.format(**names), page=page, guide=guide)
        click.echo(text, nl=False)

    return command


def written_files(word: str, name: str, directory: Path) -> dict[Path, str]:
    """Return path and text of the template `word`, its test and its experiment, as `name`.

    Raises InputError if the name is invalid or taken, or a file exists.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or keyword.iskeyword(name):
        hint = f"letters, digits and underscores, such as {word}"
        raise InputError(f'invalid plugin name "{name}"', hint=hint)
    scaffold = files("netsim") / "scaffold"
    texts = {}
    for template in (f"{word}.py", f"test_{word}.py", f"{word}.toml"):
        text = (scaffold / template).read_text("utf-8")
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


transport = new_command(
    "transport", "a small working transport", "transports/README.md", "netsim.transports"
)
queue = new_command(
    "queue", "a small working queue discipline", "netsim/queues/README.md", "netsim.queues"
)
routing = new_command(
    "routing",
    "a small working routing algorithm",
    "netsim/routing_algorithms/README.md",
    "netsim.routing_algorithms",
)
topology = new_command(
    "topology",
    "a small working topology",
    "topologies/README.md",
    "netsim.topologies",
    "netsim topo {experiment}",
)
traffic = new_command(
    "traffic", "a small working traffic pattern", "netsim/traffic/README.md", "netsim.traffic"
)
