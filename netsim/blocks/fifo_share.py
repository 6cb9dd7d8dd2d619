"""A share of what a receiver grants for its oldest message, so that long ones are not starved.

It works on the list of `shortest_first`.

    RX_STATE = (*fifo_share.RX_STATE, "granted", "n_got", "window", ...)
    HOST_STATE = (*fifo_share.HOST_STATE, ...)

`granted`, `n_got` and `window` are packets: granted and received so far, and to be kept granted but
not received. `rx.since_ps` is for the transport to set, when a message begins.
"""

RX_STATE = ("since_ps",)
HOST_STATE = ("oldest", ("fifo_credit", float))
"""The message that has the share, a flow's number + 1 as in the list, and what has added up."""

NONE = -1


def due(env, share):
    """A packet arrived: the flow to which one more is to be granted for it, or NONE."""
    host = env.host
    host.fifo_credit = min(host.fifo_credit + share, 1.0)
    if host.fifo_credit < 1.0 or host.first == 0:
        return NONE
    if host.oldest == 0 or not takes_more(env.rx[host.oldest - 1]):
        host.oldest = find_oldest(env)
    if host.oldest != 0:
        host.fifo_credit = 0.0
    return host.oldest - 1


def takes_more(rx):
    """Is there something to grant, and does the sender send what has been granted?"""
    return rx.granted < min(rx.n_packets, rx.n_got + 2 * rx.window)


def find_oldest(env):
    """Of the messages on the list; 0 if there is none that takes more."""
    oldest = 0
    link = env.host.first
    while link != 0:
        rx = env.rx[link - 1]
        if takes_more(rx) and (oldest == 0 or rx.since_ps < env.rx[oldest - 1].since_ps):
            oldest = link
        link = rx.below
    return oldest
