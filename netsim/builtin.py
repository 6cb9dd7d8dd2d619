"""The experiments that come with netsim, and how a user names an experiment."""

from __future__ import annotations

from pathlib import Path

from netsim.errors import InputError, did_you_mean


def experiments() -> dict[str, Path]:
    """The built-in experiments: name (the file's stem) -> file."""
    import netsim.experiments

    folder = Path(netsim.experiments.__path__[0])
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def locate(written: str) -> Path:
    """The file of an experiment written as a path, or as the name of a built-in one.

    A path that does not exist but ends like a built-in experiment's ("experiments/p2p_512.toml")
    means that one, from whatever directory. Raises InputError if there is no such file.
    """
    path = Path(written)
    if path.is_file():
        return path
    known = experiments()
    bare = path.suffix in ("", ".toml") and path.parent in (Path("."), Path("experiments"))
    if bare and path.stem in known:
        return known[path.stem]
    if path.is_dir():
        raise InputError("is a directory, not an experiment", file=written)
    raise InputError(
        "there is no such experiment", file=written, hint=did_you_mean(path.stem, known)
    )


def experiment_summary(path: Path) -> str:
    """The description in an experiment file, its first line; empty if there is none."""
    import tomllib

    try:
        with path.open("rb") as file:
            description = tomllib.load(file).get("description", "")
    except (OSError, ValueError):
        return "cannot be read"
    lines = str(description).strip().splitlines()
    return lines[0] if lines else ""
