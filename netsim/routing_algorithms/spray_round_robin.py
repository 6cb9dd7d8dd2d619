"""Spraying: packets take the candidates in turn; each round begins with a random one.

An ingress port has a turn for data packets and another for control packets.
"""

from netsim.routing import below, mix
from netsim.routing_algorithms import spray_permutation

PARAMS = []

PORT_STATE = spray_permutation.PORT_STATE
PORT_SALTS = spray_permutation.PORT_SALTS


def choose(env, now, port, pkt, first, n):
    count, salt = spray_permutation.counted(port, pkt)
    key = mix(salt ^ ((count // n) & 0xFFFFFFFF))
    return (count + below(key, n)) % n
