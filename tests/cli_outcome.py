"""What commands that fail have in common."""

from raises_input import mentions


def fails(result, status, *values):
    """Whether a command ended with `status` and one message naming these, without a traceback."""
    assert result.exit_code == status, result.output
    assert "Traceback" not in result.output
    return mentions(result.stderr, *values)
