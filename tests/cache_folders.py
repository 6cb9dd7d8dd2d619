"""What tests of kept code share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Within, whatever is not on the disk cannot be had."""
    from numba.core.dispatcher import _FunctionCompiler

    def refuse(*_: object) -> None:
        raise AssertionError("compiled again")

    with monkeypatch.context() as patch:
        patch.setattr(_FunctionCompiler, "compile", refuse)
        yield
