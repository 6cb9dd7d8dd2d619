"""The command line: one file per command, imported when that command is asked for.

Nothing slow is imported on the way to `netsim --help`: numba, numpy, pydantic, pyarrow, networkx
and matplotlib are imported by the functions that need them.
"""

from netsim.cli.app import app, main

__all__ = ["app", "main"]
