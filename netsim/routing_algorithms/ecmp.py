"""ECMP: the hash of a packet's flow and entropy chooses its port at each switch.

Data and control packets of a flow are hashed separately. All packets of a flow with the same
entropy take one path.
"""

from netsim.routing import FIRST_CONTROL, below, mix

PARAMS = []

ONE_PATH = True


def choose(env, now, port, pkt, first, n):
    control = 1 if int(pkt.kind) >= FIRST_CONTROL else 0
    key = mix(int(pkt.flow) * 2 + control) ^ int(pkt.entropy)
    return below(mix(env.switch.salt ^ key), n)
