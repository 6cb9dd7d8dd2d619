"""Fixtures of tests of results."""

from small_runs import netsim  # noqa: F401
