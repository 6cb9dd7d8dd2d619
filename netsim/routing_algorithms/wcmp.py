"""WCMP: ECMP by the rates of the links, and resilient: only flows of a lost port move.

Weighted rendezvous hashing. Each candidate has a hash of the flow, the entropy and its port; the
flow takes the one with the least -log2(hash) / rate, which is each with a probability in proportion
to its rate. A candidate that is lost or comes back moves only its own flows. Logarithms are in
integers, with an error of at most 0.006, so every machine computes the same.

Zhou et al., "WCMP: Weighted Cost Multipathing for Improved Fairness in Data Centers", EuroSys 2014;
Thaler and Ravishankar, "Using Name-Based Mappings to Increase Hit Rates", IEEE/ACM ToN 6(1), 1998
(rendezvous hashing); the weights as in Schindelhauer and Schomaker, "Weighted Distributed Hash
Tables", SPAA 2005.
"""

from netsim.routing import FIRST_CONTROL, candidate, mix, ps_per_byte_q20

PARAMS = []

ONE_PATH = True

TWO_32 = 1 << 32


def choose(env, now, port, pkt, first, n):
    control = 1 if int(pkt.kind) >= FIRST_CONTROL else 0
    key = mix(int(pkt.flow) * 2 + control) ^ int(pkt.entropy)
    of_flow = mix(env.switch.salt ^ key)
    best = 0
    least = -1
    for k in range(n):
        p = candidate(env, first, k)
        cost = minus_log2(mix(of_flow ^ int(p))) * (ps_per_byte_q20(env, p) >> 10)
        if least < 0 or cost < least:
            least = cost
            best = k
    return best


def minus_log2(u):
    """Return about -65536 * log2(u / 2^32), for 32 random bits `u`."""
    x = 2 * u + 1
    whole = 1
    while x < TWO_32:
        x *= 2
        whole += 1
    f = (x - TWO_32) >> 16
    # log2(1 + f) is f + f (1 - f) (0.4427 - 0.164 f), with the slopes of log2 at 0 and 1.
    curve = 29013 - ((10751 * f) >> 16)
    return 65536 * whole - (f + ((((f * (65536 - f)) >> 16) * curve) >> 16))
