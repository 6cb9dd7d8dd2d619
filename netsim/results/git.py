"""Which commit the files of a result are from, and whether they are as they were committed.

Repositories may be anybody's, so nothing in them is run: no hook, filter or program that their
configuration names. The commit is read from the files of `.git`. What it holds is asked of git in
an empty repository of our own that borrows their objects, where their configuration says nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from netsim.writing import write_text

HASH = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
REFERENCE = re.compile(r"refs/[\w@+./-]+")
MAX_BYTES = 1 << 26
"""Longer files of `.git` are not read."""

WAIT_S = 3.0
MAX_NAMED = 20
"""Files that are named of those that are not as in the commit."""


def commits(files: Iterable[Path]) -> list[dict[str, Any]]:
    """Of each repository that has one of `files`: its directory, and the commit that it is at.

    `dirty` says whether a file is not in that commit, or not as it is there, and `changed` which;
    both are None if there is no git to tell. A file in no repository is left out.
    """
    of_root = defaultdict(list)
    for file in dict.fromkeys(Path(os.path.realpath(file)) for file in files):
        root = next((place for place in file.parents if os.path.lexists(place / ".git")), None)
        if root is not None:
            of_root[root].append(file)
    found = []
    for root, inside in of_root.items():
        with suppress(OSError, ValueError):
            found.append(_state(root, inside))
    return [one for one in found if one is not None]


def _state(root: Path, files: list[Path]) -> dict[str, Any] | None:
    git = root / ".git"
    if not git.is_dir():  # of a work tree, or a submodule
        git = root / _read(git).removeprefix("gitdir: ")
    common = git / _read(git / "commondir") if (git / "commondir").exists() else git
    commit = _commit(git, common)
    if commit is None:
        return None
    names = {file.relative_to(root).as_posix(): file for file in files}
    held = _held(common / "objects", commit, list(names))
    changed = None
    if held is not None:
        changed = [name for name, file in names.items() if held.get(name) not in _blobs(file)]
    return {
        "directory": str(root),
        "commit": commit,
        "dirty": None if changed is None else bool(changed),
        "changed": None if changed is None else changed[:MAX_NAMED],
    }


def _commit(git: Path, common: Path) -> str | None:
    """The commit that HEAD stands for, if there is one yet."""
    value = _read(git / "HEAD")
    if value.startswith("ref: "):
        name = value.removeprefix("ref: ")
        if not REFERENCE.fullmatch(name) or ".." in name:
            return None
        value = _reference(git, common, name)
    return value if HASH.fullmatch(value) else None


def _reference(git: Path, common: Path, name: str) -> str:
    for folder in (git, common):
        with suppress(OSError):
            return _read(folder / name)
    for line in _read(common / "packed-refs").splitlines():
        value, _, packed = line.partition(" ")
        if packed == name:
            return value
    return ""


def _read(path: Path) -> str:
    """The text of a small file, without the end of its line. Raises OSError or ValueError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
            raise ValueError
        return file.read(MAX_BYTES).decode().strip()


def _held(objects: Path, commit: str, names: list[str]) -> dict[str, str] | None:
    """The hash of each of these files in a commit, if it is there; None without git."""
    with tempfile.TemporaryDirectory(prefix="netsim-git-") as folder:
        for name in ("objects", "refs"):
            (Path(folder) / name).mkdir()
        write_text(Path(folder) / "HEAD", "ref: refs/heads/none\n")
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": folder,
            "GIT_DIR": folder,
            "GIT_OBJECT_DIRECTORY": str(objects),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_LITERAL_PATHSPECS": "1",
            "LC_ALL": "C",
        }
        try:
            done = subprocess.run(
                ["git", "ls-tree", "-r", "-z", "--full-tree", commit, "--", *names],
                cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                timeout=WAIT_S, check=True,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError):
            return None
    rows = (row.partition("\t") for row in done.stdout.decode("utf-8", "replace").split("\0"))
    return {name: entry.split(" ")[2] for entry, _, name in rows if name}


def _blobs(file: Path) -> set[str]:
    """The hashes that git gives a file as it is, and with the ends of lines that it stores."""
    try:
        content = file.read_bytes()
    except OSError:
        return set()
    return {
        hashlib.sha1(b"blob %d\0" % len(one) + one, usedforsecurity=False).hexdigest()
        for one in (content, content.replace(b"\r\n", b"\n"))
    }
