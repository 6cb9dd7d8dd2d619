"""Make the pictures of gallery.md again: `python docs/gallery.py [NAME...]`, all by default.

A picture is followed by its commands, which run in a temporary directory. The last line that they
print is the path of the picture; `netsim reproduce` prints it among others.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

PAGE = Path(__file__).with_name("gallery.md")
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)]+\.png)\)\n\n((?: {4}netsim .+\n)+)")


def pictures() -> dict[Path, list[list[str]]]:
    """Return the commands of each picture, without "netsim"."""
    return {
        (PAGE.parent / path).resolve(): [shlex.split(line)[1:] for line in block.splitlines()]
        for path, block in PICTURE.findall(PAGE.read_text("utf-8"))
    }


def make(picture: Path, commands: list[list[str]]) -> None:
    """Run the commands of a picture and put it in its place. Raises CalledProcessError."""
    with TemporaryDirectory() as folder:
        printed = ""
        for command in commands:
            print("netsim", *command, flush=True)
            run = [sys.executable, "-m", "netsim", *command]
            printed = subprocess.run(
                run, cwd=folder, check=True, stdout=subprocess.PIPE, text=True
            ).stdout
        made = re.findall(r"^(\S+\.png)$", printed, re.MULTILINE)[-1]
        shutil.copyfile(Path(folder) / made, picture)


def main(names: list[str]) -> None:
    """Make the named pictures, or all."""
    known = {picture.stem: picture for picture in pictures()}
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"unknown picture {unknown[0]}: one of {', '.join(known)}")
    for name, picture in known.items():
        if not names or name in names:
            make(picture, pictures()[picture])


if __name__ == "__main__":
    main(sys.argv[1:])
