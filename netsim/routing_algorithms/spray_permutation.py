"""Spraying: packets take each candidate once per round, in a new random order each round.

An ingress port has rounds for data packets and others for control packets.
"""

from netsim.routing import PURPOSE_PERMUTATION, TRIMMED, mix, permuted

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
    epoch = count // n
    return permuted(mix(salt ^ (epoch & 0xFFFFFFFF)), count - epoch * n, n)
