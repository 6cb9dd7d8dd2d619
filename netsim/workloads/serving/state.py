"""The records of a serving run: instances at their leaders, requests, and other tasks.

These are fields of the program's records (`netsim.program`). Lists of requests are linked through
`next` and identified by the indices of their first and last task; -1 is none.
"""

from __future__ import annotations

from netsim.workloads.inference.cost import IterationCost

REQUEST, KV_SENT, TRANSITION, ANNOUNCED, REDUCED, POOL_REQUEST, POOL_READ = range(1, 8)
"""The field `role` of a task; 0 for other tasks. At a leader: a request (done on arrival), a sent
part of a KV cache (the leader's own), and a transition (never starts). At other GPUs: an announced
iteration. At all of them: an ended all-reduce, a finished pool read. At pool hosts: a requested
read."""

ROW_BYTES, TICKS = 8, 1 << 16
"""Encoding of announcements: bytes per row, and the largest number of ticks of compute time."""

DOWN, WHOLE, SHRUNK = range(3)
"""States of an instance."""

TASK_STATE = (
    "role",
    # A request:
    "request",  # its number
    "prompt",  # its tokens
    "output",
    "generated",  # output tokens so far
    "left",  # tokens to compute before the next output token; 0: decoding
    "next",  # next one in its list
    "kv",  # first task that sends its KV cache; -1: none
    "parts",  # started parts of its KV cache; for a pool request, number of answering flows
    "sending",  # unfinished tasks of the leader that send its KV cache
    # KV-cache part: task of its request. Pool request: its first answering task. Transition: new
    # state and time.
    "of",
    "at_ps",
    # All-reduce or pool read: largest size.
    "max_bytes",
)

HOST_STATE = (
    "role",  # of a leader: 1 + its instance's role
    "state",  # DOWN, WHOLE or SHRUNK
    "busy",  # 1 during an iteration
    "start_ps",  # of the iteration
    "duration_ps",
    "tokens",  # prompt tokens in it
    "context",  # tokens of all decoding requests
    "pairs",  # attention pairs of prompt tokens
    "batch",  # decoding requests
    "sequences",  # admitted requests
    "used",  # reserved tokens of KV cache
    "room",  # KV-cache capacity in tokens, whole and shrunk
    "shrunk_room",
    "open",  # unfinished requests
    "done",  # finished requests
    "transition",  # the next one, and number of remaining ones
    "n_transitions",
    "starts",  # tasks that send one part of a KV cache
    "part",  # next part to send in this iteration
    "n_parts",  # parts of a KV cache; 0: none is sent
    "size",  # GPUs of the instance
    "causal",  # 1 if a token attends only to those before it
    # Lists of requests: waiting (the head may be partly computed), ending their prefill with this
    # iteration, decoding; and the first decoding one whose start is not yet logged.
    "waiting",
    "waiting_end",
    "filling",
    "filling_end",
    "decoding",
    "decoding_end",
    "fresh",
    # Each GPU, if all-reduces are packets: see `iteration_exchange.py`.
    "n_iterations",
    "n_groups",  # all-reduces per iteration; 0: analytic
    "iteration",  # the current or next one
    "n_announced",  # announced iterations
    "group",
    "group_ps",  # compute time of a group
    "left_out_ps",  # its part for the latency of merged all-reduces
    "clock_ps",  # unit of announced times
    "rows",  # of the iteration
    "max_rows",  # of declared iterations
    "messages",  # first message task of a leader
    "announcements",  # first message task of another GPU
    "reduces",  # first task of all-reduces, tasks of each, and index of its begin
    "reduce_tasks",
    "reduce_begin",
    # Memory pool: see `iteration_exchange.py`, and `iteration_duration` for analytic reads.
    "pooled",  # 1 if this GPU reads
    "reads",  # finished reads
    "waits_for_read",  # 1 if it waits for its read
    "pool_requests",  # of a leader: first task, and number per iteration
    "n_pool_requests",
    "max_context",  # of declared reads; 0: each iteration reads everything
    ("reading_ps", float),
    ("token_reading_ps", float),  # per context token
    # The cost of its iterations: with these fields, a record is the `cost` of `compute_ps`.
    *((name, float) for name in IterationCost._fields),
)

END, PART, TRANSITION_TIMER, BEGIN = range(4)
"""Timers: end of an iteration, next part of KV caches, transition, begin of an iteration."""

TIMERS = 4
