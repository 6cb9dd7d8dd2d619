"""PIE: drops arriving packets at random, to hold the queueing delay at a target.

A separate queue discipline, for the group theory; netsim runs it like a user's. Every `update` the
drop probability rises by alpha times the delay above the target and beta times the delay's growth.
Pan et al., RFC 8033, sections 4.2, 4.3 and 5; delays are bytes over the link's rate, and updates
wait for the next arrival.
"""

from netsim.params import Param
from netsim.queue import DROP, class_of, rand32
from netsim.queues import drop_tail

PARAMS = [
    Param("queue_bytes", "queue", "1000pkt", "per port and class"),
    Param("target", "time", "15ms", "queueing delay to reach"),
    Param("update", "time", "15ms", "time between updates", minimum="1us"),
    Param("burst", "time", "150ms", "no drops for so long after an idle time"),
]

CLASS_STATE = (
    ("chance", float),  # drop probability
    ("sum", float),  # of drop probabilities since the last drop
    ("delay", float),  # at the last update, seconds
    ("last_delay", float),
    "next_ps",  # update
    "until_ps",  # end of the burst allowance
    "draws",
)

ALPHA, BETA = 0.125, 1.25  # per second of delay
PURPOSE_PIE = 40
STEPS = ((1e-6, 2048), (1e-5, 512), (1e-4, 128), (1e-3, 32), (1e-2, 8), (1e-1, 2))
"""Up to these probabilities, changes are divided by these numbers; RFC 8033, section 4.2."""

check = drop_tail.check


def admit(env, now, port, pkt):
    cls = int(pkt.prio)
    queue = class_of(env, port, cls)
    if now >= queue.next_ps:
        update(env, now, port, queue)
    full = env.par.payload_bytes + env.par.header_bytes
    if queue.bytes + int(pkt.size_bytes) > env.par.queue_bytes:
        return DROP
    if now < queue.until_ps or queue.bytes <= 2 * full:
        return cls
    if queue.delay < env.par.target / 2e12 and queue.chance < 0.2:
        return cls
    return DROP if drops(env, port, queue) else cls


def drops(env, port, queue):
    """Decide at random whether to drop: never soon after a drop, always long after one."""
    queue.sum += queue.chance
    if queue.sum < 0.85:
        return False
    queue.draws += 1
    draw = rand32(env.par.seed, PURPOSE_PIE, int(port.number), queue.draws)
    if queue.sum >= 8.5 or draw < queue.chance * 2.0**32:
        queue.sum = 0.0
        return True
    return False


def update(env, now, port, queue):
    target = env.par.target / 1e12
    queue.last_delay = queue.delay
    queue.delay = float(queue.bytes) * port.ps_per_byte_q20 / 2.0**20 / 1e12
    change = ALPHA * (queue.delay - target) + BETA * (queue.delay - queue.last_delay)
    divisor = 1
    for largest, by in STEPS:
        if queue.chance < largest:
            divisor = by
            break
    change /= divisor
    if queue.chance >= 0.1:
        change = min(change, 0.02)
    queue.chance = min(1.0, max(0.0, queue.chance + change))
    if queue.delay == 0 and queue.last_delay == 0:
        queue.chance *= 0.98
    calm = queue.delay < target / 2 and queue.last_delay < target / 2
    if queue.chance == 0 and calm:
        queue.until_ps = now + env.par.burst
    queue.next_ps = now + env.par.update
