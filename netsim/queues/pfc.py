"""PFC as in real switches: pauses take effect late and expire, and a watchdog acts on endless ones.

Thresholds and counting are as in `lossless`. A paused port stops `response_quanta` after the frame
arrives, so headroom is per port: the bytes on its cable, two packets, the frame and the response.
Pauses expire after `pause_quanta`, so a switch repeats them. The watchdog polls the classes of a
port that its neighbor pauses: a class that has been paused since the last poll, and has sent no
packet, is stuck. After `watchdog_detect` this is a storm, until no pause has arrived for
`watchdog_restore`: the watchdog only reports it (`alert`), drops the class's packets, or sends them
despite the pauses. Results have a table of storms.

IEEE 802.3, annex 31B (response times); 802.1Qbb. Watchdog: SONiC, sonic-utilities `pfcwd/main.py`
and sonic-swss `orchagent/pfcwdorch.cpp`, whose times are 200 ms by default.
"""

import numpy as np

from netsim.limits import PS_BITS
from netsim.model.arithmetic import byte_quotient, serialization_ps
from netsim.params import Param
from netsim.queue import (
    DROP,
    class_of,
    drop_head,
    is_pausing,
    queue_length,
    repeat_pauses,
    set_paused,
    set_timer,
    timer_of,
)
from netsim.queues import lossless

WATCHDOG = ("none", "drop", "forward", "alert")
NONE, DROPS, FORWARDS, _ = range(4)

PARAMS = [
    *lossless.PARAMS,
    Param("response_quanta", "count", None,
          "time from a pause frame to its effect, in 512 bits; auto: by rate", none="auto",
          maximum=65_535, source="IEEE 802.3, 31B.3.7, by SONiC's buffer_headroom_mellanox.lua"),
    Param("pause_quanta", "count", 65_535, "time after which a pause ends, in 512 bits",
          optional=True, none="forever", minimum=1, maximum=65_535, source="IEEE 802.1Qbb"),
    Param("watchdog", "choice", "none",
          "what happens to the packets of a class that is paused without end", choices=WATCHDOG),
    Param("watchdog_poll", "time", "200ms", "time between two polls", minimum="1ns", maximum="1s"),
    Param("watchdog_detect", "time", "200ms", "how long a class must be stuck", maximum="1s"),
    Param("watchdog_restore", "time", "400ms",
          "without a pause, after which the class is normal again", maximum="1s"),
]  # fmt: skip

COUPLED = True
PORT_STATE = ("response_ps", "pause_ps", "headroom_limit")
PORT_TIMERS = 2
CLASS_STATE = (
    *lossless.CLASS_STATE,
    *("asked_ps", "last_ps", "polls", "sent_before", "storm"),
    *("n_storms", "first_storm_ps", "storm_began_ps", "storm_ps", "storm_drops"),  # for the report
)
SWITCH_STATE = lossless.SWITCH_STATE

REFRESH, POLL = range(2)  # timers
NEVER = 0  # value of ``asked_ps``: no pause arrives at time 0
QUANTUM_BYTES = 64
QUANTA = {
    100_000_000: 1,
    1_000_000_000: 2,
    10_000_000_000: 67,
    25_000_000_000: 80,
    40_000_000_000: 118,
    50_000_000_000: 147,
    100_000_000_000: 394,
    200_000_000_000: 453,
}
"""Response times by the highest rate; `FAST` beyond."""
FAST = 905


def no_effect(params):
    if params["watchdog"] != "none":
        return lossless.no_effect(params)
    why = ("without a watchdog", 'remove it, or set watchdog = "drop"')
    times = ("watchdog_poll", "watchdog_detect", "watchdog_restore")
    return {**lossless.no_effect(params), **dict.fromkeys(times, why)}


check = lossless.check


