"""Spraying: packets take each candidate once per round, in a new random order each round.

An ingress port has rounds for data packets and others for control packets.
"""

from netsim.routing import PURPOSE_PERMUTATION, TRIMMED, mix, permuted

PARAMS = []

PORT_STATE = ("data", "control")
PORT_SALTS = (("salt_data", PURPOSE_PERMUTATION, 2, 1), ("salt_control", PURPOSE_PERMUTATION, 2, 0))


def choose(env, now, port, pkt, first, n):
    count, salt = counted(port, pkt)
    epoch = count // n
    return permuted(mix(salt ^ (epoch & 0xFFFFFFFF)), count - epoch * n, n)


def counted(port, pkt):
    """Return the number of earlier packets of this kind, data or control, and the kind's salt."""
    if int(pkt.kind) <= TRIMMED:
        port.data += 1
        return port.data - 1, port.salt_data
    port.control += 1
    return port.control - 1, port.salt_control
