"""What commands that fail have in common."""


def fails(result, status, *texts):
    """Whether a command ended with `status` and one message, without a traceback."""
    assert result.exit_code == status, result.output
    assert "Traceback" not in result.output
    for text in texts:
        assert text in result.stderr
    return True
