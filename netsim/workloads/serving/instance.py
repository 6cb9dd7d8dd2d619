"""An instance's iterations: who is in the next one, how long it takes, and what comes of it.

These functions are compiled into the engine: the handlers of `netsim.workloads.traffic.serving`
call them at leaders. `state.py` describes the records. An iteration takes time for those that are
in it, not for those that wait.
"""

from netsim.program import cancel_timer, log_row, set_timer, start, task_at
from netsim.workloads.inference.cost import prompt_pairs
from netsim.workloads.serving.cost import duration_of
from netsim.workloads.serving.data import (
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
from netsim.workloads.serving.data import DOWN as GOES_DOWN
from netsim.workloads.serving.iteration_exchange import (
    announce_iteration,
    begin_next_group,
    end_follower_iteration,
    end_group,
)
from netsim.workloads.serving.state import BEGIN, DOWN, END, PART, SHRUNK, TRANSITION_TIMER

# --- who is in an iteration -----------------------------------------------------------------------


def accept_request(env, now, request):
    """A request has come: its prompt, or what was to come of its KV cache."""
    if request.left == 0:
        log_request(env, now, KV_TRANSFER_END, request)
    put_waiting(env, request)
    schedule_iteration(env, now)


def schedule_iteration(env, now):
    """Unless it is at work, the instance begins an iteration once all that comes now has come."""
    if env.host.busy == 0 and env.host.state != DOWN:
        set_timer(env, now, BEGIN, now)


def begin_iteration(env, now):
    """Those that decode go on; of those that wait, as many begin as there is room for."""
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
    host.duration_ps = duration_of(env)
    set_timer(env, now, END, now + host.duration_ps)
    if host.n_parts > 1 and host.filling >= 0:
        set_timer(env, now, PART, now + host.duration_ps // host.n_parts)


def schedule_waiting(env, now):
    """In the order in which they came, until one finds no room."""
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
        put_filling(env, request)


def kv_tokens(host, request):
    """Tokens of KV cache that a request takes: where it decodes, with all that it will be told."""
    if host.role == 1 + PREFILL:
        return request.prompt
    return request.prompt + request.output


def has_room(env, request):
    """Is there a place, and room for its KV cache?"""
    host = env.host
    room = host.shrunk_room if host.state == SHRUNK else host.room
    return host.sequences < env.par.max_batch and host.used + kv_tokens(host, request) <= room


def tokens_to_prefill(env, request, room):
    """How many tokens of a prompt are computed in this iteration.

    Where prompts are not cut, the first of an iteration is computed however long it is.
    """
    if request.left <= room:
        return request.left
    if env.par.chunked:
        return max(room, 0)
    return request.left if env.host.tokens == 0 else 0


def prefill(host, request, tokens):
    """So many tokens of a prompt are in this iteration; each looks at itself and those before."""
    before = request.prompt + request.generated - request.left
    host.tokens += tokens
    host.pairs += prompt_pairs(host.causal == 1, before, tokens)
    request.left -= tokens


# --- what comes of it -----------------------------------------------------------------------------


def end_iteration(env, now):
    """Everyone who decodes is told a token, and everyone whose prompt was finished the first."""
    host = env.host
    log_row(
        env, now, ITERATION, -1, host.start_ps, host.batch, host.tokens, host.context, host.pairs
    )
    host.busy = 0
    advance_decoding(env, now)
    finish_prefills(env, now)
    schedule_iteration(env, now)


def advance_decoding(env, now):
    """Another token each; who has them all leaves."""
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
    """Their prompts are computed: they are told a token, and go where they decode."""
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
    """A request has been told all of its tokens."""
    log_request(env, now, DONE, request)
    env.host.done += 1
    env.host.used -= kv_tokens(env.host, request)
    release_request(env)


def release_request(env):
    """A request is not computed with any more. Without any, nothing is to happen here."""
    env.host.sequences -= 1
    env.host.open -= 1
    if env.host.open == 0:
        cancel_timer(env, TRANSITION_TIMER)


def end_all_reduce(env, now):
    """An all-reduce is over at this GPU."""
    host = env.host
    if end_group(host):
        if host.role > 0:
            end_iteration(env, now)
        else:
            end_follower_iteration(env, now)
        return
    while host.part < host.n_parts - 1 and (host.part + 1) * host.n_groups <= (
        host.group * host.n_parts
    ):
        send_parts(env, now)
    begin_next_group(env, now)


# --- KV caches ------------------------------------------------------------------------------------


def send_part(env, now, request):
    """The next part of a request's KV cache goes to where it decodes."""
    host = env.host
    first = request.kv + request.parts * host.starts
    for place in range(first, first + host.starts):
        start(env, now, task_at(env, place))
    request.parts += 1


def send_next_part(env, now):
    """Some layers of this iteration are computed, by formula: so goes that part of KV caches."""
    host = env.host
    send_parts(env, now)
    if host.part < host.n_parts - 1:
        at = host.start_ps + host.duration_ps // host.n_parts * (host.part + 1)
        set_timer(env, now, PART, at)


def send_parts(env, now):
    """The next part of all KV caches goes; after a failure it may have gone before."""
    host = env.host
    place = host.filling
    while place >= 0:
        request = task_at(env, place)
        if request.kv >= 0 and request.parts == host.part:
            send_part(env, now, request)
        place = request.next
    host.part += 1


def end_kv_transfer(env, now, task):
    """A part of a KV cache is there. As all of it is, there is room for another one."""
    request = task_at(env, task.of)
    request.sending -= 1
    if request.sending == 0:
        env.host.used -= request.prompt
        schedule_iteration(env, now)


# --- failures -------------------------------------------------------------------------------------


def apply_transition(env, now):
    """The instance fails, is back, or is whole again."""
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
    """Note when the instance changes next, as long as there is something to do."""
    host = env.host
    if host.n_transitions > 0 and host.open > 0:
        set_timer(env, now, TRANSITION_TIMER, task_at(env, host.transition).at_ps)


def lose_all_requests(env, now):
    """What was in the memory of the GPUs is lost: all of it is to be computed once more.

    Those that were at work come before those that wait, in the order in which they were taken.
    """
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
    """A list of requests is put in front of those that wait."""
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
    """Prompt and tokens so far are to be computed, as one prompt."""
    log_request(env, now, LOST, request)
    env.host.used -= kv_tokens(env.host, request)
    env.host.sequences -= 1
    request.left = request.prompt + request.generated


# --- lists ----------------------------------------------------------------------------------------


def log_request(env, now, what, request):
    """A row of the log."""
    log_row(env, now, what, request.request, 0, 0, request.generated, 0, 0)


def put_waiting(env, request):
    """Behind those that wait."""
    host = env.host
    request.next = -1
    if host.waiting < 0:
        host.waiting = request.index
    else:
        task_at(env, host.waiting_end).next = request.index
    host.waiting_end = request.index


def put_filling(env, request):
    """Among those whose prompts are finished by this iteration."""
    host = env.host
    request.next = -1
    if host.filling < 0:
        host.filling = request.index
    else:
        task_at(env, host.filling_end).next = request.index
    host.filling_end = request.index


def put_decoding(env, request):
    """Among those that decode."""
    host = env.host
    request.next = -1
    if host.decoding < 0:
        host.decoding = request.index
    else:
        task_at(env, host.decoding_end).next = request.index
    host.decoding_end = request.index
    host.batch += 1
    host.context += request.prompt + request.generated