def port_state(params, network, packets):
    rate, delay = network.port_rate_bps, network.port_delay_ps
    q20 = byte_quotient(rate)
    rates = np.array([*QUANTA])
    quanta = np.array([*QUANTA.values(), FAST])[np.searchsorted(rates, rate)]
    if params["response_quanta"] is not None:
        quanta = np.full(rate.size, params["response_quanta"])
    lasts = 0 if params["pause_quanta"] is None else params["pause_quanta"]
    trip = (delay + delay[network.port_peer]).tolist()
    cable = [-(-r * t // PS_BITS) for r, t in zip(rate.tolist(), trip, strict=True)]
    largest = max(packets.data_bytes, packets.control_bytes)
    return {
        "response_ps": serialization_ps(QUANTUM_BYTES * quanta, q20),  # type: ignore[arg-type]
        "pause_ps": serialization_ps(QUANTUM_BYTES * lasts, q20),  # type: ignore[arg-type]
        "headroom_limit": np.array(cable) + 2 * largest + 64 + QUANTUM_BYTES * quanta,
    }


def on_arrival(env, now, port, pkt):
    cls = int(pkt.prio)
    headroom = env.par.headroom_bytes
    if headroom < 0:
        headroom = port.headroom_limit
    was = is_pausing(port, cls)
    verdict = lossless.take_in(env, port, pkt, headroom)
    if port.pause_ps > 0 and not was and is_pausing(port, cls) and timer_of(port, REFRESH) == 0:
        set_timer(env, now, port, REFRESH, now + max(1, port.pause_ps // 2))
    return verdict


on_departure = lossless.on_departure
on_drop = lossless.on_departure


def admit(env, now, port, pkt):
    cls = int(pkt.prio)
    queue = class_of(env, port, cls)
    if env.par.watchdog == DROPS and queue.storm == 1:
        queue.storm_drops += 1
        return DROP
    return cls


def on_pause(env, now, port, classes):
    ignored = 0
    for cls in range(env.par.n_classes):
        queue = class_of(env, port, cls)
        bit = 1 << cls
        if classes & bit == 0:
            queue.asked_ps = NEVER
            continue
        if queue.asked_ps == NEVER or (port.paused & bit == 0 and queue.storm == 0):
            queue.asked_ps = now
        queue.last_ps = now
        if queue.storm == 1 and env.par.watchdog == FORWARDS:
            ignored |= bit
    if env.par.watchdog != NONE and classes != 0 and timer_of(port, POLL) == 0:
        set_timer(env, now, port, POLL, (now // env.par.watchdog_poll + 1) * env.par.watchdog_poll)
    return classes & ~ignored


def on_port_timer(env, now, port, k):
    if k == POLL:
        poll(env, now, port)
    elif pauses_any(env, port):
        repeat_pauses(port)
        set_timer(env, now, port, REFRESH, now + max(1, port.pause_ps // 2))


def pauses_any(env, port):
    """Return whether the port pauses any class of its neighbor."""
    pauses = False
    for cls in range(env.par.n_classes):
        pauses = pauses or is_pausing(port, cls)
    return pauses


def poll(env, now, port):
    """Begin and end storms."""
    watched = port.paused != 0
    for cls in range(env.par.n_classes):
        queue = class_of(env, port, cls)
        if queue.storm == 1:
            if now - queue.last_ps >= env.par.watchdog_restore:
                queue.storm = queue.polls = 0
                queue.storm_ps += now - queue.storm_began_ps
        elif is_stuck(env, now, port, queue, cls):
            queue.polls += 1
            if queue.polls * env.par.watchdog_poll >= env.par.watchdog_detect:
                begin_storm(env, now, port, queue, cls)
        else:
            queue.polls = 0
        queue.sent_before = queue.sent_packets
        watched = watched or queue.storm == 1
    if watched:
        set_timer(env, now, port, POLL, now + env.par.watchdog_poll)


def is_stuck(env, now, port, queue, cls):
    """Return whether a class has been paused since the last poll, and has sent nothing."""
    if (port.paused >> cls) & 1 == 0 or queue.asked_ps == NEVER or queue_length(queue) == 0:
        return False
    return queue.asked_ps < now - env.par.watchdog_poll and queue.sent_packets == queue.sent_before


def begin_storm(env, now, port, queue, cls):
    queue.storm = 1
    queue.storm_began_ps = now
    if queue.n_storms == 0:
        queue.first_storm_ps = now
    queue.n_storms += 1
    if env.par.watchdog == DROPS:
        queue.storm_drops += queue_length(queue)
        while queue_length(queue) > 0:
            drop_head(env, now, port, queue)
    elif env.par.watchdog == FORWARDS:
        set_paused(env, now, port, port.paused & ~(1 << cls))
