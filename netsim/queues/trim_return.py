"""Packet trimming that returns headers to their senders when the queue of headers is full.

Like `trim`, but a header that does not fit goes back to its sender, so that no sender waits for a
timeout even if an incast fills the queue of headers. Handley et al. (NDP), SIGCOMM 2017, section
3.2.4. Only transports with `on_returned`, such as `ndp`, use returned packets.
"""

from netsim.queue import ACK, DROP, bounce, enqueue
from netsim.queues import trim
from netsim.queues.trim import BULK, HEADERS, fits

CLASSES = trim.CLASSES
PARAMS = trim.PARAMS
COUPLED = True
PORT_STATE = trim.PORT_STATE

check = trim.check
choose_class = trim.choose_class
on_send = trim.on_send


def admit(env, now, port, pkt):
    if int(pkt.prio) == BULK and not fits(env, port, BULK, pkt, env.par.queue_bytes):
        if trim.takes_the_last_place(env, port, pkt):
            last = trim.cut_the_last(env, now, port)
            if fits(env, port, HEADERS, last, env.par.header_queue_bytes):
                enqueue(env, now, port, HEADERS, last)
            else:
                bounce(env, now, port, last)
            return BULK
        if int(pkt.kind) >= ACK:
            return DROP
        trim.cut(env, now, port, pkt)
    cls = trim.admit(env, now, port, pkt)
    if cls == DROP and int(pkt.prio) == HEADERS and int(pkt.kind) < ACK:
        bounce(env, now, port, pkt)
    return cls
