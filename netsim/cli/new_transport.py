"""`netsim new-transport`: the files of a transport to begin with, which work as they are."""

from __future__ import annotations

import keyword
import os
import re
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import click

from netsim.errors import InputError

WORD = "my_transport"
"""What stands for the name in the files of netsim/scaffold."""

NEXT = """\
Wrote {transport}, {test} and {experiment}. They work as they are; next:

  netsim check-transport {transport}
  netsim run {experiment} --plot
  pytest {test}

Then change {transport}. Nothing has to be registered; what netsim does not bring is pytest
(pip install pytest). The guide is transports/README.md: {guide}
"""


@click.command("new-transport")
@click.argument("name")
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=".",
    help="Where to write; here by default.",
)
def command(name: str, directory: Path) -> None:
    """Write NAME.py, a small transport that works, with its test and an experiment.

    Nothing is overwritten and no other file is touched.
    """
    paths = written_files(name, directory)
    for path, text in paths.items():
        path.write_text(text, "utf-8")
    transport, test, experiment = (os.path.relpath(path) for path in paths)
    guide = files("netsim.transports") / "README.md"
    click.echo(
        NEXT.format(transport=transport, test=test, experiment=experiment, guide=guide), nl=False
    )


def written_files(name: str, directory: Path) -> dict[Path, str]:
    """Path and text of the transport, its test, and its experiment.

    Raises InputError if the name cannot be one of a module, is taken, or a file is there already.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or keyword.iskeyword(name):
        hint = "letters, digits and underscores, such as my_transport"
        raise InputError(f'"{name}" cannot be the name of a transport', hint=hint)
    scaffold = files("netsim") / "scaffold"
    texts = {}
    for template in (f"{WORD}.py", f"test_{WORD}.py", f"{WORD}.toml"):
        text = (scaffold / template).read_text("utf-8")
        texts[directory / template.replace(WORD, name)] = text.replace(WORD, name)
    for path in texts:
        if path.exists():
            raise InputError("exists already", file=str(path), hint="choose another name")
    if find_spec(name) is not None:
        raise InputError(
            f'"{name}" is the name of a Python module that is installed',
            hint="a file of that name would hide it",
        )
    return texts
