"""`netsim new-transport`: the files of a transport to begin with, which work as they are."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

import click

from netsim.cli.new_files import written_files

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
    paths = written_files(WORD, name, directory)
    for path, text in paths.items():
        path.write_text(text, "utf-8")
    transport, test, experiment = (os.path.relpath(path) for path in paths)
    guide = files("netsim.transports") / "README.md"
    click.echo(
        NEXT.format(transport=transport, test=test, experiment=experiment, guide=guide), nl=False
    )
