"""The command line: one file per command, imported when the command runs.

`netsim --help` is instant: functions that need numba, numpy, polars, networkx or
matplotlib import them.
"""

from netsim.cli.app import app, main

__all__ = ["app", "main"]
