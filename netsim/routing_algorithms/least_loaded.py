"""Least loaded: each packet takes the candidate with the fewest bytes held, ties at random.

Bytes held are the packets of all classes, including the one being sent. The search begins at a
random candidate and takes the first with the fewest bytes.
"""

from netsim.routing import PURPOSE_SPRAY, below, candidate, held, mix

PARAMS = []

COUPLED = True
PORT_SALTS = (("salt", PURPOSE_SPRAY, 1, 0),)


def choose(env, now, port, pkt, first, n):
    start = below(mix(port.salt ^ (port.draws & 0xFFFFFFFF)), n)
    port.draws += 1
    best = start
    best_bytes = -1
    for j in range(n):
        k = start + j
        if k >= n:
            k -= n
        n_bytes = held(env, candidate(env, first, k))
        if best_bytes < 0 or n_bytes < best_bytes:
            best_bytes = n_bytes
            best = k
    return best
