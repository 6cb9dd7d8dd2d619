"""Make the pictures of gallery.md, studies.md and explain.md again:
`python docs/gallery.py [--in FOLDER] [NAME...]`.

All of them by default. A picture is followed by its commands, which run in FOLDER, by default a
temporary one; results already there are not simulated again. The last line that the commands print
is the path of the picture, or of an HTML page that Chromium shows (`apt-get install chromium`);
`netsim reproduce` prints it among others.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

PAGES = [Path(__file__).with_name(name) for name in ("gallery.md", "studies.md", "explain.md")]
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)]+\.png)\)\n\n((?: {4}netsim .+\n)+)")


def pictures() -> dict[Path, list[list[str]]]:
    """Return the commands of each picture, without "netsim"."""
    return {
        (page.parent / path).resolve(): [shlex.split(line)[1:] for line in block.splitlines()]
        for page in PAGES
        for path, block in PICTURE.findall(page.read_text("utf-8"))
    }


def make(picture: Path, commands: list[list[str]], folder: Path) -> None:
    """Run the commands of a picture and put it in its place, with 256 colors. Raises
    CalledProcessError."""
    printed = ""
    for command in commands:
        print("netsim", *command, flush=True)
        if command[0] == "new" and (folder / f"{command[2]}.py").exists():
            continue
        run = [sys.executable, "-m", "netsim", *command]
        printed = subprocess.run(
            run, cwd=folder, check=True, stdout=subprocess.PIPE, text=True
        ).stdout
    made = folder / re.findall(r"^(\S+\.(?:png|html))\b", printed, re.MULTILINE)[-1]
    write_small(screenshot(made) if made.suffix == ".html" else made, picture)


def screenshot(page: Path) -> Path:
    """Save a picture of a page's top next to it; return its path. Raises CalledProcessError."""
    picture = page.with_suffix(".png")
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    flags += ["--window-size=1200,900", "--virtual-time-budget=2000", f"--screenshot={picture}"]
    command = ["chromium", *flags, page.resolve().as_uri()]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    return picture


def write_small(made: Path, picture: Path) -> None:
    """Write a picture with 256 colors."""
    with Image.open(made) as image:
        few = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
        few.save(picture, optimize=True)


def main(arguments: list[str]) -> None:
    """Make the named pictures, or all."""
    parser = argparse.ArgumentParser(description="Make the pictures of the pages again.")
    parser.add_argument("--in", dest="folder", metavar="FOLDER", help="where to keep results")
    parser.add_argument("names", metavar="NAME", nargs="*", help="pictures; default: all")
    asked = parser.parse_args(arguments)
    known = {picture.stem: picture for picture in pictures()}
    if unknown := [name for name in asked.names if name not in known]:
        parser.error(f"unknown picture {unknown[0]}: one of {', '.join(known)}")
    with TemporaryDirectory() as temporary:
        folder = Path(asked.folder or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in asked.names or known:
            make(known[name], pictures()[known[name]], folder)


if __name__ == "__main__":
    main(sys.argv[1:])
