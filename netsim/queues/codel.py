"""CoDel: packets are dropped from the head while all have waited longer than a target.

Once every packet that was sent within an `interval` had waited for `target` or longer, the head
is dropped, and then another one after interval / sqrt(2), / sqrt(3), ... of an interval, until
one has waited less. With `mark` data packets are marked (ECN) instead. Queues also have an end.

Nichols et al., "Controlled Delay Active Queue Management", RFC 8289, section 5. Its square roots
are whole numbers of nanoseconds here, rounded down, so that every machine computes the same.
"""

import math

from netsim.params import Param
from netsim.queue import DATA, drop_head, mark, peek
from netsim.queues import drop_tail

PARAMS = [
    Param("queue_bytes", "queue", "1000pkt", "per port and class"),
    Param(
        "target",
        "time",
        "5us",
        "queueing delay that is always allowed; about 5 to 10 % of `interval`",
        source="RFC 8289, section 4.3, has the ratio, and 5 ms for the Internet",
    ),
    Param(
        "interval",
        "time",
        "100us",
        "within it, one packet must wait less than `target`; a long round-trip time",
        source="RFC 8289, section 4.2, has the rule, and 100 ms for the Internet",
        minimum="1ns",
        maximum="1s",
    ),
    Param("mark", "bool", False, "mark data packets (ECN) instead of dropping them"),
]

CLASS_STATE = ("above_ps", "dropping", "next_ps", "count", "last_count")

NONE = 0
"""Of ``above_ps``: the last packet did not wait for long. No interval has passed at time 0."""


admit = drop_tail.admit
check = drop_tail.check


def choose_packet(env, now, port, queue):
    if not may_drop(env, now, queue):
        queue.dropping = 0
    elif queue.dropping == 1:
        drop_due(env, now, port, queue)
    else:
        start_dropping(env, now, port, queue)
    return 0


def start_dropping(env, now, port, queue):
    """Drop the head, and begin where the last such phase ended if that was not long ago."""
    if not signal(env, now, port, queue):
        may_drop(env, now, queue)
    queue.dropping = 1
    more = queue.count - queue.last_count
    queue.count = 1
    if more > 1 and now - queue.next_ps < 16 * env.par.interval:
        queue.count = more
    queue.last_count = queue.count
    queue.next_ps = now + gap_ps(env.par.interval, queue.count)


def drop_due(env, now, port, queue):
    """Drop as many as are due."""
    while queue.dropping == 1 and now >= queue.next_ps:
        queue.count += 1
        marked = signal(env, now, port, queue)
        if marked or may_drop(env, now, queue):
            queue.next_ps += gap_ps(env.par.interval, queue.count)
        else:
            queue.dropping = 0
        if marked:
            break


def may_drop(env, now, queue):
    """Did packets wait too long for an interval? The head is the latest to tell."""
    head = peek(env, queue, 0)
    behind = queue.bytes - int(head.size_bytes)
    full = env.par.payload_bytes + env.par.header_bytes
    if now - int(head.time) < env.par.target or behind <= full:
        queue.above_ps = NONE
        return False
    if queue.above_ps == NONE:
        queue.above_ps = now + env.par.interval
        return False
    return now >= queue.above_ps


def signal(env, now, port, queue):
    """Mark the head or drop it; returns whether it was marked."""
    head = peek(env, queue, 0)
    if env.par.mark and int(head.kind) == DATA:
        mark(env, now, port, queue, head)
        return True
    drop_head(env, now, port, queue)
    return False


def gap_ps(interval, count):
    """interval / sqrt(count): the largest whole number of ns whose square is not too large."""
    ns = interval // 1000
    square = ns * ns // count
    root = int(math.sqrt(square))
    while root * root > square:
        root -= 1
    while (root + 1) * (root + 1) <= square:
        root += 1
    return 1000 * root
