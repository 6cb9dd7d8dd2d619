"""Expect an error by location, code and named values, not by its wording."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from netsim.errors import Code, InputError

Place = tuple[str | None, str | None, Code]


def places(error: InputError) -> list[Place]:
    """Return (file name, key, code) of each error."""
    return [(Path(e.file).name if e.file else None, e.key, e.code) for e in error.errors]


def mentions(text: object, *values: object) -> bool:
    """Check that a text contains all values (tuples of them, too), regardless of case."""
    wanted = [str(v).lower() for one in values for v in (one if type(one) is tuple else (one,))]
    missing = [value for value in wanted if value not in str(text).lower()]
    assert not missing, f"{missing} not in: {text}"
    return True


def has(text: object, *values: object) -> bool:
    """Return whether a text contains all values."""
    return all(str(value).lower() in str(text).lower() for value in values)


@contextmanager
def raises(error: type[BaseException], *values: object) -> Iterator[pytest.ExceptionInfo[Any]]:
    """Expect an error whose message names these values."""
    with pytest.raises(error) as caught:
        yield caught
    mentions(caught.value, *values)


@contextmanager
def raises_input(
    *values: object, file: str | None = None, key: str | None = None, code: Code | None = None
) -> Iterator[pytest.ExceptionInfo[InputError]]:
    """Expect an `InputError` with this file (last part of its path), key and code."""
    with raises(InputError, *values) as caught:
        yield caught
    wanted, found = (file, key, code), places(caught.value)
    if not any(all(w in (None, f) for w, f in zip(wanted, one, strict=True)) for one in found):
        raise AssertionError(f"expected {wanted}, found {found}: {caught.value}")


def fails(result, status, *values):
    """Return whether a command ended with `status` and one message that names these values."""
    assert result.exit_code == status, result.output
    assert "Traceback" not in result.output
    return mentions(result.stderr, *values)
