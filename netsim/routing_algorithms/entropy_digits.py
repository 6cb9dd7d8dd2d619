"""Digits of the entropy choose a packet's ports, one digit per tier, as in static SRv6 paths.

An entropy is a number: its lowest digit, in base `digit_planes`, is the plane, which the host has
chosen; then follows a digit in base `digit_base` for each switch with a choice, starting at the
first. A digit is a port's index, modulo the number of ports. So a sender knows which cables an
entropy takes, and flows with the same entropy between two switches share their cables.

MRC can name paths in this way (an entropy value is part of a static SRv6 address), or leave them to
ECMP: repository opencomputeproject/OCP-Multipath-Reliable-Connection, mrc_ctl.h
(`mrc_ctl_ev_fmt_mode`).
"""

from netsim.params import Param

PARAMS = [
    Param("digit_planes", "count", 1, "planes, if entropies choose them", minimum=1, maximum=65536),
    Param(
        "digit_base", "count", 256, "values of a switch's digit: its uplinks",
        minimum=1, maximum=65536,
    ),
]  # fmt: skip

ONE_PATH = True


def choose(env, now, port, pkt, first, n):
    digits = int(pkt.entropy) // env.par.digit_planes
    for _ in range(int(pkt.hops) - 1):
        digits //= env.par.digit_base
    return digits % n
