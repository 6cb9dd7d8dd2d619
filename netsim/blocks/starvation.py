"""Is a silent message lost, or does it wait in the last switch behind others of higher classes?

A receiver that grants messages by priority sees what its own link serves. As long as that has been
busy with higher classes since the message could last have been heard of, the message only starves.

    RX_STATE = (*starvation.RX_STATE, ...)
    HOST_STATE = (*starvation.HOST_STATE, ...)

`rx.rtt_ps` is for the transport to set, in `setup`.
"""

from netsim.transport import full_packet_bytes, serialization_ps

RX_STATE = ("rtt_ps", "granted_class", "waits_in", "waits_upto", "heard_ps", "served_then")
"""The base round trip; class of the last grant; the lowest class of packets that may be missing,
all before ``waits_upto``; since when it is silent, how many of that class had come by then."""

HOST_STATE = (("served", 8), ("served_ps", 8), "last_ps", "busy_ps")
"""By class: packets that have come, and when the last one did. When the last of all classes did,
and since when they have come back to back."""

CLASSES = 8


def on_data(env, now, pkt):
    """A data packet arrived.

    The link has stood idle if more time has gone by since the last one than this one takes and, for
    control packets between them, a quarter of a full packet.
    """
    host = env.host
    own_ps = serialization_ps(int(pkt.size_bytes), host.ps_per_byte_q20)
    if now - host.last_ps > own_ps + packet_time(env) // 4:
        host.busy_ps = now
    host.last_ps = now
    host.served[int(pkt.prio)] += 1
    host.served_ps[int(pkt.prio)] = now


def packet_time(env):
    """Of a full packet at the rate of the host."""
    return serialization_ps(full_packet_bytes(env), env.host.ps_per_byte_q20)


def granted_in(rx, of_class, upto):
    """Packets before ``upto`` come in a class, earlier ones perhaps in a lower one."""
    rx.granted_class = of_class
    if of_class >= rx.waits_in:
        rx.waits_in = of_class
        rx.waits_upto = upto


def forget_class(rx):
    """What is missing comes in the class of the last grant."""
    rx.waits_in = rx.granted_class


def begin_silence(env, now, rx):
    """Something was heard of the message, or said to its sender."""
    rx.heard_ps = now
    rx.served_then = env.host.served[rx.waits_in]


def starves(env, now, rx, most_queued):
    """May the message be waiting, behind at most so many packets of its own class?"""
    ahead = env.host.served[rx.waits_in] - rx.served_then
    return ahead <= most_queued and held_up(env, now, rx.waits_in, rx.heard_ps + rx.rtt_ps)


def held_up(env, now, of_class, since_ps):
    """Has the host's link served nothing below a class, and never been idle, since a time?"""
    host = env.host
    if host.busy_ps > since_ps or now - host.last_ps > 2 * packet_time(env):
        return False
    only_higher = True
    for lower in range(of_class + 1, CLASSES):
        if host.served_ps[lower] > since_ps:
            only_higher = False
    return only_higher
