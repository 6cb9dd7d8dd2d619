"""ExpressPass: shapes credits so that the data they trigger fits the reverse link.

Class 0 has credits, class 1 all other packets. A port sends credits no faster than full data
packets can return for them: 84 / (84 + 1538) = 5.18 % of the link, in bytes, with Ethernet's sizes.
It allows bursts of `credit_burst`. Data is sent while credits must wait. A credit that finds
`credit_slots` waiting is dropped; its receiver then sends fewer.

Cho, Jang and Han, "Credit-Scheduled Delay-Bounded Congestion Control for Datacenters", SIGCOMM
2017. Sizes and numbers are from the authors' ns-2 scripts.
"""

from netsim.params import Param
from netsim.queue import DROP, NO_CLASS, class_of, peek, queue_length, serialization_ps, wait_until
from netsim.queues import drop_tail

CLASSES = 2

SCRIPTS = "the authors' ns-2 scripts (kaist-ina/ns2-xpass)"

PARAMS = [
    Param("queue_bytes", "queue", "100pkt", "data, per port"),
    Param("credit_bytes", "bytes", "84B", "average size of a credit", source=SCRIPTS, minimum="1B"),
    Param("credit_slots", "count", 8, "capacity of the credit queue", source=SCRIPTS, minimum=1),
    Param("credit_burst", "count", 2, "largest burst of credits", source=SCRIPTS, minimum=1),
]

PORT_STATE = ("full_ps",)  # time at which the token bucket is, or was, full

CREDITS, DATA_CLASS = 0, 1


check = drop_tail.check


def admit(env, now, port, pkt):
    if int(pkt.prio) == CREDITS:
        if queue_length(class_of(env, port, CREDITS)) < env.par.credit_slots:
            return CREDITS
    elif class_of(env, port, DATA_CLASS).bytes + int(pkt.size_bytes) <= env.par.queue_bytes:
        return DATA_CLASS
    return DROP


def choose_class(env, now, port):
    queue = class_of(env, port, CREDITS)
    if queue_length(queue) == 0:
        return DATA_CLASS
    cost_ps = cost_of(env.par, port, int(peek(env, queue, 0).size_bytes))
    at = max(now, port.full_ps) + cost_ps - depth_of(env.par, port)
    if at <= now:
        return CREDITS
    if queue_length(class_of(env, port, DATA_CLASS)) > 0:
        return DATA_CLASS
    wait_until(env, now, port, at)
    return NO_CLASS


def on_send(env, now, port, queue, pkt):
    if int(pkt.prio) == CREDITS:
        port.full_ps = max(now, port.full_ps) + cost_of(env.par, port, int(pkt.size_bytes))


def cost_of(par, port, size):
    """Return how long the bucket takes to collect the tokens for a credit of ``size`` bytes."""
    return min(room_ps(par, port, size), depth_of(par, port))


def depth_of(par, port):
    """Return the time in which an empty bucket fills."""
    return par.credit_burst * room_ps(par, port, par.credit_bytes)


def room_ps(par, port, size):
    """Return the link time reserved for a credit of ``size`` bytes and its data."""
    full = par.payload_bytes + par.header_bytes
    alone_ps = serialization_ps(size, port.ps_per_byte_q20)
    return alone_ps * (par.credit_bytes + full) // par.credit_bytes
