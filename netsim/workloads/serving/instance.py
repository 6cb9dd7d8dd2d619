"""The iterations of an instance: their requests, durations and effects.

The functions are compiled into the engine: the handlers of `netsim.workloads.traffic.serving` call
them, mostly at leaders. The time per iteration is proportional to its requests, not to waiting
requests.

The constants are the fields of the records (`netsim.program`) of hosts and tasks. Lists of requests
are linked through `next` and identified by the indices of their first and last task; -1 is none.
"""

from netsim.program import (
    SEND,
    cancel_timer,
    flow_bytes,
    log_row,
    set_size,
    set_timer,
    start,
    task_at,
)
from netsim.workloads.inference.deployment import (
    IterationCost,
    compute_ps,
    iteration_ps,
    prompt_pairs,
)
from netsim.workloads.serving.plan import (
    DECODE_START,
    DONE,
    FIRST_TOKEN,
    ITERATION,
    KV_TRANSFER_END,
    LOST,
    PREFILL,
    PREFILL_START,
    UP,
)
from netsim.workloads.serving.plan import DOWN as GOES_DOWN

REQUEST, KV_SENT, TRANSITION, ANNOUNCED, REDUCED, POOL_REQUEST, POOL_READ = range(1, 8)
"""The field `role` of a task; 0 for other tasks. At a leader: a request (done on arrival), a sent
part of a KV cache (the leader's own), and a transition (never starts). At other GPUs: an announced
iteration. At all of them: an ended all-reduce, a finished pool read. At pool hosts: a requested
read."""

ROW_BYTES, TICKS = 8, 1 << 16
"""Encoding of announcements: bytes per row, and the largest number of ticks of compute time."""

DOWN, WHOLE, SHRUNK = range(3)  # states of an instance

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
    # Of a KV-cache part: its request's task; of a pool request: its first answering task; of a
    # transition: new state and time.
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
    "causal",  # 1 if a token attends only to earlier tokens
    # Lists of requests: waiting (the head may be partly computed), ending their prefill with this
    # iteration, decoding; and the first decoding request whose start is not yet logged.
    "waiting",
    "waiting_end",
    "filling",
    "filling_end",
    "decoding",
    "decoding_end",
    "fresh",
    # Each GPU, if all-reduces are packets.
    "n_iterations",
    "n_groups",  # all-reduces per iteration; 0: analytic
    "iteration",  # the current or next one
    "n_announced",  # announced iterations
    "group",
    "group_ps",  # compute time of a group
    "left_out_ps",  # the part of it that is latency of merged all-reduces
    "clock_ps",  # unit of announced times
    "rows",  # of the iteration
    "max_rows",  # of declared iterations
    "messages",  # first message task of a leader
    "announcements",  # first message task of another GPU
    "reduces",  # first task of all-reduces, tasks of each, and index of its begin
    "reduce_tasks",
    "reduce_begin",
    # Memory pool; `iteration_duration` has analytic reads.
    "pooled",  # 1 if this GPU reads
    "reads",  # finished reads
    "waits_for_read",  # 1 if it is waiting for its read
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


# --- batches --------------------------------------------------------------------------------------


def accept_request(env, now, request):
    """Queue a request when it, or its KV cache, has arrived."""
    if request.left == 0:
        log_request(env, now, KV_TRANSFER_END, request)
    host = env.host
    host.waiting, host.waiting_end = append(env, request, host.waiting, host.waiting_end)
    schedule_iteration(env, now)


def schedule_iteration(env, now):
    """Begin an iteration after all events of this instant, unless one is running."""
    if env.host.busy == 0 and env.host.state != DOWN:
        set_timer(env, now, BEGIN, now)


