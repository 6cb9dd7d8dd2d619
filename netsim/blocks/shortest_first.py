"""A host's list of incoming messages, those with the fewest bytes left first.

Arrivals only ever move a message toward the front, so that keeping the order costs nothing
most of the time, however many messages there are. Among equals the one that came first is first.

A link (``above``, ``below``, and the host's ``first``, ``last``) is a flow's number + 1: 0 is none.
"""

RX_STATE = ("above", "below")
HOST_STATE = ("first", "last", "n_active", ("active", 8))


def insert(env, rx):
    """Put a message on the list."""
    _settle(env, rx, env.host.last)


def lift(env, rx):
    """Move a message of the list to its place after bytes of it arrived; was it elsewhere?"""
    if rx.above == 0 or not _longer(env, rx.above, rx):
        return False
    above = rx.above
    remove(env, rx)
    _settle(env, rx, above)
    return True


def remove(env, rx):
    """Take a message off the list."""
    _join(env, rx.above, rx.below)


def choose_active(env, most):
    """Find the first messages, one of each sender and at most 8: the host's ``active`` flows."""
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


def _settle(env, rx, above):
    """Put a message behind the last one from ``above`` on upwards that is no longer than it."""
    below = 0
    if above != 0:
        below = env.rx[above - 1].below
    while above != 0 and _longer(env, above, rx):
        below = above
        above = env.rx[above - 1].above
    _join(env, above, rx.flow + 1)
    _join(env, rx.flow + 1, below)


def _longer(env, link, rx):
    """Has the message at ``link`` more bytes left than ``rx``?"""
    other = env.rx[link - 1]
    return other.size_bytes - other.received_bytes > rx.size_bytes - rx.received_bytes


def _join(env, above, below):
    """Make two links neighbors; none stands for the ends of the list."""
    if above == 0:
        env.host.first = below
    else:
        env.rx[above - 1].below = below
    if below == 0:
        env.host.last = above
    else:
        env.rx[below - 1].above = above
