"""Helpers for tests of the compiled-code cache."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import netsim
import netsim.experiments
import netsim.plots
import netsim.topologies
import netsim.transports


@contextmanager
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make compilation fail, so that only cached code works."""
    from numba.core.dispatcher import _FunctionCompiler

    def refuse(*_: object) -> None:
        raise AssertionError("compiled again")

    with monkeypatch.context() as patch:
        patch.setattr(_FunctionCompiler, "compile", refuse)
        yield


def copy_of_package(folder: Path) -> Path:
    """Copy netsim with its mapped folders inside, as when installed; return the copy."""
    package = folder / "netsim"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(netsim.__file__).parent, package, ignore=ignore)
    for part in (netsim.experiments, netsim.plots, netsim.topologies, netsim.transports):
        assert part.__file__ is not None
        source = Path(part.__file__).parent
        shutil.copytree(source, package / source.name, ignore=ignore, dirs_exist_ok=True)
    return package
