"""Fixtures of tests of commands."""

from cli_fixtures import *  # noqa: F403
