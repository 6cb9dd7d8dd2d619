"""Spraying: each packet takes a random port of its candidates."""

from netsim.routing import PURPOSE_SPRAY, below, mix

PARAMS = []

PORT_SALTS = (("salt", PURPOSE_SPRAY, 1, 0),)


def choose(env, now, port, pkt, first, n):
    k = below(mix(port.salt ^ (port.draws & 0xFFFFFFFF)), n)
    port.draws += 1
    return k
