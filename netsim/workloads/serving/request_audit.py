"""The audit of requests: each is served once, with every token it asked for."""

from __future__ import annotations

import numpy as np

from netsim.errors import RunError
from netsim.workloads.serving.data import DECODE_START, DONE, EVENTS, FIRST_TOKEN, LOST
from netsim.workloads.serving.data import PREFILL_START as START
from netsim.workloads.serving.outcome import Table
from netsim.workloads.serving.tokens import Ints, Log

BEFORE_END = (START, FIRST_TOKEN, DECODE_START, LOST)


def audit(requests: Table, log: Log, *, complete: bool) -> dict[str, int]:
    """Count requests and tokens at the end of a run.

    Args:
        requests: the table of `netsim.workloads.serving.outcome.outcome`.
        log: the log it was built from.
        complete: whether the run is complete.

    Raises:
        RunError: a request is lost, is done twice, continues after its end, or got another number
            of tokens than it asked for.
    """
    n = requests["request"].size
    event, request = log["event"], log["request"]
    rows = np.flatnonzero((request < 0) & np.isin(event, (*BEFORE_END, DONE)))
    if rows.size:
        raise RunError(f"row {rows[0]} of the serving log names no request (netsim bug)")
    done = np.bincount(request[event == DONE], minlength=n)
    started = np.bincount(request[event == START], minlength=n) > 0
    _refuse(done > 1, "was served twice")
    _refuse((done == 1) & ~started, "is done but never started")
    generated, asked = requests["generated_tokens"], requests["output_tokens"]
    _refuse((done == 1) & (generated != asked), "got {} tokens of {}", generated, asked)
    unfinished = (done == 0) & (generated >= asked)
    _refuse(unfinished, "got {} tokens of {} but is not done", generated, asked)
    logged = np.zeros(n, np.int64)
    logged[request[event == DONE]] = log["count"][event == DONE]
    _refuse((done == 1) & (logged != asked), "ended with {} tokens of {}", logged, asked)
    for kind in BEFORE_END:
        rows = np.flatnonzero(event == kind)
        end = requests["end_ps"][request[rows]]
        late = np.zeros(n, bool)
        late[request[rows[(end >= 0) & (log["time_ps"][rows] > end)]]] = True
        _refuse(late, f'has an event "{EVENTS[kind]}" after its end')
    if complete:
        _refuse(done == 0, "is lost: the run is complete, the request is not")
    return {
        "done": int(done.sum()),
        "under_way": int((started & (done == 0)).sum()),
        "waiting": int((~started).sum()),
        "tokens": int(generated.sum()),
    }


def _refuse(bad: np.ndarray, message: str, *columns: Ints) -> None:
    """Raise RunError for the first bad request."""
    for request in np.flatnonzero(bad)[:1].tolist():
        problem = message.format(*(int(column[request]) for column in columns))
        raise RunError(f"request {request} {problem} (netsim bug)")
