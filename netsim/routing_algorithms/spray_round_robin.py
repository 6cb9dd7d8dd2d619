"""Spraying: packets take the candidates in round-robin order, from a random one in each round.

An ingress port has rounds for data packets and others for control packets.
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
