"""WCMP: ECMP by the capacity of the paths that begin with a port; a lost port moves few flows.

Routing tables list a port in proportion to the rates of the shortest paths that begin with it, as
switches replicate entries of their ECMP groups. After a failure the shares change with the routes
(`[routing] convergence_delay`). Rendezvous hashing: each entry has a hash of the flow, the entropy,
its port and its copy number, and the flow takes the largest. An entry that is lost or added moves
only its own flows.

Zhou et al., "WCMP: Weighted Cost Multipathing for Improved Fairness in Data Centers", EuroSys 2014;
Thaler and Ravishankar, "Using Name-Based Mappings to Increase Hit Rates", IEEE/ACM ToN 6(1), 1998
(rendezvous hashing).
"""

from netsim.routing import FIRST_CONTROL, candidate, mix

PARAMS = []

ONE_PATH = True
WEIGHTED = True


def choose(env, now, port, pkt, first, n):
    control = 1 if int(pkt.kind) >= FIRST_CONTROL else 0
    key = mix(int(pkt.flow) * 2 + control) ^ int(pkt.entropy)
    of_flow = mix(env.switch.salt ^ key)
    best, largest = 0, -1
    before, copy = -1, 0
    for k in range(n):
        p = int(candidate(env, first, k))
        copy = copy + 1 if p == before else 0
        before = p
        drawn = mix(of_flow ^ p ^ (copy << 16))
        if drawn > largest:
            best, largest = k, drawn
    return best
