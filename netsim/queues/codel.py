"""CoDel: drops packets at the head when all packets have waited longer than a target.

When every packet sent within an `interval` has waited at least `target`, the head is dropped.
Further drops follow after interval / sqrt(2), interval / sqrt(3), ..., until a packet has waited
less than `target`. With `mark`, data packets are ECN-marked instead. Queues are also finite.

Nichols et al., "Controlled Delay Active Queue Management", RFC 8289, section 5. Square roots are
rounded down to whole nanoseconds, so every machine computes the same.
"""

import math

from netsim.params import Param
from netsim.queue import DATA, drop_head, mark, peek
from netsim.queues import drop_tail

PARAMS = [
    Param("queue_bytes", "queue", "1000pkt", "per port and class"),
    drop_tail.QUEUE_PACKETS,
    Param("target", "time", "5us", "acceptable queueing delay; about 5 to 10 % of `interval`",
          source="RFC 8289, section 4.3, has the ratio, and 5 ms for the Internet"),
    Param("interval", "time", "100us",
          "time within which one packet must wait less than `target`; a long round-trip time",
          source="RFC 8289, section 4.2, has the rule, and 100 ms for the Internet", minimum="1ns",
          maximum="1s"),
    Param("mark", "bool", False, "mark data packets (ECN) instead of dropping them"),
]  # fmt: skip

CLASS_STATE = ("above_ps", "dropping", "next_ps", "count", "last_count")

NONE = 0  # ``above_ps`` after a packet that waited less than `target`; no interval ends at time 0


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
    """Drop the head; continue at the rate of the last dropping phase if it was recent."""
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
    """Drop all packets that are due."""
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
    """Return whether packets, including the head, have waited too long for an interval."""
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
    """Mark or drop the head; return whether it was marked."""
    head = peek(env, queue, 0)
    if env.par.mark and int(head.kind) == DATA:
        mark(env, now, port, queue, head)
        return True
    drop_head(env, now, port, queue)
    return False


def gap_ps(interval, count):
    """Return interval / sqrt(count), rounded down to whole nanoseconds."""
    ns = interval // 1000
    square = ns * ns // count
    root = int(math.sqrt(square))
    while root * root > square:
        root -= 1
    while (root + 1) * (root + 1) <= square:
        root += 1
    return 1000 * root
