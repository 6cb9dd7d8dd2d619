"""A host's list of incoming messages, fewest remaining bytes first.

Arrivals only move a message toward the front, so keeping the order is almost free, however many
messages there are. Ties keep their order of arrival.

A link (``above``, ``below``, and the host's ``first``, ``last``) is a flow's number + 1: 0 is none.
"""

RX_STATE = ("above", "below")
HOST_STATE = ("first", "last", "n_active", ("active", 8))


def insert(env, rx):
    """Add a message to the list."""
    _place(env, rx, env.host.last)


def lift(env, rx):
    """Move a message to its new position after bytes arrived. Return whether it moved."""
    if rx.above == 0 or not _longer(env, rx.above, rx):
        return False
    above = rx.above
    remove(env, rx)
    _place(env, rx, above)
    return True


def remove(env, rx):
    """Remove a message from the list."""
    _join(env, rx.above, rx.below)


def choose_active(env, most):
    """Set the host's ``active`` flows: the first messages, one per sender, at most 8."""
    host = env.host
    n = 0
    link = host.first
    while link != 0 and n < most:
        rx = env.rx[link - 1]
        is_first = True
        for i in range(n):
            if env.rx[host.active[i]].peer == rx.peer:
                is_first = False
        if is_first:
            host.active[n] = rx.flow
            n += 1
        link = rx.below
    host.n_active = n


def _place(env, rx, above):
    """Insert a message after the last message, from ``above`` upward, with no more bytes left."""
    below = 0
    if above != 0:
        below = env.rx[above - 1].below
    while above != 0 and _longer(env, above, rx):
        below = above
        above = env.rx[above - 1].above
    _join(env, above, rx.flow + 1)
    _join(env, rx.flow + 1, below)


def _longer(env, link, rx):
    """Return whether the message at ``link`` has more bytes left than ``rx``."""
    other = env.rx[link - 1]
    return other.size_bytes - other.received_bytes > rx.size_bytes - rx.received_bytes


def _join(env, above, below):
    """Link two neighbors; 0 is an end of the list."""
    if above == 0:
        env.host.first = below
    else:
        env.rx[above - 1].below = below
    if below == 0:
        env.host.last = above
    else:
        env.rx[below - 1].above = above
