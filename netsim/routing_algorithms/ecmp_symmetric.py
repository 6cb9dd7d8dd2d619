"""Symmetric ECMP: as ecmp, but control packets return over the cables of their data.

The hash starts with the height of the switch, which is the number of links to the nearest host, and
not with the switch; it is the same for data and control packets. In a tree both directions then
meet at the same switch. Other networks are refused.
"""

from netsim.routing import below, mix

PARAMS = []

ONE_PATH = True
SYMMETRIC = True


def choose(env, now, port, pkt, first, n):
    return below(mix(env.switch.salt ^ mix(int(pkt.flow) * 2) ^ int(pkt.entropy)), n)
