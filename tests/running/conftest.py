"""Fixtures of tests of running."""

from small_runs import netsim  # noqa: F401
