"""Expect an `InputError` by its place, its kind and the values it names, not by its wording."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from netsim.errors import Code, InputError

Place = tuple[str | None, str | None, Code]


def places(error: InputError) -> list[Place]:
    """Return (name of the file, key, code) of each mistake."""
    return [(Path(e.file).name if e.file else None, e.key, e.code) for e in error.errors]


def names(error: BaseException, *values: object) -> bool:
    """Check that the message contains each value, regardless of case."""
    text = str(error).lower()
    missing = [value for value in values if str(value).lower() not in text]
    assert not missing, f"{missing} not in: {error}"
    return True


@contextmanager
def raises_input(
    *values: object, file: str | None = None, key: str | None = None, code: Code | None = None
) -> Iterator[pytest.ExceptionInfo[InputError]]:
    """Expect a mistake with this file (last part of its path), key and code; values it names."""
    with pytest.raises(InputError) as caught:
        yield caught
    wanted = (file, key, code)
    found = places(caught.value)
    if not any(all(w in (None, f) for w, f in zip(wanted, one, strict=True)) for one in found):
        raise AssertionError(f"expected {wanted}, found {found}: {caught.value}")
    names(caught.value, *values)
