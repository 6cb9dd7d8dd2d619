"""Flowlets in round-robin order: a flow takes its next port after a pause.

Describe the algorithm here in the terms of its paper, and cite it with the section. `netsim list`
and `netsim show` print the first line. Flowlets come from Sinha, Kandula and Katabi,
"Harnessing TCP's burstiness with flowlet switching", HotNets 2004.
"""

from netsim.params import Param
from netsim.routing import FIRST_CONTROL, below, flow_row, mix

# --- Parameters: keys of [fabric] in an experiment, --set fabric.flowlet_gap=2us -----------------
# Units: time (picoseconds), bytes, rate (bit/s), count, fraction, ratio, bool, choice.
PARAMS = [Param("flowlet_gap", "time", "500ns", "pause after which a flow may take another port")]
# Named sets of values: routing = "./my_routing.py:never"
PRESETS = {"never": {"flowlet_gap": "1s"}}

# --- State, initially zero. A bare name is an int64, ("name", float) a float64 -------------------
FLOW_TABLE = ("turn", "last_ps")  # a row of each ingress port: one flow, or a few that share it
FLOW_ROWS = 1024


# --- Handlers: the engine calls and compiles them ------------------------------------------------


def choose(env, now, port, pkt, first, n):
    """Return one of n > 1 candidates for a packet that came in by `port`."""
    row = flow_row(env, port, pkt)
    if now - row.last_ps > env.par.flowlet_gap:
        row.turn += 1
    row.last_ps = now
    return (first_choice(env, pkt, n) + row.turn) % n


# Your own functions are compiled, too; the engine calls only handlers.


def first_choice(env, pkt, n):
    """Return a flow's first candidate: a hash of flow, direction and switch."""
    control = 1 if int(pkt.kind) >= FIRST_CONTROL else 0
    return below(mix(env.switch.salt ^ mix(int(pkt.flow) * 2 + control)), n)
