"""The log of a program: which of its rows are written, and what they say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.engine.state import State

Ints = NDArray[np.int64]


def rows_written(state: State) -> Ints:
    """The rows of a program's log that are in use: of one host behind those of another."""
    hosts: Any = np.asarray(state.hosts.program_hosts)
    counts = hosts["next_row"] - hosts["first_row"]
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.asarray(np.repeat(hosts["first_row"], counts) + within)


def program_log(state: State, columns: Sequence[str]) -> dict[str, Ints]:
    """The log of a program: the host and the time of each row, and its own ``columns``."""
    hosts: Any = np.asarray(state.hosts.program_hosts)
    rows = state.hosts.log[rows_written(state)]
    table = {"host": np.repeat(hosts["host"], hosts["next_row"] - hosts["first_row"])}
    for k, name in enumerate(("time_ps", *columns)):
        table[name] = np.ascontiguousarray(rows[:, k])
    return table
