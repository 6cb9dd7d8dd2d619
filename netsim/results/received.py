"""Results that come over the wire, from a machine that does not see the result directory."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from netsim.errors import InputError
from netsim.results import destination, files
from netsim.results.read import Result
from netsim.results.replace import real, replacing
from netsim.writing import replacing_file


def packed(directory: Path) -> dict[str, str]:
    """Return the files of a result by name."""
    paths = [path for path in sorted(directory.iterdir()) if path.name != files.CHECKPOINT]
    return {path.name: base64.b64encode(path.read_bytes()).decode("ascii") for path in paths}


def receive(directory: Path, content: Mapping[str, Any], fingerprint: str) -> Path:
    """Write a packed result to `directory`, as `write_result` does; return where it is.

    Raises InputError, and changes nothing, unless it is a result with this fingerprint.
    """
    target = real(directory)
    with tempfile.TemporaryDirectory(prefix=".", suffix=".received", dir=target.parent) as folder:
        received = Path(folder) / target.name
        received.mkdir()
        for name, text in content.items():
            if name not in (*files.tables(), files.SUMMARY, files.EXPERIMENT):
                raise InputError(f"a worker sent the file {name!r}, which no result has")
            try:
                raw = base64.b64decode(text, validate=True)
            except (TypeError, ValueError):
                raise InputError(f"a worker sent {name} damaged") from None
            with replacing_file(received / name) as file:
                file.write(raw)
        complete = checked(received, fingerprint).complete
        if not complete and destination.holds_complete(target):
            target = destination.partial_directory(target)
        destination.check_destination(target)
        with replacing(target) as scratch:
            for path in received.iterdir():
                path.rename(scratch / path.name)
    if complete:
        destination.remove_partial(target)
    return target


def checked(directory: Path, fingerprint: str) -> Result:
    """Return the result in `directory`. Raises InputError unless it has this fingerprint."""
    result = Result(directory)
    if result.experiment.get("fingerprint") != fingerprint:
        raise InputError("is of another experiment", file=str(directory))
    return result
