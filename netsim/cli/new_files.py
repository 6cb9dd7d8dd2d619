"""The files that `netsim new-transport` and `netsim new-queue` write."""

from __future__ import annotations

import keyword
import re
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from netsim.errors import InputError


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
        if path.exists():
            raise InputError("exists already", file=str(path), hint="choose another name")
    if find_spec(name) is not None:
        raise InputError(
            f'"{name}" is the name of a Python module that is installed',
            hint="a file of that name would hide it",
        )
    return texts
