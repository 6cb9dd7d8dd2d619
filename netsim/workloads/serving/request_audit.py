"""The audit of requests: none is lost, none is served twice, and each gets what it asked for."""

from __future__ import annotations

import numpy as np

from netsim.errors import RunError
from netsim.workloads.serving.data import (
    DECODE_START,
    DONE,
    EVENTS,
    FIRST_TOKEN,
    ITERATION,
    LOST,
    PREFILL_START,
)
from netsim.workloads.serving.outcome import Table
from netsim.workloads.serving.tokens import Ints, Log

OF_REQUESTS = (PREFILL_START, FIRST_TOKEN, DECODE_START, LOST, DONE)


def audit(requests: Table, log: Log, *, complete: bool) -> dict[str, int]:
    """Count requests and tokens at the end of a run.

    Args:
        requests: the table of `netsim.workloads.serving.outcome.outcome`.
        log: what it was made from.
        complete: whether the run says that all is done.

    Returns:
        Requests that are done, under way, and waiting, and tokens told.

    Raises:
        RunError: a request is lost, is done more than once, goes on behind its end, or was told
            another number of tokens than it asked for.
    """
    n = requests["request"].size
    what, request = log["event"], log["request"]
    _refuse((request < 0) & (what != ITERATION) & np.isin(what, OF_REQUESTS), "is of no request")
    done = np.bincount(request[what == DONE], minlength=n)
    started = np.bincount(request[what == PREFILL_START], minlength=n) > 0
    _refuse(done > 1, "was served twice")
    _refuse((done == 1) & ~started, "is done and never began")
    told, asked = requests["generated_tokens"], requests["output_tokens"]
    _refuse((done == 1) & (told != asked), "was told {} tokens of {}", told, asked)
    _refuse((done == 0) & (told >= asked), "was told {} tokens of {} and is not done", told, asked)
    stated = np.zeros(n, np.int64)
    stated[request[what == DONE]] = log["count"][what == DONE]
    _refuse((done == 1) & (stated != asked), "ended with {} tokens of {}", stated, asked)
    _after_their_end(log, requests["end_ps"])
    if complete:
        _refuse(done == 0, "is lost: the run is over and it is not done")
    return {
        "done": int(done.sum()),
        "under_way": int((started & (done == 0)).sum()),
        "waiting": int((~started).sum()),
        "tokens": int(told.sum()),
    }


def _after_their_end(log: Log, done_ps: Ints) -> None:
    """Nothing happens to a request that is done."""
    for what in (PREFILL_START, FIRST_TOKEN, DECODE_START, LOST):
        rows = np.flatnonzero(log["event"] == what)
        end = done_ps[log["request"][rows]]
        late = np.zeros(done_ps.size, bool)
        late[log["request"][rows[(end >= 0) & (log["time_ps"][rows] > end)]]] = True
        _refuse(late, f"has a row of {EVENTS[what]} behind its end")


def _refuse(bad: np.ndarray, message: str, *columns: Ints) -> None:
    """Raise the error of the first request that is bad."""
    for request in np.flatnonzero(bad)[:1].tolist():
        told = message.format(*(int(column[request]) for column in columns))
        raise RunError(f"request {request} {told} (a fault of netsim's serving)")
