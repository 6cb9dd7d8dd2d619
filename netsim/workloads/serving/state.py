"""The records of a serving run: instances at their leaders, requests, and other tasks.

These are fields of the program's records (`netsim.program`). Lists of requests are linked through
`next` and identified by the indices of their first and last task; -1 is none.
"""

from __future__ import annotations

from netsim.workloads.inference.cost import IterationCost

REQUEST, KV_SENT, TRANSITION, ANNOUNCED, REDUCED, POOL_REQUEST, POOL_READ = range(1, 8)
"""The field `role` of a task; 0 for other tasks. At a leader: a request, which is done as it
arrives; the leader's own part of a KV cache, sent; a transition, which never starts. At other GPUs:
an iteration announced. At all of them: an all-reduce over, a read from the pool finished. At pool
hosts: a read requested."""

ROW_BYTES, TICKS = 8, 1 << 16
"""Encoding of announcements: bytes per row, and the largest number of ticks of compute time."""

DOWN, WHOLE, SHRUNK = range(3)
"""States of an instance."""

TASK_STATE = (
    "role",
    # Of a request:
    "request",  # its number
    "prompt",  # its tokens
    "output",
    "generated",  # output tokens that were told
    "left",  # tokens to be computed before the next one can be told; 0: it decodes
    "next",  # in the list that it is in
    "kv",  # the first of the tasks that send its KV cache; -1: it is not sent
    "parts",  # of its KV cache that have been started; of who asks a pool, how many flows answer
    "sending",  # tasks of the leader that send its KV cache and are not done
    # Of a part of a KV cache: its request's task. Of who asks a pool: the first task that answers.
    # Of a change: what the instance becomes, and when.
    "of",
    "at_ps",
    # Of an all-reduce, or from a pool, what is sent at most:
    "max_bytes",
)

HOST_STATE = (
    "role",  # 1 + its instance's, of a leader
    "state",  # DOWN, WHOLE or SHRUNK
    "busy",  # 1 during an iteration
    "start_ps",  # of the iteration
    "duration_ps",
    "tokens",  # of prompts in it
    "context",  # of all that decode, in tokens
    "pairs",  # of prompt tokens and those before them
    "batch",  # how many decode
    "sequences",  # that have KV cache and are computed with
    "used",  # tokens of KV cache, reserved
    "room",  # of all, whole and shrunk
    "shrunk_room",
    "open",  # requests that are not over here
    "done",  # that were told all of their tokens here
    "transition",  # the next one, and how many there are from it on
    "n_transitions",
    "starts",  # tasks that send a part of a KV cache
    "part",  # the one that is sent next in this iteration
    "n_parts",  # of a KV cache; 0 where none is sent
    "size",  # of the instance, GPUs
    "causal",  # 1 if a token looks at those before it only
    # Requests that wait, the head partly computed; that are to be told their first token as the
    # iteration ends; that decode; and of these the first one that has not been told to.
    "waiting",
    "waiting_end",
    "filling",
    "filling_end",
    "decoding",
    "decoding_end",
    "fresh",
    # Of each GPU, if all-reduces are sent: see `iteration_exchange.py`.
    "n_iterations",
    "n_groups",  # of all-reduces in an iteration; 0 if they are none of it
    "iteration",  # the next one, or the one that is under way
    "n_announced",  # iterations that the leader has announced
    "group",
    "group_ps",  # for how long it computes
    "left_out_ps",  # of that the latency of all-reduces that are not sent
    "clock_ps",  # in which a leader tells times
    "rows",  # of the iteration
    "max_rows",  # that are listed
    "messages",  # of a leader, the first one
    "announcements",  # of another GPU, the first message to it
    "reduces",  # the first task of all-reduces, how many each one has, and which is its first
    "reduce_tasks",
    "reduce_begin",
    # If memory is pooled: see `iteration_exchange.py`; by formula (`cost.py`) how long it is read.
    "pooled",  # 1 of each GPU that reads
    "reads",  # iterations for which this GPU has read
    "waits_for_read",  # 1 if it has nothing to do until it has read
    "pool_requests",  # of a leader: first task, and how many of an iteration
    "n_pool_requests",
    "max_context",  # for which reads are listed; 0 if all is read in each iteration
    ("reading_ps", float),
    ("token_reading_ps", float),  # of each token of the contexts
    *((f"cost_{name}", float) for name in IterationCost._fields),
)

END, PART, TRANSITION_TIMER, BEGIN = range(4)
"""Timers: end of an iteration, next part of KV caches, transition, begin of an iteration."""

TIMERS = 4
