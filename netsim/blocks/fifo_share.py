"""Reserve a share of a receiver's grants for its oldest message, so long ones do not starve.

Uses the list of `shortest_first`.

    RX_STATE = (*fifo_share.RX_STATE, "granted", "n_got", "window", ...)
    HOST_STATE = (*fifo_share.HOST_STATE, ...)

`granted` and `n_got` count packets granted and received; `window` is the number of packets to keep
granted but not received. The transport sets `rx.since_ps` when a message begins.
"""

RX_STATE = ("since_ps",)
HOST_STATE = ("oldest", ("fifo_credit", float))
"""The message that has the share (flow number + 1, as in the list), and its accumulated credit."""

NONE = -1


def due(env, share):
    """Return the flow to grant one more packet for a packet that arrived, or NONE."""
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
    """Return whether the message can be granted more and its sender uses its grants."""
    return rx.granted < min(rx.n_packets, rx.n_got + 2 * rx.window)


def find_oldest(env):
    """Return the oldest message on the list that can take more; 0 if there is none."""
    oldest = 0
    link = env.host.first
    while link != 0:
        rx = env.rx[link - 1]
        if takes_more(rx) and (oldest == 0 or rx.since_ps < env.rx[oldest - 1].since_ps):
            oldest = link
        link = rx.below
    return oldest
