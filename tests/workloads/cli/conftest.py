"""Fixtures for command tests."""

import pytest
from cli_fixtures import *  # noqa: F403


@pytest.fixture
def lines(netsim):
    """Run a command with `--set` for each change; return its lines with single spaces."""

    def printed(*arguments, changes=()):
        overrides = [one for change in changes for one in ("--set", change)]
        result = netsim(*arguments, *overrides)
        assert result.exit_code == 0, result.output
        return [" ".join(line.split()) for line in result.stdout.splitlines()]

    return printed