def begin_iteration(env, now):
    """Form the next iteration: all decoding requests, and as many waiting ones as fit."""
    host = env.host
    if host.busy == 1 or host.state == DOWN:
        return
    host.tokens = 0
    host.pairs = 0
    while host.fresh >= 0:
        request = task_at(env, host.fresh)
        log_request(env, now, DECODE_START, request)
        host.fresh = request.next
    schedule_waiting(env, now)
    if host.batch == 0 and host.tokens == 0:
        return
    host.busy = 1
    host.start_ps = now
    host.part = 0
    if host.n_groups > 0:
        announce_iteration(env, now)
        return
    host.duration_ps = iteration_duration(host)
    set_timer(env, now, END, now + host.duration_ps)
    if host.n_parts > 1 and host.filling >= 0:
        set_timer(env, now, PART, now + host.duration_ps // host.n_parts)


def iteration_duration(host):
    """Return the duration of the iteration that begins; the leader's record is its cost.

    Reads from a memory pool overlap with compute: the longer counts. A shrunk instance spreads the
    work of the missing GPU over the others.
    """
    rows = host.tokens + host.batch
    duration = iteration_ps(host, rows, host.pairs, host.batch, host.context)
    reading = int(host.reading_ps + host.token_reading_ps * host.context)
    if host.overlap:
        duration = max(duration, reading)
    else:
        computing = compute_ps(host, rows, host.pairs, host.batch, host.context)
        duration += max(0, reading - computing)
    if host.state == SHRUNK:
        duration = duration * host.size // (host.size - 1)
    return duration


def schedule_waiting(env, now):
    """Add waiting requests in order of arrival until one does not fit."""
    host = env.host
    room = env.par.token_budget - host.batch
    while host.waiting >= 0:
        request = task_at(env, host.waiting)
        has_begun = 0 < request.left < request.prompt + request.generated
        if not has_begun and not has_room(env, request):
            return
        tokens = tokens_to_prefill(env, request, room)
        if tokens == 0 and request.left > 0:
            return
        if not has_begun:
            host.used += kv_tokens(host, request)
            host.sequences += 1
            if request.left > 0:
                log_request(env, now, PREFILL_START, request)
        if request.left == 0:
            host.waiting = request.next
            put_decoding(env, request)
            log_request(env, now, DECODE_START, request)
            room -= 1
            continue
        prefill(host, request, tokens)
        room -= tokens
        if request.left > 0:
            return
        host.waiting = request.next
        host.filling, host.filling_end = append(env, request, host.filling, host.filling_end)


def kv_tokens(host, request):
    """Return the KV-cache tokens reserved for a request: for decoding, including its output."""
    if host.role == 1 + PREFILL:
        return request.prompt
    return request.prompt + request.output


def has_room(env, request):
    host = env.host
    room = host.shrunk_room if host.state == SHRUNK else host.room
    return host.sequences < env.par.max_batch and host.used + kv_tokens(host, request) <= room


def tokens_to_prefill(env, request, room):
    """Return the number of tokens of a prompt that this iteration computes. If prompts are not
    split, an iteration computes its first prompt whatever its length."""
    if request.left <= room:
        return request.left
    if env.par.chunked:
        return max(room, 0)
    return request.left if env.host.tokens == 0 else 0


def prefill(host, request, tokens):
    """Add prompt tokens to this iteration; each attends to itself and the tokens before it."""
    before = request.prompt + request.generated - request.left
    host.tokens += tokens
    host.pairs += prompt_pairs(host.causal == 1, before, tokens)
    request.left -= tokens


# --- ends of iterations ---------------------------------------------------------------------------


def end_iteration(env, now):
    """End an iteration: each decoding or prefilled request gets a token."""
    host = env.host
    log_row(
        env, now, ITERATION, -1, host.start_ps, host.batch, host.tokens, host.context, host.pairs
    )
    host.busy = 0
    advance_decoding(env, now)
    finish_prefills(env, now)
    schedule_iteration(env, now)


def advance_decoding(env, now):
    """Give each decoding request a token, and remove the finished ones."""
    host = env.host
    place = host.decoding
    last = -1
    host.context = 0
    while place >= 0:
        request = task_at(env, place)
        place = request.next
        request.generated += 1
        if request.generated < request.output:
            last = request.index
            host.context += request.prompt + request.generated
            continue
        if last < 0:
            host.decoding = place
        else:
            task_at(env, last).next = place
        host.batch -= 1
        finish_request(env, now, request)
    host.decoding_end = last


def finish_prefills(env, now):
    """Give each prefilled request its first token, and send it to its decode instance."""
    host = env.host
    place = host.filling
    host.filling = -1
    while place >= 0:
        request = task_at(env, place)
        place = request.next
        request.generated += 1
        log_request(env, now, FIRST_TOKEN, request)
        if request.generated == request.output:
            finish_request(env, now, request)
        elif host.role == 1 + PREFILL:
            while request.parts < host.n_parts:
                send_part(env, now, request)
            release_request(env)
        else:
            put_decoding(env, request)
            if host.fresh < 0:
                host.fresh = request.index


def finish_request(env, now, request):
    log_request(env, now, DONE, request)
    env.host.done += 1
    env.host.used -= kv_tokens(env.host, request)
    release_request(env)


def release_request(env):
    env.host.sequences -= 1
    env.host.open -= 1
    if env.host.open == 0:
        cancel_timer(env, TRANSITION_TIMER)


# --- all-reduces in packets -----------------------------------------------------------------------
# GPUs alternate compute and all-reduce. The leader announces an iteration to the other GPUs with
# two messages: their sizes encode the number of rows and the compute time. Each GPU then proceeds
# group by group, waiting only for all-reduces.


def announce_iteration(env, now):
    """Begin an iteration at its leader, which announces it to the other GPUs."""
    host = env.host
    if host.iteration == host.n_iterations:
        raise IndexError("out of declared iterations: raise traffic.max_iterations")
    rows = host.tokens + host.batch
    work = compute_ps(host, rows, host.pairs, host.batch, host.context)
    ticks = min((work + host.clock_ps // 2) // host.clock_ps, TICKS)
    others = host.size - 1
    place = host.messages + 2 * others * host.iteration
    for _ in range(others):
        send_size(env, now, place, ROW_BYTES * rows)
        send_size(env, now, place + 1, ticks)
        place += 2
    request_pool_reads(env, now)
    begin_groups(env, now, rows, ticks)


def request_pool_reads(env, now):
    """Request the iteration's reads from the pool's hosts; the leader does this."""
    host = env.host
    amount = TICKS
    if host.max_context > 0:
        amount = (host.context * TICKS + host.max_context - 1) // host.max_context
    first = host.pool_requests + host.n_pool_requests * host.iteration
    for place in range(first, first + host.n_pool_requests):
        send_size(env, now, place, amount)


def answer_pool_read(env, now, task):
    """Send the requested amount from a pool host to each GPU of the instance."""
    amount = flow_bytes(env, task) - env.par.control_message_size
    for place in range(task.of, task.of + task.parts):
        answer = task_at(env, place)
        set_size(env, answer, max(1, answer.max_bytes * amount // TICKS))
        start(env, now, answer)


def send_size(env, now, place, more):
    """Send a control message with `more` extra bytes, the number that it encodes."""
    message = task_at(env, place)
    set_size(env, message, env.par.control_message_size + more)
    start(env, now, message)


def iteration_announced(env, now):
    """Record an announced iteration at a GPU other than the leader."""
    host = env.host
    host.n_announced += 1
    if host.busy == 0:
        begin_next(env, now)


def begin_next(env, now):
    """Begin the next iteration at a GPU other than the leader."""
    host = env.host
    host.busy = 1
    rows = (
        flow_bytes(env, task_at(env, host.announcements + host.iteration))
        - env.par.control_message_size
    )
    ticks = (
        flow_bytes(env, task_at(env, host.announcements + host.n_iterations + host.iteration))
        - env.par.control_message_size
    )
    begin_groups(env, now, rows // ROW_BYTES, ticks)


def begin_groups(env, now, rows, ticks):
    host = env.host
    host.group = 0
    host.rows = rows
    host.group_ps = ticks * host.clock_ps // host.n_groups + host.left_out_ps
    set_timer(env, now, END, now + host.group_ps)


def end_computation(env, now):
    """End a compute phase; the last group's all-reduce also waits for reads from the pool."""
    host = env.host
    if host.pooled == 1 and host.group == host.n_groups - 1 and host.reads <= host.iteration:
        host.waits_for_read = 1
    else:
        start_all_reduce(env, now)


def end_pool_read(env, now):
    host = env.host
    host.reads += 1
    if host.waits_for_read == 1:
        host.waits_for_read = 0
        start_all_reduce(env, now)


def start_all_reduce(env, now):
    host = env.host
    first = host.reduces + (host.iteration * host.n_groups + host.group) * host.reduce_tasks
    for place in range(first, first + host.reduce_tasks):
        task = task_at(env, place)
        if task.kind == SEND:
            set_size(env, task, max(1, task.max_bytes * host.rows // host.max_rows))
    start(env, now, task_at(env, first + host.reduce_begin))


def end_all_reduce(env, now):
    """End an all-reduce at this GPU, and an iteration with its last one."""
    host = env.host
    host.group += 1
    if host.group == host.n_groups:
        host.iteration += 1
        if host.role > 0:
            end_iteration(env, now)
        else:
            host.busy = 0
            if host.n_announced > host.iteration:
                begin_next(env, now)
        return
    while host.part < host.n_parts - 1 and (host.part + 1) * host.n_groups <= (
        host.group * host.n_parts
    ):
        send_parts(env, now)
    set_timer(env, now, END, now + host.group_ps)


# --- KV caches ------------------------------------------------------------------------------------


def send_part(env, now, request):
    host = env.host
    first = request.kv + request.parts * host.starts
    for place in range(first, first + host.starts):
        start(env, now, task_at(env, place))
    request.parts += 1


def send_next_part(env, now):
    """Send the KV cache of the layers computed so far, with analytic all-reduces."""
    host = env.host
    send_parts(env, now)
    if host.part < host.n_parts - 1:
        at = host.start_ps + host.duration_ps // host.n_parts * (host.part + 1)
        set_timer(env, now, PART, at)


def send_parts(env, now):
    """Send the next part of all KV caches; after a failure, it may have been sent before."""
    host = env.host
    place = host.filling
    while place >= 0:
        request = task_at(env, place)
        if request.kv >= 0 and request.parts == host.part:
            send_part(env, now, request)
        place = request.next
    host.part += 1


def end_kv_transfer(env, now, task):
    """Free a KV cache when all of it has been sent."""
    request = task_at(env, task.of)
    request.sending -= 1
    if request.sending == 0:
        env.host.used -= request.prompt
        schedule_iteration(env, now)


# --- failures -------------------------------------------------------------------------------------


def apply_transition(env, now):
    """Apply a transition: the instance fails, restarts, or is whole again."""
    host = env.host
    transition = task_at(env, host.transition)
    host.transition += 1
    host.n_transitions -= 1
    host.state = transition.of
    gpus = host.size
    if host.state == DOWN:
        gpus = 0
        lose_all_requests(env, now)
    elif host.state == SHRUNK:
        gpus -= 1
    what = GOES_DOWN if gpus == 0 else UP
    log_row(env, now, what, -1, 0, 0, gpus, 0, 0)
    schedule_transition(env, now)
    schedule_iteration(env, now)


def schedule_transition(env, now):
    """Set the timer of the next transition while there are unfinished requests."""
    host = env.host
    if host.n_transitions > 0 and host.open > 0:
        set_timer(env, now, TRANSITION_TIMER, task_at(env, host.transition).at_ps)


def lose_all_requests(env, now):
    """Return all requests to the queue: the GPU memory is lost. Requests in progress come before
    waiting ones, in the order in which they were admitted."""
    host = env.host
    cancel_timer(env, END)
    cancel_timer(env, PART)
    if host.waiting >= 0:
        head = task_at(env, host.waiting)
        if 0 < head.left < head.prompt + head.generated:
            lose_request(env, now, head)
    requeue(env, now, host.filling, host.filling_end)
    requeue(env, now, host.decoding, host.decoding_end)
    host.filling = -1
    host.decoding = -1
    host.fresh = -1
    host.batch = 0
    host.context = 0
    host.busy = 0


def requeue(env, now, first, last):
    """Put a list of requests in front of the waiting ones."""
    host = env.host
    if first < 0:
        return
    place = first
    while place >= 0:
        request = task_at(env, place)
        place = request.next
        lose_request(env, now, request)
    if host.waiting < 0:
        host.waiting_end = last
    task_at(env, last).next = host.waiting
    host.waiting = first


def lose_request(env, now, request):
    """Turn the prompt and the tokens generated so far into one prompt, to be computed again."""
    log_request(env, now, LOST, request)
    env.host.used -= kv_tokens(env.host, request)
    env.host.sequences -= 1
    request.left = request.prompt + request.generated


# --- lists ----------------------------------------------------------------------------------------


def log_request(env, now, what, request):
    log_row(env, now, what, request.request, 0, 0, request.generated, 0, 0)


def append(env, request, first, last):
    """Append a request to a list with these ends; return the new ones."""
    request.next = -1
    if first < 0:
        return request.index, request.index
    task_at(env, last).next = request.index
    return first, request.index


def put_decoding(env, request):
    host = env.host
    host.decoding, host.decoding_end = append(env, request, host.decoding, host.decoding_end)
    host.batch += 1
    host.context += request.prompt + request.generated
