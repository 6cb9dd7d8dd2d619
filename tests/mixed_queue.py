"""A random queue discipline that uses every service, for comparison with the reference.

Its twin is `reference/mixed.py`.
"""

import numpy as np

from netsim.params import Param
from netsim.queue import (
    ACCEPT,
    ACK,
    DATA,
    DROP,
    NO_CLASS,
    bounce,
    class_of,
    drop_head,
    emit,
    enqueue,
    mark,
    pause,
    pop_tail,
    queue_length,
    rand32,
    remove,
    repeat_pauses,
    resume,
    set_paused,
    set_timer,
    source_of,
    wait_until,
)

PARAMS = [
    Param("queue_bytes", "queue", "8pkt", "per port and class"),
    Param("buffer_bytes", "queue", "40pkt", "of the switch, for what comes in"),
    Param("gap", "time", "100ns", "for which a port waits now and then"),
    Param("classes", "count", 1, "those of the fabric"),
    Param("makes", "bool", False, "whether switches make and return packets"),
]

COUPLED = True
PORT_STATE = ("draws", "response_ps", "pause_ps")
PORT_TIMERS = 2
CLASS_STATE = ("came_in",)
SWITCH_STATE = ("held",)

CHANCE = 32


def draw(env, port):
    port.draws += 1
    return rand32(env.par.seed, CHANCE, int(port.number), port.draws)


def on_arrival(env, now, port, pkt):
    size = int(pkt.size_bytes)
    if env.switch.held + size > env.par.buffer_bytes and draw(env, port) % 4 > 0:
        return DROP
    env.switch.held += size
    queue = class_of(env, port, int(pkt.prio))
    queue.came_in += 1
    if queue.came_in % 8 == 0:
        pause(env, port, int(pkt.prio))
    return ACCEPT


def on_departure(env, now, port, cls, size):
    env.switch.held -= size
    if draw(env, port) % 2 == 0:
        resume(env, port, cls)


on_drop = on_departure


def on_pause(env, now, port, classes):
    chance = draw(env, port)
    if chance % 4 == 0:
        set_some_timer(env, now, port, chance)
    if chance % 3 == 0:
        return classes & ~(chance >> 8)
    return classes


def on_port_timer(env, now, port, k):
    chance = draw(env, port)
    if chance % 2 == 0:
        set_paused(env, now, port, chance % 2**env.par.classes if k == 0 else 0)
    if chance % 3 == 0:
        repeat_pauses(port)
    queue = class_of(env, port, chance % env.par.classes)
    if chance % 5 == 0 and queue_length(queue) > 0:
        remove(env, now, port, queue, queue_length(queue) - 1)
    if port.backlog != 0:
        set_some_timer(env, now, port, chance)


def set_some_timer(env, now, port, chance):
    time = 0
    if chance % 7 != 0:
        time = now + 1 + chance % (env.par.gap + 1)
    set_timer(env, now, port, chance // 7 % 2, time)


def port_state(params, network, packets):
    local = np.arange(network.n_ports) - network.node_first_port[network.port_node]
    return {"response_ps": 50_000 * (local % 4), "pause_ps": 3_000_000 * (local % 3)}


def admit(env, now, port, pkt):
    cls = int(pkt.prio)
    chance = draw(env, port)
    other = (chance + source_of(env, pkt)) % env.par.classes
    queue = class_of(env, port, other)
    behind = (other + 1) % env.par.classes
    if chance % 3 == 0 and queue_length(queue) > 0 and behind != cls:
        removed = pop_tail(env, port, queue)
        if env.par.makes == 1 and chance % 5 == 0 and int(removed.kind) < ACK:
            bounce(env, now, port, removed)
        else:
            enqueue(env, now, port, behind, removed)
    if env.par.makes == 1 and chance % 11 == 0 and int(pkt.kind) < ACK:
        bounce(env, now, port, pkt)
        return DROP
    if class_of(env, port, cls).bytes + int(pkt.size_bytes) > env.par.queue_bytes:
        return DROP
    return cls


def choose_class(env, now, port):
    chance = draw(env, port)
    if chance % 4 == 0:
        wait_until(env, now, port, now + 1 + env.par.gap)
        return NO_CLASS
    cls = chance % env.par.classes
    while queue_length(class_of(env, port, cls)) == 0 or (port.paused >> cls) & 1 == 1:
        cls = (cls + 1) % env.par.classes
    return cls


def choose_packet(env, now, port, queue):
    chance = draw(env, port)
    if chance % 8 == 0 and queue_length(queue) > 1:
        drop_head(env, now, port, queue)
    if chance % 8 == 1 and queue_length(queue) > 2:
        remove(env, now, port, queue, 1)
    return chance % queue_length(queue)


def on_send(env, now, port, queue, pkt):
    pkt.entropy = (int(pkt.entropy) + 1) % 65536
    chance = draw(env, port)
    if chance % 8 == 0 and int(pkt.kind) == DATA:
        mark(env, now, port, queue, pkt)
    if env.par.makes == 1 and chance % 16 == 1:
        emit(env, port, pkt, ACK + chance % 7, chance % 1000, chance % env.par.classes)
