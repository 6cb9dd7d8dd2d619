"""Decide whether a silent message is lost or waits in the last switch for higher classes.

A receiver that grants messages by priority sees only its own link. A message starves only if
that link has served only higher classes since the last possible news of the message.

    RX_STATE = (*starvation.RX_STATE, ...)
    HOST_STATE = (*starvation.HOST_STATE, ...)

The transport sets `rx.rtt_ps` in `setup`.
"""

from netsim.transport import full_packet_bytes, serialization_ps

RX_STATE = ("rtt_ps", "granted_class", "waits_in", "waits_upto", "heard_ps", "served_then")
"""Base round trip; class of the last grant; lowest class of packets that may be missing, all before
``waits_upto``; start of the silence, and packets of that class received by then."""

HOST_STATE = (("served", 8), ("served_ps", 8), "last_ps", "busy_ps")
"""Per class: packets received, and when the last one arrived. For all classes: when the last one
arrived, and when back-to-back arrivals began."""

CLASSES = 8


def on_data(env, now, pkt):
    """Count a data packet. The link was idle if the time since the last packet exceeds this
    packet's transmission time plus a quarter of a full packet, an allowance for control packets."""
    host = env.host
    own_ps = serialization_ps(int(pkt.size_bytes), host.ps_per_byte_q20)
    if now - host.last_ps > own_ps + packet_time(env) // 4:
        host.busy_ps = now
    host.last_ps = now
    host.served[int(pkt.prio)] += 1
    host.served_ps[int(pkt.prio)] = now


def packet_time(env):
    """Return the transmission time of a full packet at the host's rate."""
    return serialization_ps(full_packet_bytes(env), env.host.ps_per_byte_q20)


def granted_in(rx, of_class, upto):
    """Record that packets before ``upto`` come in a class; earlier ones may come in a lower one."""
    rx.granted_class = of_class
    if of_class >= rx.waits_in:
        rx.waits_in = of_class
        rx.waits_upto = upto


def forget_class(rx):
    """Assume that missing packets come in the class of the last grant."""
    rx.waits_in = rx.granted_class


def begin_silence(env, now, rx):
    """Restart the silence: there was news of it, or its sender was asked."""
    rx.heard_ps = now
    rx.served_then = env.host.served[rx.waits_in]


def starves(env, now, rx, most_queued):
    """Return whether at most ``most_queued`` packets of its class are ahead of the message."""
    ahead = env.host.served[rx.waits_in] - rx.served_then
    return ahead <= most_queued and held_up(env, now, rx.waits_in, rx.heard_ps + rx.rtt_ps)


def held_up(env, now, of_class, since_ps):
    """Return whether the host's link served only higher classes without a break since a time."""
    host = env.host
    if host.busy_ps > since_ps or now - host.last_ps > 2 * packet_time(env):
        return False
    only_higher = True
    for lower in range(of_class + 1, CLASSES):
        if host.served_ps[lower] > since_ps:
            only_higher = False
    return only_higher
