"""Fixtures of tests of tracing."""

from small_runs import netsim  # noqa: F401
