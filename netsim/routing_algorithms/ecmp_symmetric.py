"""Symmetric ECMP: like ecmp, but control packets return over the cables of their data.

The hash uses the switch's height, its number of links to the nearest host, instead of the switch;
it is the same for data and control packets. So in a tree both directions meet at the same switch.
Other networks are refused.
"""

from netsim.routing import below, mix

PARAMS = []

ONE_PATH = True
SYMMETRIC = True


def choose(env, now, port, pkt, first, n):
    return below(mix(env.switch.salt ^ mix(int(pkt.flow) * 2) ^ int(pkt.entropy)), n)
