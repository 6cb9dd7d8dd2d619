"""Spraying: packets take the candidates in turn; each round begins with a random one.

An ingress port has a turn for data packets and another for control packets.
"""

from netsim.routing import PURPOSE_PERMUTATION, TRIMMED, below, mix

PARAMS = []

PORT_STATE = ("data", "control")
PORT_SALTS = (("salt_data", PURPOSE_PERMUTATION, 2, 1), ("salt_control", PURPOSE_PERMUTATION, 2, 0))


def choose(env, now, port, pkt, first, n):
    if int(pkt.kind) <= TRIMMED:
        count = port.data
        port.data += 1
        salt = port.salt_data
    else:
        count = port.control
        port.control += 1
        salt = port.salt_control
    key = mix(salt ^ ((count // n) & 0xFFFFFFFF))
    return (count + below(key, n)) % n
