"""Tables written by `netsim trace --critical-path` and `--request`."""

from __future__ import annotations

from netsim.results.columns import TableSpec

CRITICAL = TableSpec.of(
    "critical",
    """
    segment       index  segment of the path, in order of time
    start_ps      ps     start, which is the end of the segment before
    end_ps        ps     end
    segment_type  -      compute: a compute task; formula: a collective timed by a formula; join: a
        task without duration; flow: from its start to its delivery; send: a flow until its send
        task was done (handed over or acknowledged); latency of software, before a flow or a
        collective or after a delivery; start: until the start time of a flow that waits for nothing
    start_reason  -      begin (nothing came before), task (the last awaited task ended), stream
        (the compute task before in the stream ended), flow (it was delivered), same_flow (after the
        latency or the start of the same flow)
    host          host   host; for a flow, its source
    to            host   destination of a flow; else null
    task          index  task; null if there is none
    flow          index  flow; null if there is none
    operation     index  operation that starts or ends with the task; null if none does
    stream        index  stream of a compute task; null without one
    kind          -      kind of the flow or the operation, if the traffic names kinds
    label*        -      name of the task or the flow in the traffic
    ideal_ps      ps     completion time of the flow alone in the network; else null
    """,
    of_run=False,
)

REQUEST_LATENCY = TableSpec.of(
    "request_latency",
    """
    start_ps       ps          start
    end_ps         ps          end, which is the start of the next row
    stage          -           queueing: the prompt waits; prefill: it is computed; kv: its KV cache
        is transferred; decode_queue: the cache has arrived and waits for an iteration; decode: in
        an iteration whose end gives a token, or between two; lost: the instance failed, and the
        request starts over
    instance       index       instance of the row
    token          index       output token that ends the row, from 1; null without one
    iterations     iterations  iterations of the instance in that time; for prefill and decode 1,
        the request's own
    decode_batch   sequences   sequences that decoded in these, summed
    prompt_tokens  tokens      prompt tokens in these, summed
    computing_ps   ps          time in which these computed
    network_ps     ps          time in which these, or the KV cache, were on the network
    down_ps        ps          time for which the instance was down; 0 for kv
    flow           index       for kv, the flow that was delivered last; else null
    flow_ps        ps          for kv, the completion time of that flow; else null
    ideal_ps       ps          for kv, its completion time alone in the network; else null
    """,
    of_run=False,
)

TABLES = (CRITICAL, REQUEST_LATENCY)
ORDER = 110
