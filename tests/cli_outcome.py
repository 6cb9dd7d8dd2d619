"""Check how commands fail."""

from raises_input import mentions


def fails(result, status, *values):
    """Return whether a command ended with `status` and one message that names these values."""
    assert result.exit_code == status, result.output
    assert "Traceback" not in result.output
    return mentions(result.stderr, *values)
