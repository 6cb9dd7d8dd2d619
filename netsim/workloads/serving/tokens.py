"""The time of each token of each request, from the log of a serving run.

The log (`LOG` of `data.py`) has the iterations, and when a request entered and left the decode
batch of an instance: it got a token at the end of each iteration in between. A FIRST_TOKEN row
adds the token at the end of a prefill.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.workloads.serving.data import DECODE_START, DONE, FIRST_TOKEN, ITERATION, LOG, LOST

Ints = NDArray[np.int64]
Log = Mapping[str, Ints]
"""Columns "host", "time_ps" and those of `LOG`; the rows of a host are in order."""

AT_ONCE = 1 << 22
"""Tokens processed at once."""


def log_of(table: Any) -> Log:
    """Return the log of a result, a polars DataFrame, as columns."""
    names = ("host", "time_ps", *LOG)
    for name in names:
        if name not in table.columns or not table[name].dtype.is_integer():
            raise InputError("the log has no integer column of this name", key=name)
    return {name: table[name].fill_null(-1).to_numpy() for name in names}


class Tokens(NamedTuple):
    """Tokens of requests `first` to `end` - 1: int64[m] each, sorted by request and time."""

    first: int
    end: int
    request: Ints
    time_ps: Ints


@dataclass(frozen=True, eq=False)
class Stays:
    """Intervals of decoding, sorted by request: iterations `begin` to `end` - 1 of `ends_ps`, which
    holds the ends of all iterations, grouped by instance."""

    request: Ints
    begin: Ints
    end: Ints
    ends_ps: Ints


def stays(log: Log) -> Stays:
    """Return the decoding intervals of all requests; open ones last until the log ends."""
    host, what, time = log["host"], log["event"], log["time_ps"]
    iteration = np.flatnonzero(what == ITERATION)
    iteration = iteration[np.lexsort((time[iteration], host[iteration]))]
    ends = time[iteration]
    rows = np.flatnonzero((what == DECODE_START) | (what == DONE) | (what == LOST))
    rows = rows[np.lexsort((rows, time[rows], log["request"][rows]))]
    at = np.flatnonzero(what[rows] == DECODE_START)
    joined = rows[at]
    then = np.minimum(at + 1, rows.size - 1)
    left = rows[then]
    goes_on = (then == at) | (log["request"][left] != log["request"][joined])
    of = host[joined]
    begin, end = (np.zeros(joined.size, np.int64) for _ in range(2))
    until = np.where(goes_on, np.iinfo(np.int64).max, time[left])
    for one in np.unique(of).tolist():
        a, b = np.searchsorted(host[iteration], [one, one + 1])
        here, these = of == one, ends[a:b]
        begin[here] = a + np.searchsorted(these, time[joined[here]], side="right")
        end[here] = a + np.searchsorted(these, until[here], side="right")
    return Stays(log["request"][joined], begin, end, ends)


def tokens(n_requests: int, log: Log, found: Stays, at_once: int = AT_ONCE) -> Iterator[Tokens]:
    """Yield all tokens in parts of about `at_once`, at least one request each.

    Requests without tokens are also in the range of `first` and `end`.
    """
    rows = np.flatnonzero(log["event"] == FIRST_TOKEN)
    rows = rows[np.argsort(log["request"][rows], kind="stable")]
    prefilled, at = log["request"][rows], log["time_ps"][rows]
    length = found.end - found.begin
    told = np.bincount(prefilled, minlength=n_requests).astype(np.int64)
    told += np.bincount(found.request, length, n_requests).astype(np.int64)
    part = np.cumsum(told) // at_once
    bounds = np.unique(np.searchsorted(part, np.arange(part[-1] + 2 if part.size else 1)))
    bounds = np.unique(np.concatenate([[0], bounds, [n_requests]]))
    for first, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        a, b = np.searchsorted(prefilled, [first, end])
        c, d = np.searchsorted(found.request, [first, end])
        many = length[c:d]
        # Index of each token within its interval.
        before = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
        decoded = found.ends_ps[np.repeat(found.begin[c:d], many) + before]
        request = np.concatenate([prefilled[a:b], np.repeat(found.request[c:d], many)])
        time = np.concatenate([at[a:b], decoded])
        order = np.lexsort((time, request))
        yield Tokens(first, end, request[order], time[order])
