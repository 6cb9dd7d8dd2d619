"""Find the commit that files are from, and whether they have changed since.

Repositories are not trusted, so nothing in them is run: no hook, filter or program from their
configuration. The commit is read from the files of `.git`. To list its contents, git runs in an
empty repository of our own that borrows their objects but not their configuration.
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
"""Larger files of `.git` are not read."""

WAIT_S = 3.0
MAX_NAMED = 20
"""Most changed files that are named."""


def commits(files: Iterable[Path]) -> list[dict[str, Any]]:
    """Return the directory and commit of each repository that has one of `files`.

    `dirty` says whether files differ from the commit, `changed` which ones; both are None without
    git. Files outside repositories are left out.
    """
    of_root = defaultdict(list)
    for file in dict.fromkeys(Path(os.path.realpath(file)) for file in files):
        root = next((folder for folder in file.parents if os.path.lexists(folder / ".git")), None)
        if root is not None:
            of_root[root].append(file)
    found = []
    for root, inside in of_root.items():
        with suppress(OSError, ValueError):
            found.append(_state(root, inside))
    return [one for one in found if one is not None]


def _state(root: Path, files: list[Path]) -> dict[str, Any] | None:
    git = root / ".git"
    if not git.is_dir():  # a work tree or a submodule
        git = root / _read(git).removeprefix("gitdir: ")
    common = git / _read(git / "commondir") if (git / "commondir").exists() else git
    commit = _commit(git, common)
    if commit is None:
        return None
    names = {file.relative_to(root).as_posix(): file for file in files}
    committed = _committed_blobs(common / "objects", commit, list(names))
    changed = None
    if committed is not None:
        changed = [name for name, file in names.items() if committed.get(name) not in _blobs(file)]
    return {
        "directory": str(root),
        "commit": commit,
        "dirty": None if changed is None else bool(changed),
        "changed": None if changed is None else changed[:MAX_NAMED],
    }


def _commit(git: Path, common: Path) -> str | None:
    """Return the commit of HEAD; None if there is none."""
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
    """Return the text of a small file. Raises OSError or ValueError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
            raise ValueError
        return file.read(MAX_BYTES).decode().strip()


def _committed_blobs(objects: Path, commit: str, names: list[str]) -> dict[str, str] | None:
    """Return the blob hash of each of these files in a commit; None without git."""
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
    """Return git's hashes of a file, as it is and with the line endings that git stores."""
    try:
        content = file.read_bytes()
    except OSError:
        return set()
    return {
        hashlib.sha1(b"blob %d\0" % len(one) + one, usedforsecurity=False).hexdigest()
        for one in (content, content.replace(b"\r\n", b"\n"))
    }
